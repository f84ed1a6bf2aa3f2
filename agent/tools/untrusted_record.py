"""The file in which the untrusted lines of a workspace are recorded: JSON lines, of which later ones count."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agent.tools.packed_marks import Marks, PackedMarks

log = logging.getLogger(__name__)

_REWRITE_AT: Final = 2_000_000
"""Bytes from which on the record is written anew when it is read, with each line of a file once."""


def line_of(path: str, keys: list[str], sources: tuple[str, ...]) -> bytes:
    """Return the line of the record that says where some lines of a file come from; without ``sources``, that they are trusted."""
    return json.dumps({"path": path, "lines": keys, "from": sources}, separators=(",", ":")).encode() + b"\n"


def lines_of(path: str, marks: Marks) -> list[bytes]:
    """Return the lines of the record that say what is known of a file."""
    grouped: dict[tuple[str, ...], list[str]] = {}
    for key, sources in marks.items():
        grouped.setdefault(sources, []).append(key)
    return [line_of(path, keys, sources) for sources, keys in grouped.items()]


def append(path: Path, line: bytes) -> None:
    """Write lines to the end of a record, on disk when this returns. Raises OSError, with the record as it was."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        before = os.fstat(descriptor).st_size
        left = memoryview(line)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise
    finally:
        os.close(descriptor)


def loaded(path: Path) -> PackedMarks:
    """Read the record; what a crash left half written at its end is no loss, since its file was not written either."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return PackedMarks()
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    same: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in data.splitlines():
        try:
            entry = json.loads(line)
            name, sources = str(entry["path"]).casefold(), tuple(map(_plain, entry["from"]))
            sources = same.setdefault(sources, sources)
            marks = known[name] = known.pop(name, {})  # the newest stand last
            for key in map(_plain, entry["lines"]):
                if sources:
                    marks.setdefault(key, sources)
                else:
                    marks.pop(key, None)
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("a line of %s cannot be read and is passed over", path)
    if len(data) > _REWRITE_AT:
        rewrite(path, known.items())
    elif data and not data.endswith(b"\n"):
        append(path, b"\n")
    packed = PackedMarks()
    while known:
        name = next(iter(known))
        packed.add(name, known.pop(name))
    return packed


def _plain(value: object) -> str:
    """Return a text without lone surrogates, which cannot be packed."""
    return str(value).encode("utf-8", "replace").decode()


def rewrite(path: Path, known: Iterable[tuple[str, Marks]]) -> None:
    """Write the record anew. Raises OSError, with the record as it was."""
    lines = [line for name, marks in known for line in lines_of(name, marks)]
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    append(fresh, b"".join(lines))
    fresh.replace(path)
