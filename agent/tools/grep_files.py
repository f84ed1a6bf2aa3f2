"""The ``grep`` tool."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import json
import sys
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AliasChoices, Field

from agent.errors import WorkspaceFileError
from agent.taint import merged
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.child_process import Spawn, answer_of
from agent.tools.file_tool_context import FileToolContext, walk
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.read_file import is_binary

SECONDS = 5.0
"""How long a pattern may take."""
MAX_BYTES = 16_000_000
"""How much text one search looks at."""
MAX_MATCHES = 100
AT_ONCE = 2
"""Searches of one agent that run at the same time."""
_DEPTH = 24
_WIDTH = 300
_MARK = 160
_WORKER = Path(__file__).with_name("regex_worker.py")


class GrepArguments(Arguments):
    """What ``grep`` takes."""

    pattern: Annotated[CleanText, Field(min_length=1, max_length=1000, description="Python regular expression")]
    path: Annotated[str, Field(validation_alias=AliasChoices("path", "folder"))] = ""
    glob: Annotated[str | None, Field(validation_alias=AliasChoices("glob", "include"))] = None
    ignore_case: Annotated[bool, Field(validation_alias=AliasChoices("ignoreCase", "ignore_case", "case_insensitive"))] = False


class _Haystack(Struct, frozen=True):
    orders: bytes
    files: int
    cut: bool


class GrepFiles(CheckedTool[GrepArguments]):
    """Finds lines by regular expression. Files are read here, by descriptor; the matching is done by ``regex_worker``."""

    def __init__(
        self, access: FileToolContext, *, spawn: Spawn = asyncio.create_subprocess_exec, seconds: float = SECONDS
    ) -> None:
        super().__init__(
            GrepArguments,
            name="grep",
            description="Find lines in workspace files by regular expression.",
            effect="pure",
        )
        self._access = access
        self._spawn = spawn
        self._seconds = seconds
        self._free = asyncio.Semaphore(AT_ONCE)

    async def act(self, arguments: GrepArguments, context: ToolContext) -> Outcome:
        """Collect the texts, then match them; a few at once, for each takes a process and some megabytes."""
        async with self._free:
            return await self._act(arguments, context)

    async def _act(self, arguments: GrepArguments, context: ToolContext) -> Outcome:
        haystack = await asyncio.to_thread(self._collect, arguments, context)
        try:
            async with asyncio.timeout(self._seconds):
                printed, code = await self._matched(haystack.orders)
        except TimeoutError:
            return failed(f"pattern: takes longer than {self._seconds:g} seconds; use a simpler one, or name a file in path")
        except OSError as error:
            return failed(f"grep cannot start its matcher now ({error.strerror}); use read instead")
        if code != 0:
            return failed("pattern: is too large to be matched; use a simpler one")
        found = [json.loads(line) for line in printed.splitlines()]
        if found and "error" in found[0]:
            return failed(f"pattern: {found[0]['error']}")
        outcome = _match_outcome(found, haystack, context.max_chars)
        return replace(outcome, sources=await asyncio.to_thread(self._sources, found[:MAX_MATCHES]))

    def _sources(self, found: list[dict[str, Any]]) -> tuple[str, ...]:
        """Return the sources of the untrusted lines and names among those found; of a line that was cut its whole file counts."""
        known = self._access.untrusted
        with known.checked_once():
            return merged(
                *(known.of(PurePosixPath(one["path"]), one["text"] if len(one["text"]) < _WIDTH else None) for one in found),
                *(known.of_path(path) for path in dict.fromkeys(PurePosixPath(one["path"]) for one in found)),
            )

    def _collect(self, arguments: GrepArguments, context: ToolContext) -> _Haystack:
        start = self._access.readable(arguments.path, context.audience)
        wish = {"pattern": arguments.pattern, "ignoreCase": arguments.ignore_case, "most": MAX_MATCHES + 1, "width": _WIDTH}
        orders = bytearray(_line(wish))
        files, cut = 0, False
        for path, entry in walk(self._access, start, context.audience, depth=_DEPTH):
            if entry.kind != "file" or not _wanted(path, arguments.glob):
                continue
            if len(orders) + entry.size > MAX_BYTES:
                cut = True
                continue
            with contextlib.suppress(
                WorkspaceFileError
            ):  # removed meanwhile, a hard link, no permission: nothing to find in it
                data = self._access.sandbox.read(path).data
                if not is_binary(data):
                    files += 1
                    orders += _line({"path": str(path), "bytes": len(data)}) + data
        return _Haystack(bytes(orders), files, cut)

    async def _matched(self, orders: bytes) -> tuple[bytes, int | None]:
        pipe = asyncio.subprocess.PIPE
        null = asyncio.subprocess.DEVNULL
        process = await self._spawn(
            sys.executable, "-I", "-S", "-B", str(_WORKER), stdin=pipe, stdout=pipe, stderr=null, env={}
        )
        return await answer_of(process, orders)


def _match_outcome(found: list[dict[str, Any]], haystack: _Haystack, max_chars: int) -> Outcome:
    lines: list[str] = []
    room = max_chars - _MARK
    for one in found[:MAX_MATCHES]:
        line = f"{one['path']}:{one['line']}: {one['text']}"
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    shown = len(lines)
    if not found:
        lines.append(f"[no match in {haystack.files:,} files]")
    if shown < len(found):
        lines.append(f"[there are more than these {shown}; narrow the pattern, path or glob]")
    if haystack.cut:
        lines.append(f"[only {MAX_BYTES // 1_000_000} MB were searched; name a folder in path]")
    return Outcome(text="\n".join(lines), details={"matches": shown, "files": haystack.files})


def _wanted(path: PurePosixPath, glob: str | None) -> bool:
    return not glob or fnmatch.fnmatchcase(path.name, glob) or fnmatch.fnmatchcase(str(path), glob.removeprefix("**/"))


def _line(order: dict[str, Any]) -> bytes:
    return json.dumps(order).encode() + b"\n"
