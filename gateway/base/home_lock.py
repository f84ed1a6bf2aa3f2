"""Who runs in a home: one gateway without a name, or gateways of a cluster, each with a lock of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gateway.base.errors import AlreadyRunning, StorageFailed
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, StateLock, describe

_USED: Final = frozenset({"agents", "gateways", "state"})


def known_in(home: Path) -> list[str]:
    """Return the names of the gateways that run or ran in a home. Blocks. Raises StorageFailed."""
    try:
        found = [path for path in (home / "gateways").iterdir() if (path / Paths(home).lock.name).is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageFailed.from_os(error, "look for gateways", home / "gateways") from error
    return sorted(path.name for path in found)


def running_in(home: Path) -> dict[str, Holder]:
    """Return the processes that use a home, by the names of their gateways; "" for one without. Blocks. Raises StorageFailed."""
    locks = {name: Paths(home, gateway=name).lock for name in ("", *known_in(home))}
    return {name: holder for name, lock in locks.items() if (holder := describe(lock)) is not None}


@contextmanager
def whole_home(paths: Paths, *, could_ask: bool = False) -> Iterator[None]:
    """Hold a home, so that none of its gateways runs or starts, whichever ``paths`` names. Blocks.

    ``could_ask``: a gateway that runs does the same when it is asked.

    Raises:
        AlreadyRunning: a process uses the home.
        StorageFailed: a lock cannot be used.
    """
    home = paths.home
    names = [name for name in running_in(home) if name]
    if names:
        first = f"HOMEBODY_GATEWAY={names[0]}"
        hint = f"Ask one of them: export {first}" if could_ask else f"Stop each of them first: {first} homebody stop"
        raise AlreadyRunning(f"gateways run in this home: {', '.join(names)}", where=str(home), hint=hint)
    with ExitStack() as held:
        held.callback(StateLock.acquire(replace(paths, gateway="").lock).release)  # from now on no new one starts (lock_of)
        own = [paths.gateway] if paths.gateway and paths.local.is_dir() else []
        for name in dict.fromkeys((*known_in(home), *own)):
            held.callback(StateLock.acquire(replace(paths, gateway=name).lock).release)
        yield


def lock_of(paths: Paths, holder: Holder) -> StateLock:
    """Take the lock of a gateway. Blocks.

    Raises:
        AlreadyRunning: it runs, or a process holds the whole home, in which a gateway of a new name has no lock yet.
        StorageFailed: a lock cannot be used.
    """
    lock = StateLock.acquire(paths.lock, holder)
    if not paths.gateway:
        return lock
    try:
        _refuse_held(paths)
    except BaseException:
        lock.release()
        raise
    return lock


def _refuse_held(paths: Paths) -> None:
    if (whole := describe(replace(paths, gateway="").lock)) is not None:
        by = f" ({whole.pid}, since {whole.started})" if whole.started else ""
        hint = "Wait until it has ended (a restore, say), or stop it first."
        raise AlreadyRunning(f"another Homebody process{by} is using this home", where=str(paths.home), hint=hint)


def used_from_above(folder: Path) -> list[str]:
    """Return the names of the gateways that run in a home of which a folder is a part that they use. Blocks. Raises StorageFailed."""
    for home in folder.absolute().parents:
        if folder.absolute().relative_to(home).parts[0] in _USED and (names := [*filter(None, running_in(home))]):
            return names
    return []
