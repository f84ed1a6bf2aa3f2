"""The ``write`` tool."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field

from agent.errors import WorkspaceFileError
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.workspace_sandbox import MAX_FILE_BYTES


class WriteArguments(Arguments):
    """What ``write`` takes."""

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path", "filePath"), description="relative path")]
    content: Annotated[CleanText, Field(validation_alias=AliasChoices("content", "text"))]
    mode: Annotated[
        Literal["create", "overwrite", "append"],
        Field(description="append: add lines at the end; overwrite: replace what you have read in full"),
    ] = "create"


class WriteFile(CheckedTool[WriteArguments]):
    """Writes a file. Run twice with the same arguments it leaves the same text, in each mode: hence "idempotent".

    ``create`` and ``overwrite`` of the text that is there already change nothing, and ``append`` adds nothing when the file
    ends with that block: a repeat after a crash is harmless.
    """

    def __init__(self, access: FileToolContext) -> None:
        super().__init__(
            WriteArguments,
            name="write",
            description=("Write a file in your workspace. Use append for notes of the day, and edit for small changes."),
            effect="idempotent",
        )
        self._access = access

    async def act(self, arguments: WriteArguments, context: ToolContext) -> Outcome:
        """Write, then tell the memory."""
        path = self._access.changeable(arguments.path, context.audience)
        if "\0" in arguments.content:
            return failed("content: has a NUL character, which is not text")
        data = arguments.content.encode()
        if len(data) > MAX_FILE_BYTES:
            return failed(f"content: {len(data):,} bytes are too many; at most {MAX_FILE_BYTES:,} at once")
        write = {"create": self._create, "overwrite": self._overwrite, "append": self._append}[arguments.mode]
        await self._access.changing(path)
        text, size = await asyncio.to_thread(write, path, data, context)
        await self._access.changed(path, context)
        return Outcome(text=text, details={"path": str(path), "mode": arguments.mode, "bytes": size})

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return the act where the file is one that conversations are given, or that others may read."""
        given = self.checked(arguments)
        if given is None:
            return None
        does = "add to" if given.mode == "append" else "change"
        return self._access.standing([given.path], context, lambda: self._details(given, context), does=does)

    def _details(self, given: WriteArguments, context: ToolContext) -> str:
        """Return the text that would be written, or the difference where it replaces another."""
        from agent.tools.change_details import difference

        if given.mode == "overwrite":
            with contextlib.suppress(
                WorkspaceFileError
            ):  # without a file, or without one that can be read, the text is all there is
                path = self._access.changeable(given.path, context.audience)
                return difference(path, self._access.sandbox.read(path).data, given.content.encode())
        return given.content

    def _create(self, path: PurePosixPath, data: bytes, context: ToolContext) -> tuple[str, int]:
        kind = self._access.sandbox.kind(path)
        if kind is None:
            self._access.record(path, None, data, context)
            self._access.sandbox.create(path, data)
        else:
            present = self._access.sandbox.read(path).data
            if present == data:
                return f"{path} has exactly this text already", 0
            if present:
                raise WorkspaceFileError(
                    f"{path} exists already: use edit or append, or read it and then write with mode overwrite"
                )
            self._access.record(path, b"", data, context)
            self._access.sandbox.replace(path, data, expected=b"")
        self._access.readings.shown(context.session, path, data)
        return f"created {path} ({len(data):,} bytes)", len(data)

    def _overwrite(self, path: PurePosixPath, data: bytes, context: ToolContext) -> tuple[str, int]:
        session = context.session
        if self._access.sandbox.kind(path) is None:
            return self._create(path, data, context)
        present = self._access.sandbox.read(path).data
        if present == data:
            return f"{path} has exactly this text already", 0
        if present and not context.approved:  # the question showed what would be lost
            self._access.readings.require(session, path, present, whole=True)
        self._access.record(path, present, data, context)
        self._access.sandbox.replace(path, data, expected=present)
        self._access.readings.shown(session, path, data)
        return f"replaced {path} ({len(present):,} -> {len(data):,} bytes)", len(data)

    def _append(self, path: PurePosixPath, data: bytes, context: ToolContext) -> tuple[str, int]:
        if not data.strip():
            raise WorkspaceFileError("content: there is nothing to append")
        self._access.record(path, b"" if self._access.sandbox.kind(path) else None, data, context)
        if not self._access.sandbox.append(path, data):
            return f"{path} ends with exactly this text already: nothing was added", 0
        return f"appended to {path} ({len(data):,} bytes)", len(data)
