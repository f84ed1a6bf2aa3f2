"""A restore at its renames: a marker beside the home names them, so that whoever comes after a kill or a loss of power finishes them.

The marker is synced before the first rename and removed after the last. Each rename stays within one disk, so it is done or not done.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from agent import fault_injection
from gateway.base.atomic_file import sync
from gateway.base.errors import AlreadyRunning, RestoreUnfinished, StorageFailed
from gateway.base.held_signals import HeldSignals
from gateway.base.paths import Paths

FINISH: Final = "homebody backup restore --finish"
NEAR_INSIDE: Final = ".to-restore-"
"""How the folder begins in which what goes into a mounted folder is prepared."""


@dataclass(frozen=True, slots=True)
class Rename:
    """One rename. ``aside``: it makes room or keeps something, and is done once ``target`` is there; others once ``source`` is gone."""

    source: str
    target: str
    aside: bool = False

    def is_done(self) -> bool:
        """Return whether it was done. Raises StorageFailed where neither name is there: a disk is not mounted, most likely."""
        if self.aside:
            return os.path.lexists(self.target)
        if os.path.lexists(self.source):
            return False
        if not os.path.lexists(self.target):
            why = f"neither {self.source} nor {self.target} is there, so the restore cannot be finished"
            raise StorageFailed(why, where=self.target, hint=f"Mount its disk. Then: {FINISH}")
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All renames of a restore in their order. ``moved``: where what was there goes, by its place; ``left`` is deleted at the end."""

    file: str
    began: str
    left: tuple[str, ...]
    renames: tuple[Rename, ...]
    moved: dict[str, str]


def marker_of(home: Path) -> Path:
    """Return the name of the marker: beside the home, which may not be there; inside of one that is mounted."""
    inside, beside = Paths(home).restore_markers()
    return inside if home.is_mount() else beside


def marked(home: Path) -> Path | None:
    """Return the marker of a restore that is at its renames; None where there is none. Blocking."""
    return next((path for path in Paths(home).restore_markers() if path.is_file() and not path.is_symlink()), None)


def unfinished(home: Path) -> RestoreUnfinished | None:
    """Return the error that tells of a restore or migration which was broken off; None where there is none. Blocking."""
    if (marker := marked(home)) is None:
        return _unfinished_migration(home)
    try:
        plan: Plan | None = _read(marker)
    except StorageFailed:
        plan = None
    of = f" of {plan.file}, begun {plan.began[:16]}Z," if plan is not None else ""
    return RestoreUnfinished(
        f"a restore{of} was broken off: home and workspaces are a mixture of before and after it",
        where=str(home),
        hint=f"Finish it: {FINISH} (the start of the gateway does it, too)",
    )


