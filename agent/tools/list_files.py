"""The ``list`` tool."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AliasChoices, Field

from agent.taint import merged
from agent.tools.arguments import Arguments, CheckedTool
from agent.tools.file_tool_context import FileToolContext, walk
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.workspace_sandbox import Entry

MAX_ENTRIES = 500
_MARK = 80


class ListArguments(Arguments):
    """What ``list`` takes."""

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "folder"))] = ""
    depth: Annotated[int, Field(ge=1, le=8)] = 1


class ListFiles(CheckedTool[ListArguments]):
    """Lists a folder, one full path a line."""

    def __init__(self, access: FileToolContext) -> None:
        super().__init__(
            ListArguments,
            name="list",
            description="List files and folders of your workspace, with sizes in bytes.",
            effect="pure",
        )
        self._access = access

    async def act(self, arguments: ListArguments, context: ToolContext) -> Outcome:
        """List."""
        return await asyncio.to_thread(self._list, arguments, context)

    def _list(self, arguments: ListArguments, context: ToolContext) -> Outcome:
        start = self._access.readable(arguments.path, context.audience)
        lines: list[str] = []
        shown: list[PurePosixPath] = []
        room, more = context.max_chars - _MARK, 0
        for path, entry in walk(self._access, start, context.audience, depth=arguments.depth):
            line = _line(path, entry)
            room -= len(line) + 1
            if len(lines) >= MAX_ENTRIES or room < 0:
                more += 1
            else:
                lines.append(line)
                shown.append(path)
        with self._access.untrusted.checked_once():
            sources = merged(*map(self._access.untrusted.of_name, shown))
        if more:
            lines.append(f"[{more:,} more; list a folder of it, or grep]")
        return Outcome(
            text="\n".join(lines) or "[the folder is empty]", details={"entries": len(lines) + more}, sources=sources
        )


def _line(path: PurePosixPath, entry: Entry) -> str:
    if entry.kind == "folder":
        return f"{path}/"
    return (
        f"{path}  {entry.size:,}"
        if entry.kind == "file"
        else f"{path}  ({'a link' if entry.kind == 'link' else 'no plain file'})"
    )
