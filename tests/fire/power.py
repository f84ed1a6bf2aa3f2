"""Power that is lost: what a gateway did to its files, recorded by strace, and what a disk holds of it that kept only what was synced.

The disk of this model keeps the content of a file as of its last fsync or fdatasync, and with it the file's name, as journalling file
systems do; renames and removals hold once the folder, or the file under its new name, was synced. All else is gone.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NAMING = frozenset({"openat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat"})
CALLS = ",".join(sorted(_NAMING | {"write", "pwrite64", "fsync", "fdatasync", "ftruncate"}))
RECORD = ("-e", "signal=none", "-xx", "-y", "-s", "4000000")
"""Options of strace: whole contents, with the path behind each descriptor."""

_CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)", re.DOTALL)
_BEGUN = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$", re.DOTALL)
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_BEHIND = re.compile(r"^(?:\d+|AT_FDCWD)<([^>]*)>")
_NAMED = re.compile(r'(?:(?:\d+|AT_FDCWD)<([^>]*)>, )?"((?:\\x[0-9a-f]{2})*)"')


@dataclass
class Call:
    """One system call that succeeded. ``path`` is that of its descriptor, ``paths`` are those it names, ``data`` is what it writes."""

    name: str
    path: str
    paths: list[str]
    data: bytes
    arguments: str
    result: int


def calls(log: str) -> Iterator[tuple[bool, Call]]:
    """Give each call at its end; one that syncs also at its beginning (True): what is written meanwhile need not be in it."""
    begun: dict[str, str] = {}
    for line in log.splitlines():
        if (found := _BEGUN.match(line)) is not None:
            begun[found[1]] = f"{found[2]}({found[3]}"
            if found[2] in {"fsync", "fdatasync"}:
                yield True, _read(found[2], found[3], 0)
            continue
        if (found := _RESUMED.match(line)) is not None:
            line = f"{found[1]} {begun.pop(found[1], '')}{found[3]}"  # noqa: PLW2901
            resumed = True
        else:
            resumed = False
        if (found := _CALL.match(line)) is not None and int(found[4]) >= 0:
            call = _read(found[2], found[3], int(found[4]))
            if call.name in {"fsync", "fdatasync"} and not resumed:
                yield True, call
            yield False, call


def _read(name: str, arguments: str, result: int) -> Call:
    behind = _BEHIND.match(arguments)
    path, paths, data = _path(behind[1]) if behind else "", list[str](), b""
    if name in _NAMING:
        paths = [os.path.normpath(f"{_path(below)}/{_path(one)}" if below else _path(one)) for below, one in _told(arguments)]
    elif (text := _TEXT.search(arguments)) is not None:
        data = bytes.fromhex(text[1].replace("\\x", ""))
    return Call(name, path, paths, data, _TEXT.sub('""', arguments), result)


def _told(arguments: str) -> list[tuple[str, str]]:
    """Return the names in a call, each with the folder that it is told to begin in; none where it begins at the root."""
    return [("" if one.startswith(r"\x2f") else below, one) for below, one in _NAMED.findall(arguments)]


def _path(written: str) -> str:
    return re.sub(r"\\x([0-9a-f]{2})", lambda one: chr(int(one[1], 16)), written)


@dataclass
class _File:
    live: bytearray
    kept: bytes = b""
    begun: list[bytes] = field(default_factory=list)
    """What it held when syncs began that are not over."""


class Disk:
    """The files below ``roots``. ``ignored`` says of which files a sync does nothing, ``torn`` how much of what was appended stays."""

    def __init__(self, *roots: Path, ignored: Callable[[str], bool] = lambda _: False, torn: float = 0.0) -> None:
        self._roots = roots
        self._ignored = ignored
        self._torn = torn
        found = {str(path): path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()}
        self._names = {path: _File(bytearray(data), data) for path, data in found.items()}
        self._kept = dict(self._names)

    def play(self, log: str) -> None:
        """Do what was recorded."""
        for begins, call in calls(log):
            if begins:
                if (file := self._names.get(call.path)) is not None:
                    file.begun.append(bytes(file.live))
            elif call.name == "openat":
                self._open(call)
            elif call.name in {"rename", "renameat", "renameat2", "link", "linkat"}:
                self._rename(call)
            elif call.name in {"unlink", "unlinkat"}:
                self._names.pop(call.paths[0], None)
            elif call.name in {"fsync", "fdatasync"}:
                self._sync(call)
            elif (file := self._names.get(call.path)) is not None:
                _change(file, call)

    def put(self) -> None:
        """Bring the files of this machine into the state that the disk would have."""
        for path in [path for root in self._roots for path in root.rglob("*")]:
            if path.is_file() and str(path) not in self._kept:
                path.unlink()
        for name, file in self._kept.items():
            path = Path(name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            more = bytes(file.live[len(file.kept) :]) if file.live.startswith(file.kept) and name.endswith(".jsonl") else b""
            path.write_bytes(file.kept + more[: int(len(more) * self._torn)])
            path.chmod(0o600)

    def _open(self, call: Call) -> None:
        path = Path(call.paths[0])
        if "O_DIRECTORY" in call.arguments or not any(path.is_relative_to(root) for root in self._roots):
            return
        if str(path) not in self._names:
            if "O_CREAT" in call.arguments:
                self._names[str(path)] = _File(bytearray())
        elif "O_TRUNC" in call.arguments:
            self._names[str(path)].live.clear()

    def _rename(self, call: Call) -> None:
        old, new = call.paths
        if old in self._names:
            self._names[new] = self._names[old]
            if not call.name.startswith("link"):
                del self._names[old]

    def _sync(self, call: Call) -> None:
        file = self._names.get(call.path)
        if file is None:
            self._sync_folder(call.path)
            return
        held = file.begun.pop(0) if file.begun else bytes(file.live)
        if not self._ignored(call.path):
            file.kept = held
            self._kept |= {path: one for path, one in self._names.items() if one is file}

    def _sync_folder(self, folder: str) -> None:
        inside = {path for path in (*self._names, *self._kept) if path.rpartition("/")[0] == folder}
        for path in inside:
            if path in self._names:
                self._kept[path] = self._names[path]
            else:
                del self._kept[path]


def _change(file: _File, call: Call) -> None:
    if call.name == "ftruncate":
        size = int(call.arguments.rpartition(",")[2])
        del file.live[size:]
        file.live.extend(bytes(size - len(file.live)))
        return
    data = call.data[: call.result]
    at = int(call.arguments.rpartition(",")[2]) if call.name == "pwrite64" else len(file.live)
    file.live.extend(bytes(max(0, at - len(file.live))))
    file.live[at : at + len(data)] = data
