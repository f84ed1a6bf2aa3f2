"""The ``read`` tool: text, pictures and documents."""

from __future__ import annotations

import asyncio
import mimetypes
from pathlib import PurePosixPath
from typing import Annotated

from msgspec.structs import replace
from pydantic import AliasChoices, Field

from agent.errors import InvalidImage
from agent.tools.arguments import Arguments, CheckedTool, failed
from agent.tools.documents import MARK_CHARS, MAX_BYTES, DocumentReader, DocumentRefused, DocumentWish, part_text
from agent.tools.file_tool_context import FileToolContext
from agent.tools.image_header import ImageHeader, read_image_header
from agent.tools.os_errors import no_such_file
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.workspace_sandbox import MAX_FILE_BYTES

_PROBE = 8192
_LEAST_ROOM = 1200
"""A document's lines have up to 1,000 characters, and one has to fit."""
_MARK = 200
"""Characters kept free for the mark that says how to go on."""


class ReadArguments(Arguments):
    """What ``read`` takes."""

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path", "filePath"), description="relative path")]
    offset: Annotated[int, Field(ge=1, description="first line")] = 1
    limit: Annotated[int | None, Field(ge=1, description="lines")] = None
    page: Annotated[int, Field(ge=1, description="page, slide or sheet")] = 1


class ReadFile(CheckedTool[ReadArguments]):
    """Gives the text of a file just as it is, without line numbers, so that any part of it can be handed to ``edit``."""

    def __init__(self, access: FileToolContext) -> None:
        super().__init__(
            ReadArguments,
            name="read",
            description="Read a text file, a document (PDF, Office) or a picture. Long ones come in parts.",
            effect="pure",
        )
        self._access = access
        self._documents = access.documents

    async def act(self, arguments: ReadArguments, context: ToolContext) -> Outcome:
        """Read, and remember what was shown."""
        if context.audience.kind == "owner" and arguments.path.startswith("/"):
            read = await asyncio.to_thread(self._of_skill, arguments, context)
            if read is not None:
                return read
        path = self._access.readable(arguments.path, context.audience)
        data = await asyncio.to_thread(self._data, path)
        if self._documents is not None:
            try:
                kind = await asyncio.to_thread(self._kind, self._documents, path, data)
                if kind is not None:
                    return await self._document(self._documents, path, data, _wish(kind, arguments, context.max_chars))
            except DocumentRefused as refused:
                return failed(f"{path}: it is {refused}")
        return await asyncio.to_thread(self._read, path, data, arguments, context)

    def _of_skill(self, arguments: ReadArguments, context: ToolContext) -> Outcome | None:
        """Read a file of a skill that lies outside of the workspace; None where the path names none."""
        skills = self._access.untrusted.skills
        found = skills.opened(arguments.path) if skills is not None else None
        if skills is None or found is None:
            return None
        data = found.sandbox.read(found.path).data
        if (judged := skills.opened(arguments.path)) is None:  # what was read is judged as it is now
            raise no_such_file(found.path)
        if (header := read_image_header(data)) is not None:
            return replace(_shown_picture(found.path, data, header), sources=judged.sources)
        if is_binary(data):
            return failed(f"{found.path} is not text ({len(data):,} bytes)")
        text, _, _ = _part(data, arguments, context.max_chars - _MARK)
        return Outcome(text=text, details={"path": arguments.path, "bytes": len(data)}, sources=judged.sources)

    def _data(self, path: PurePosixPath) -> bytes:
        return self._access.sandbox.read(path, limit=MAX_FILE_BYTES if self._documents is None else MAX_BYTES).data

    def _kind(self, reader: DocumentReader, path: PurePosixPath, data: bytes) -> str | None:
        return reader.kind(data, path.name, received=bool(self._access.untrusted.of(path)))

    async def _document(
        self,
        reader: DocumentReader,
        path: PurePosixPath,
        data: bytes,
        wish: DocumentWish,
    ) -> Outcome:
        part = await reader.read(data, wish)
        sources = await asyncio.to_thread(self._access.untrusted.of, path)
        return Outcome(
            text=part_text(part), details={"path": str(path), "bytes": len(data), "kind": wish.kind}, sources=sources
        )

    def _read(self, path: PurePosixPath, data: bytes, arguments: ReadArguments, context: ToolContext) -> Outcome:
        if len(data) > MAX_FILE_BYTES:
            return failed(f"{path} is too large to read ({len(data):,} bytes; at most {MAX_FILE_BYTES:,})")
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


def _wish(kind: str, arguments: ReadArguments, room: int) -> DocumentWish:
    return DocumentWish(
        kind=kind,
        page=arguments.page,
        offset=arguments.offset,
        limit=arguments.limit,
        room=max(room - MARK_CHARS, _LEAST_ROOM),
    )


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
    from agent.tools.image_resize import resized

    about = f"{path} ({found.media_type}, {found.width}x{found.height}, {len(data):,} bytes)"
    try:
        image = resized(data)
    except InvalidImage as refused:
        return failed(f"{about}: {refused}")
    smaller = image.width * image.height < found.width * found.height
    shown = f", shown at {image.width}x{image.height}" if smaller else ""
    return Outcome(text=about + shown, images=(image,), details={"path": str(path), "bytes": len(data)})
