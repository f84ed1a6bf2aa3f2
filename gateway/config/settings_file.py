"""Writes the settings file: validated first, with dated backups, replaced atomically; and keeps the last copy that was valid."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from gateway.base.atomic_file import remove_left, write_atomically
from gateway.base.errors import Problem, SettingsError, StorageFailed
from gateway.base.paths import Paths
from gateway.config.document import Document, read_document, read_text
from gateway.config.load import Checked, Loaded, check, load

COPIES_KEPT = 20
LOCK_SECONDS: Final = 20.0
"""How long a change waits for others, which take a moment each."""
_LOCK_PAUSE: Final = 0.02
_NO_CHANGE = "Nothing was written."


class Changed(Struct, frozen=True):
    """The result of a change. ``copy`` is the backup, None for a new file. ``notes`` are warnings about the new settings."""

    file: Path
    copy: Path | None
    notes: tuple[Problem, ...]


def change(paths: Paths, env: Mapping[str, str], now: datetime, edit: Callable[[Document], str]) -> Changed:
    """Apply ``edit`` to the settings file of ``paths``, which is created if missing, unless that adds an error.

    Changes of all processes are made one at a time. ``edit`` gets the file as it is then, which may not be what was read before: what
    depends on it (a place in a list, whether a name is free) is looked up within.

    Errors that the file already has are allowed, so that it can be repaired key by key. A variable that is not set here is only a
    note: the gateway may have it. Raises SettingsError, EditRefused and StorageFailed.
    """
    target = Path(os.path.realpath(paths.config_file()))
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(target.parent):
            remove_left(target)
            return _change(target, paths, env, now, edit)
    except OSError as error:
        raise StorageFailed.from_os(error, "write the settings", target) from error


def _change(target: Path, paths: Paths, env: Mapping[str, str], now: datetime, edit: Callable[[Document], str]) -> Changed:
    try:
        before = read_text(target)
        mark = "\ufeff" if target.read_bytes().startswith(codecs.BOM_UTF8) else ""
        is_new = False
    except FileNotFoundError:
        before, mark, is_new = "", "", True
    unix = before.replace("\r\n", "\n")
    after = edit(read_document(unix, str(target)))
    checked = check(after, target, env, paths)
    fresh = _new_errors(check(unix, target, env, paths), checked)
    if fresh:
        raise SettingsError(fresh, where=str(target), hint=_NO_CHANGE)
    copy = None if is_new else _dated_copy(target, mark + before, now)
    write_atomically(target, mark + with_line_ends_of(before, after), durable=True)
    missing = tuple(problem for problem in checked.problems if problem.environment)
    return Changed(target, copy, (*missing, *checked.warnings))


def with_line_ends_of(before: str, after: str) -> str:
    """Return ``after``, whose lines end with a newline, with each line ended as the line in its place before, further ones as most are."""
    old, new = before.split("\n"), after.split("\n")
    usual = "\r" if sum(line.endswith("\r") for line in old) * 2 > len(old) - 1 else ""
    same = [a.removesuffix("\r") == b for a, b in zip(old[:-1], new[:-1], strict=False)]
    head = same.index(False) if False in same else len(same)
    same = [a.removesuffix("\r") == b for a, b in zip(reversed(old[head:]), reversed(new[head:]), strict=False)]
    tail = same.index(False) if False in same else len(same)
    ends = ["\r" if line.endswith("\r") else "" for line in old[head : min(len(old) - tail, len(old) - 1)]]
    changed = [line + (ends[place] if place < len(ends) else usual) for place, line in enumerate(new[head : len(new) - tail])]
    if not tail:
        changed[-1] = new[-1]
    return "\n".join([*old[:head], *changed, *old[len(old) - tail :]])


def _new_errors(before: Checked, after: Checked) -> list[Problem]:
    known = {(problem.path, problem.message) for problem in before.problems}
    return [p for p in after.problems if not p.environment and (p.path, p.message) not in known]


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on the folder, so that changes are made one at a time. Raises StorageFailed after ``LOCK_SECONDS``."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    until = time.monotonic() + LOCK_SECONDS
    try:
        while not _locked(descriptor):
            if time.monotonic() > until:
                raise StorageFailed(
                    "another process has been changing the settings for too long; nothing was written",
                    where=str(folder),
                    hint=f"Try again. If it goes on, end the process that holds the folder: fuser -v {folder}",
                )
            time.sleep(_LOCK_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _dated_copy(target: Path, text: str, now: datetime) -> Path:
    stamp = f"{now:%Y-%m-%dT%H-%M-%S}"
    copy = target.with_name(f"{target.name}.{stamp}.bak")
    number = 1
    while copy.exists():
        number += 1
        copy = target.with_name(f"{target.name}.{stamp}-{number}.bak")
    write_atomically(copy, text, durable=True)
    copies = sorted(target.parent.glob(f"{target.name}.*.bak"), key=lambda found: found.stat().st_mtime_ns)
    for old in copies[:-COPIES_KEPT]:
        old.unlink(missing_ok=True)
    return copy


NAME = "settings.last-good"


def load_or_last_known_good(paths: Paths, env: Mapping[str, str]) -> tuple[Loaded, str | None]:
    """Load the settings, or those of the last good start together with a notice for the owner.

    Raises:
        SettingsError: the file is not valid, and there is no valid copy.
    """
    source = paths.config_file()
    kept = copy_of(source, paths)
    try:
        loaded = load(paths, env)
    except SettingsError as wrong:
        try:
            found = check(read_text(kept), source, env, paths)
        except (OSError, SettingsError):
            raise wrong from None
        if found.settings is None or found.problems:
            raise
        first = wrong.problems[0].as_text().splitlines()[0] if wrong.problems else str(wrong)
        notice = (
            f"{source} cannot be used ({len(wrong.problems)} errors; the first: {first}). I am running with the settings of the last "
            "good start. Fix the file (`homebody config validate` lists its errors) and restart me."
        )
        return Loaded(found.settings.of_profile(paths.profile), found.warnings, source, found.given), notice
    save_copy(loaded, paths)
    return loaded, None


def save_copy(loaded: Loaded, paths: Paths) -> None:
    """Copy the file, readable by its owner alone. A failure to copy is ignored: only the fallback is lost."""
    if loaded.source is None:
        return
    kept = copy_of(loaded.source, paths)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = loaded.source.read_bytes()
        if not kept.exists() or kept.read_bytes() != text:
            write_atomically(kept, text.decode())


def copy_of(source: Path, paths: Paths) -> Path:
    """Return where the last valid content of a settings file is kept."""
    return paths.state / f"{NAME}{source.suffix}"
