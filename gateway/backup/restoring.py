"""Puts a backup in place: unpacked aside and checked first, then renamed. What was there before is kept beside it."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from gateway.backup import backup_folder as folders
from gateway.backup import outside_files
from gateway.backup.age_encryption import KEY_NAME, Keys, keep_key, need_backup
from gateway.backup.extraction import Checked, Progress, unpack
from gateway.backup.manifest import WORKSPACE, Manifest
from gateway.backup.unfinished_restore import (
    NEAR_INSIDE,
    Plan,
    Rename,
    carry_out,
    held,
    marked,
    marker_of,
    near_folders,
    near_of,
    unfinished,
)
from gateway.base.atomic_file import sync, write_atomically
from gateway.base.errors import AlreadyRunning, SettingsError, StorageFailed, UsageError
from gateway.base.home_lock import used_from_above, whole_home
from gateway.base.paths import Paths
from gateway.base.state_lock import StateLock
from gateway.config.document import read_document, read_text
from gateway.config.edit import with_value
from gateway.config.load import load
from gateway.ledger.restored import Held, hold
from gateway.ledger.snapshot import read_version
from memory.audience import BEFORE_RESTORE

_WATCHED: Final = "mail/watched"
_STAYS: Final = (KEY_NAME, folders.DEFAULT)
"""What a home keeps when another one takes its place: it is in no backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a backup goes. Workspaces go where the restored settings say or, with ``workspaces``, into folders of it, named by agent."""

    paths: Paths
    workspaces: Path | None = None
    force: bool = False


@dataclass(kw_only=True)
class Restored:
    """What a restore did, or would do. ``places`` are the folders by what went there; ``moved`` where their former content is now.

    ``outside`` are files elsewhere that the settings named and that are missing, with the copies that they name now. ``key_kept``: the
    home had no key, and later backups are made for the one that opened this. ``ledger_version`` is that of the ledger in the backup,
    which is brought to the present one.
    """

    checked: Checked
    held: Held
    places: dict[str, Path] = field(default_factory=dict)
    moved: dict[str, Path] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    outside: dict[str, Path] = field(default_factory=dict)
    key_kept: bool = False
    ledger_version: int | None = None


def restore(
    path: Path,
    keys: Keys,
    target: Target,
    *,
    env: Mapping[str, str],
    now: datetime,
    dry_run: bool = False,
    progress: Progress = lambda _files, _bytes: None,
    at_renames: Callable[[], None] = lambda: None,
) -> Restored:
    """Restore a backup; with ``dry_run`` everything but the renaming is done, in a folder that is deleted again. Blocking.

    ``at_renames`` is called before the first rename: from then on it must not be interrupted.

    Raises:
        RestoreUnfinished: another restore was broken off here.
        UsageError: there is no such file, or something is in the place already, and ``force`` is not set.
        AlreadyRunning: a gateway runs there.
        BackupUnusable, StorageFailed: nothing was changed.
    """
    home = target.paths.home
    if (broken_off := unfinished(home)) is not None:
        raise broken_off
    need_backup(path)
    with ExitStack() as stack:
        if names := used_from_above(home):
            hint = f"Restore into another folder, or stop each of them first: HOMEBODY_GATEWAY={names[0]} homebody stop"
            raise AlreadyRunning(f"gateways that run use this folder: {', '.join(names)}", where=str(home), hint=hint)
        if (home / "state").is_dir():
            stack.enter_context(whole_home(target.paths))
        stage = stack.enter_context(_stage(home))
        checked = unpack(path, keys, stage / "home", lambda agent: stage / WORKSPACE / agent, progress)
        result = _place(checked, stage, target, env=env, now=now)
        if dry_run:
            return result
        if result.moved and not target.force:
            taken = ", ".join(result.moved)
            hint = "With --force, what is there is kept under another name. With --into FOLDER, the backup goes elsewhere."
            raise UsageError(f"there is something already: {taken}", hint=hint)
        (stage / "home" / "state").mkdir(parents=True, exist_ok=True, mode=0o700)
        stack.callback(StateLock.acquire(stage / "home" / "state" / "gateway.lock").release)
        result.key_kept = checked.head.secrets and not os.path.lexists(home / KEY_NAME) and keep_key(stage / "home", keys.files)
        stack.callback(_clear_near, result.places, stage)
        plan = _plan(path, stage, result, now)
        at_renames()
        carry_out(plan, marker_of(home))
        return result


def _clear_near(places: Mapping[str, Path], stage: Path) -> None:
    if marked(places["home"]) is None:
        for place in places.values():
            _delete(near_of(place, stage.name.rpartition("-")[2]))


def _place(checked: Checked, stage: Path, target: Target, *, env: Mapping[str, str], now: datetime) -> Restored:
    ledger = stage / "home" / "state" / "ledger.sqlite"
    version = read_version(ledger) if ledger.exists() else None
    held = hold(ledger, secrets.token_hex(10), checked.head.made, now) if ledger.exists() else Held()
    shutil.rmtree(stage / "home" / "state" / _WATCHED, ignore_errors=True)  # mail that came since may have been announced
    settings = Paths(stage / "home", profile=target.paths.profile).config_file()
    copies = outside_files.name_copies(settings, Path(checked.manifest.home))
    places, lacking = _places(checked.manifest, stage / "home", target, env)
    if copies:
        outside_files.move_copies(settings, stage / "home", target.paths.home)
    outside = {name: target.paths.home / copy.relative_to(stage / "home") for name, copy in copies.items()}
    result = Restored(checked=checked, held=held, places=places, lacking=lacking, outside=outside, ledger_version=version)
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    for place in places.values():
        if _occupied(place):
            inside, beside = place / f"{BEFORE_RESTORE}{stamp}", place.with_name(f"{place.name}.{BEFORE_RESTORE}{stamp}")
            result.moved[str(place)] = _free(inside if place.is_mount() else beside)
    return result


def _places(manifest: Manifest, staged: Path, target: Target, env: Mapping[str, str]) -> tuple[dict[str, Path], list[str]]:
    """Return where the home and the workspaces go, and what the settings lack on this machine."""
    agents = [agent for agent in manifest.workspaces if f"{WORKSPACE}/{agent}" not in manifest.left_out]
    if target.workspaces is not None:
        wanted = {agent: target.workspaces / agent for agent in manifest.workspaces}
        _name_workspaces(staged, wanted, env)
        return {**{f"{WORKSPACE}/{agent}": wanted[agent] for agent in agents}, "home": target.paths.home}, []
    lacking: list[str] = []
    try:
        loaded = load(Paths(staged, profile=target.paths.profile), env, only_look=True)
        lacking = [problem.as_text() for problem in loaded.warnings if problem.environment]
        known = {agent: loaded.settings.agent(agent).workspace for agent in loaded.settings.agent_ids}
    except (SettingsError, StorageFailed) as error:
        lacking, known = [error.as_text()], {}
    places = {f"{WORKSPACE}/{agent}": known.get(agent, Path(manifest.workspaces[agent])) for agent in agents}
    return {**places, "home": target.paths.home}, lacking


def _name_workspaces(staged: Path, wanted: Mapping[str, Path], env: Mapping[str, str]) -> None:
    """Write into the restored settings where the workspaces are. Raises HomebodyError where that cannot be done."""
    source = Paths(staged).config_file()
    text = read_text(source) if source.exists() else ""
    listed = read_document(text, str(source))
    entries = load(Paths(staged), env, only_look=True).settings.agents.list if source.exists() else ()
    for index, entry in enumerate(entries):
        text = with_value(listed, ("agents", "list", index, "workspace"), str(wanted[entry.id]))
        listed = read_document(text, str(source))
    if not entries:
        text = with_value(listed, ("agents", "defaults", "workspace"), str(next(iter(wanted.values()))))
    write_atomically(source, text)


def _plan(path: Path, stage: Path, result: Restored, now: datetime) -> Plan:
    """Bring everything to the disk that it goes to, synced, and return the renames that put it in place, the home last."""
    renames: list[Rename] = []
    home, number = result.places["home"], stage.name.rpartition("-")[2]
    marker = marker_of(home)
    for name, place in result.places.items():
        for left in near_folders(place):
            _delete(left)
        near = near_of(place, number)
        _bring(stage / name, near)
        before, mounted = result.moved.get(str(place)), place.is_mount()
        stay = [one for one in _STAYS if place == home and (place / one).exists() and not os.path.lexists(near / one)]
        if mounted:  # it cannot be renamed: what is in it is
            ours = {near.name, marker.name, *stay}
            there = [one for one in sorted(place.iterdir()) if one.name not in ours and not one.name.startswith(BEFORE_RESTORE)]
            renames += [Rename(str(one), str(before / one.name), aside=True) for one in there if before is not None]
            renames += [Rename(str(one), str(place / one.name)) for one in sorted(near.iterdir())]
        else:
            renames += [Rename(str(place / one), str(near / one), aside=True) for one in stay]
            renames += [Rename(str(place), str(before), aside=True)] if before is not None else []
            renames.append(Rename(str(near), str(place)))
    moved = {place: str(where) for place, where in result.moved.items()}
    file = os.path.abspath(path)  # noqa: PTH100 -- as given
    at_end = (str(stage), *(str(near_of(place, number)) for place in result.places.values()))
    return Plan(file=file, began=now.isoformat(), left=at_end, renames=tuple(renames), moved=moved)


def _bring(source: Path, near: Path) -> None:
    """Move a staged folder to where a rename puts it in place, or copy it to that disk; sync all of it."""
    try:
        near.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            source.rename(near)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.copytree(source, near, symlinks=True)
        for folder, _, names in os.walk(near):
            for one in (*(Path(folder) / name for name in names), Path(folder)):
                if not one.is_symlink():
                    sync(one)
        sync(near.parent)
    except OSError as error:
        raise StorageFailed.from_os(error, "prepare the backup beside its place (nothing was changed)", near) from error


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _stage(home: Path) -> Iterator[Path]:
    """Make a folder beside the home, and delete it at the end, with those that killed restores have left."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in home.parent.glob(f"{home.name}.restoring-*"):
            with suppress(OSError), _held(left):
                shutil.rmtree(left)
        stage = home.with_name(f"{home.name}.restoring-{secrets.token_hex(4)}")
        stage.mkdir(mode=0o700)
    except OSError as error:
        raise StorageFailed.from_os(error, "make a folder beside the home", home) from error
    try:
        with _held(stage):
            yield stage
    finally:
        if marked(home) is None:
            shutil.rmtree(stage, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a folder. Raises OSError when somebody else has it."""
    descriptor = held(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def _occupied(place: Path) -> bool:
    try:
        mounted = place.is_mount()
        return any(not (mounted and child.name.startswith((BEFORE_RESTORE, NEAR_INSIDE))) for child in place.iterdir())
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True
    except OSError as error:
        raise StorageFailed.from_os(error, "look at this folder", place) from error


def _free(place: Path) -> Path:
    number, free = 1, place
    while os.path.lexists(free):
        number += 1
        free = place.with_name(f"{place.name}-{number}")
    return free
