"""The ``edit`` tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from agent.errors import WorkspaceFileError
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.read_file import is_binary


class EditArguments(Arguments):
    """What ``edit`` takes."""

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path", "filePath"))]
    old: Annotated[
        CleanText,
        Field(
            min_length=1,
            validation_alias=AliasChoices("old", "old_string", "oldString", "oldText"),
            description="as read, with enough around it to be unique",
        ),
    ]
    new: Annotated[CleanText, Field(validation_alias=AliasChoices("new", "new_string", "newString", "newText"))]
    all: Annotated[bool, Field(validation_alias=AliasChoices("all", "replace_all", "replaceAll"))] = False


class EditFile(CheckedTool[EditArguments]):
    """Replaces a piece of text. Every byte outside it stays, also where the file is not UTF-8.

    An "effect": where ``new`` contains ``old``, a repeat would replace again.
    """

    def __init__(self, access: FileToolContext) -> None:
        super().__init__(
            EditArguments,
            name="edit",
            description="Replace one piece of text in a file that you have read.",
            effect="effect",
        )
        self._access = access

    async def act(self, arguments: EditArguments, context: ToolContext) -> Outcome:
        """Edit, then tell the memory."""
        path = self._access.changeable(arguments.path, context.audience)
        if "\0" in arguments.new:
            return failed("new: has a NUL character, which is not text")
        await self._access.changing(path)
        times = await asyncio.to_thread(self._edit, path, arguments, context)
        await self._access.changed(path, context)
        return Outcome(text=f"edited {path} ({times} {'place' if times == 1 else 'places'})", details={"path": str(path)})

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return the act where the file is one that conversations are given, or that others may read."""
        given = self.checked(arguments)
        if given is None:
            return None
        return self._access.standing([given.path], context, lambda: self._details(given, context))

    def _details(self, given: EditArguments, context: ToolContext) -> str:
        from agent.tools.change_details import difference, not_fitting, replaced

        try:
            path = self._access.changeable(given.path, context.audience)
            present = self._access.sandbox.read(path).data
            return difference(path, present, _replaced(present, given, path)[0])
        except WorkspaceFileError as trouble:
            return not_fitting(trouble, "\n".join(replaced(given.old.split("\n"), given.new.split("\n"))))

    def _edit(self, path: PurePosixPath, arguments: EditArguments, context: ToolContext) -> int:
        present = self._access.sandbox.read(path).data
        if is_binary(present):
            raise WorkspaceFileError(f"{path} is not text")
        if not context.approved:  # what was read is forgotten by a restart, and a question may be answered after one
            self._access.readings.require(context.session, path, present)
        edited, times = _replaced(present, arguments, path)
        self._access.record(path, present, edited, context)
        self._access.sandbox.replace(path, edited, expected=present)
        self._access.readings.rewritten(context.session, path, edited)
        return times


def _replaced(present: bytes, arguments: EditArguments, path: PurePosixPath) -> tuple[bytes, int]:
    old, new = arguments.old.encode(), arguments.new.encode()
    if old not in present and b"\r\n" in present:  # models write plain line ends
        old, new = _windows_lines(old), _windows_lines(new)
    times = present.count(old)
    if times == 0:
        raise WorkspaceFileError(f"old: does not occur in {path}; copy it exactly as read, spaces and line ends included")
    if times > 1 and not arguments.all:
        raise WorkspaceFileError(f"old: occurs {times} times in {path}; take more of the text around it, or set all to true")
    if old == new:
        raise WorkspaceFileError("new: is the same as old")
    return present.replace(old, new), times


def _windows_lines(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