def _unfinished_migration(home: Path) -> RestoreUnfinished | None:
    marker = Paths(home).migration_marker
    try:
        command = str(json.loads(marker.read_bytes())["command"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        command = "homebody migrate from-clawdbot PATH"
    return RestoreUnfinished(
        "taking over another program's state was broken off: settings, notes, conversations or jobs are missing",
        where=str(home),
        hint=f"Go on with it: {command}   (To keep what is there as it is: rm {shlex.quote(str(marker))})",
    )


def carry_out(plan: Plan, marker: Path) -> None:
    """Write the marker, rename everything, and remove the marker. What fails is undone. Blocking. Raises StorageFailed."""
    done: list[Rename] = []
    fault_injection.point("before", "restore_marker")
    with _written(plan, marker):
        try:
            for rename in plan.renames:
                fault_injection.point("before", "restore_rename")
                _rename(rename)
                done.append(rename)
                fault_injection.point("after", "restore_rename")
        except OSError as error:
            _undo(done)
            _removed(marker)
            place = plan.renames[len(done)].target
            raise StorageFailed.from_os(error, "put the backup in place (nothing was changed)", place) from error
        _removed(marker)


def finish(home: Path) -> Plan | None:
    """Finish the restore that was broken off; return what it was, or None where there is none. Blocking.

    Raises:
        AlreadyRunning: it is not broken off: another process does its renames.
        StorageFailed: a part cannot be put in place; the marker stays.
    """
    if (marker := marked(home)) is None:
        return None
    with _locked(marker), HeldSignals() as signals:
        if not marker.exists():  # another process has finished it meanwhile
            return None
        signals.hold()
        plan = _read(marker)
        for rename in plan.renames[_done(plan) :]:
            try:
                _make_room(rename, plan)
                _rename(rename)
            except OSError as error:
                raise StorageFailed.from_os(error, "finish the restore that was broken off", rename.target) from error
        _removed(marker)
    for folder in plan.left:
        shutil.rmtree(folder, ignore_errors=True)
    if signals.came:
        signal.raise_signal(signals.came)
    return plan


def finished_text(plan: Plan) -> str:
    """Say what was finished."""
    kept = "".join(f"\n  what was in {place} is kept as {where}" for place, where in plan.moved.items())
    return f"The restore of {plan.file}, which was broken off, is finished now.{kept}"


def left_over(home: Path, workspaces: list[Path]) -> list[Path]:
    """Return the folders that restores which were killed before their first rename have left. Blocking. Raises OSError."""
    stages = list(home.parent.glob(f"{home.name}.restoring-*"))
    if marked(home) is not None or any(map(_in_use, stages)):
        return []
    beside = [near for place in workspaces for near in near_folders(place)]
    return sorted({*stages, *beside, *near_folders(home)})


def near_folders(place: Path) -> list[Path]:
    """Return the folders beside a place, or inside of one that is mounted, in which restores prepare what goes there. Blocking."""
    return [*place.parent.glob(f"{place.name}.to-restore-*"), *place.glob(f"{NEAR_INSIDE}*")]


def near_of(place: Path, number: str) -> Path:
    """Return the name of the folder on the disk of a place in which what goes there is prepared."""
    return place / f"{NEAR_INSIDE}{number}" if place.is_mount() else place.with_name(f"{place.name}.to-restore-{number}")


def held(folder: Path) -> int:
    """Lock a folder, and return the descriptor that holds it. Raises OSError when somebody else has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _in_use(folder: Path) -> bool:
    try:
        os.close(held(folder))
    except OSError:
        return True
    return False


def _done(plan: Plan) -> int:
    """Return how many renames were done: they were done in their order, and later ones change what is seen of earlier ones."""
    for number in range(len(plan.renames), 0, -1):
        if plan.renames[number - 1].is_done():
            return number
    return 0


def _rename(rename: Rename) -> None:
    source, target = Path(rename.source), Path(rename.target)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    source.rename(target)
    for folder in {target.parent, source.parent}:
        sync(folder)


def _make_room(rename: Rename, plan: Plan) -> None:
    """Put aside what was made since in the place of what is to come."""
    target = Path(rename.target)
    if not os.path.lexists(target) or (target.is_dir() and not target.is_symlink() and not any(target.iterdir())):
        return
    free, number = target.with_name(f"{target.name}.before-restore"), 1
    while os.path.lexists(free):
        number += 1
        free = target.with_name(f"{target.name}.before-restore-{number}")
    target.rename(free)
    plan.moved[f"{target} (made since)"] = str(free)


def _undo(done: list[Rename]) -> None:
    try:
        for rename in reversed(done):
            Path(rename.target).rename(rename.source)
            with suppress(OSError):
                Path(rename.target).parent.rmdir()
    except OSError as error:
        raise StorageFailed(
            f"the restore could neither be done nor undone: {error.strerror}", where=rename.source, hint=f"Then: {FINISH}"
        ) from error


@contextmanager
def _written(plan: Plan, marker: Path) -> Iterator[None]:
    """Write the marker and hold it locked, so that nobody takes the restore for one that was broken off."""
    fresh = marker.with_name(f"{marker.name}.new")
    descriptor = -1
    try:
        try:
            fresh.unlink(missing_ok=True)
            descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = json.dumps(asdict(plan), ensure_ascii=False).encode("utf-8", "surrogateescape")
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
            fresh.rename(marker)
            sync(marker.parent)
        except OSError as error:
            raise StorageFailed.from_os(error, "note the restore (nothing was changed)", marker) from error
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def _locked(marker: Path) -> Iterator[None]:
    try:
        descriptor = os.open(marker, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # finished meanwhile
        yield
        return
    except OSError as error:
        raise StorageFailed.from_os(error, "read the marker of a restore", marker) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning("a backup is being restored here", where=str(marker), hint="Wait until it is done.") from None
        yield
    finally:
        os.close(descriptor)


def _read(marker: Path) -> Plan:
    try:
        owner = marker.lstat().st_uid
        if owner != os.geteuid():
            raise StorageFailed(
                "the marker of a restore belongs to another user", where=str(marker), hint=f"Run as its owner: {FINISH}"
            )
        raw = json.loads(marker.read_bytes().decode("utf-8", "surrogateescape"))
        renames = tuple(Rename(**one) for one in raw.pop("renames"))
        return Plan(renames=renames, left=tuple(map(str, raw.pop("left"))), **raw)
    except OSError as error:
        raise StorageFailed.from_os(error, "read the marker of a restore", marker) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "See what is beside it (NAME.before-restore-DATE is what was there), rename by hand, and remove this file."
        raise StorageFailed("the marker of a restore cannot be read", where=str(marker), hint=hint) from error


def _removed(marker: Path) -> None:
    marker.unlink(missing_ok=True)
    sync(marker.parent)
