"""The ``read`` tool."""

from __future__ import annotations

import asyncio
import mimetypes
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AliasChoices, Field

from agent.errors import InvalidImage
from agent.tools.arguments import Arguments, CheckedTool, failed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.image_header import ImageHeader, read_image_header
from agent.tools.image_resize import resized
from agent.tools.protocol import Outcome, ToolContext

_PROBE = 8192
_MARK = 200
"""Characters kept free for the mark that says how to go on."""


class ReadArguments(Arguments):
    """What ``read`` takes."""

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path", "filePath"), description="relative path")]
    offset: Annotated[int, Field(ge=1, description="first line, 1-based")] = 1
    limit: Annotated[int | None, Field(ge=1, description="how many lines")] = None


class ReadFile(CheckedTool[ReadArguments]):
    """Gives the text of a file just as it is, without line numbers, so that any part of it can be handed to ``edit``."""

    def __init__(self, access: FileToolContext) -> None:
        super().__init__(
            ReadArguments,
            name="read",
            description="Read a text file or look at a picture in your workspace. Long files come in parts; a mark says how to go on.",
            effect="pure",
        )
        self._access = access

    async def act(self, arguments: ReadArguments, context: ToolContext) -> Outcome:
        """Read, and remember what was shown."""
        return await asyncio.to_thread(self._read, arguments, context)

    def _read(self, arguments: ReadArguments, context: ToolContext) -> Outcome:
        path = self._access.readable(arguments.path, context.audience)
        data = self._access.sandbox.read(path).data
        found = read_image_header(data)
        if found:
            return replace(_shown_picture(path, data, found), sources=self._access.untrusted.of(path))
        if is_binary(data):
            kind = mimetypes.guess_type(path.name)[0] or "unknown type"
            return failed(f"{path} is not text ({kind}, {len(data):,} bytes)")
        text, last, whole_lines = _part(data, arguments, context.max_chars - _MARK)
        if whole_lines:
            self._access.readings.shown(context.session, path, data, first=arguments.offset, last=last)
        sources = self._access.untrusted.of(path, text)
        return Outcome(text=text, details={"path": str(path), "bytes": len(data)}, sources=sources)


def _part(data: bytes, arguments: ReadArguments, room: int) -> tuple[str, int, bool]:
    """Cut the lines asked for. Returns the text, the number of its last line, and whether that line is whole."""
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    total, first = len(lines), arguments.offset
    if first > total:
        return (f"[the file has {total} lines]" if total else "[the file is empty]"), total, first <= total + 1
    wanted = total if arguments.limit is None else min(total, first - 1 + arguments.limit)
    last, left = first - 1, room
    while last < wanted and left >= len(lines[last]) + 1:
        left -= len(lines[last]) + 1
        last += 1
    if last < first:
        line = lines[first - 1]
        shown = line[:room]
        mark = f"[line {first} is {len(line):,} characters long and cut here; grep finds words in it"
        return f"{shown}\n{mark}{f'; next line: offset {first + 1}' if first < total else ''}]", first, False
    text = "\n".join(lines[first - 1 : last])
    if last < total:
        text += f"\n[lines {first}-{last} of {total}; go on with offset {last + 1}]"
    return text, last, True


def is_binary(data: bytes) -> bool:
    """Say whether this is no text: it has a NUL, or more than a tenth of its beginning is not UTF-8."""
    probe = data[:_PROBE]
    return b"\0" in probe or probe.decode("utf-8", "replace").count("\ufffd") * 10 > len(probe) > 0


def _shown_picture(path: PurePosixPath, data: bytes, found: ImageHeader) -> Outcome:
    about = f"{path} ({found.media_type}, {found.width}x{found.height}, {len(data):,} bytes)"
    try:
        image = resized(data)
    except InvalidImage as refused:
        return failed(f"{about}: {refused}")
    smaller = image.width * image.height < found.width * found.height
    shown = f", shown at {image.width}x{image.height}" if smaller else ""
    return Outcome(text=about + shown, images=(image,), details={"path": str(path), "bytes": len(data)})
