"""The ``send_file`` tool."""

from __future__ import annotations

import asyncio
from typing import Annotated, Protocol

from pydantic import AliasChoices, Field

from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.protocol import Outcome, ToolContext

MAX_CAPTION = 1000


class Outgoing(Protocol):
    """Holds files until the reply that they belong to is sent. Blocking."""

    def largest(self, turn: str) -> int:
        """Return how many bytes the largest file may have that goes with a turn's reply."""
        ...

    def put(self, turn: str, path: str, data: bytes, caption: str) -> str | None:
        """Keep a copy of a file for a turn, in the place of an earlier one of the same path; return why not, or None."""
        ...


class SendFileArguments(Arguments):
    """What ``send_file`` takes."""

    path: Annotated[str, Field(validation_alias=AliasChoices("path", "file_path", "filePath"))]
    caption: Annotated[CleanText, Field(max_length=MAX_CAPTION)] = ""


class SendFile(CheckedTool[SendFileArguments]):
    """Sends a file of the workspace along with the reply: the only way in which a file leaves, whatever a reply says.

    What goes out is a copy made now, of a file that those who hear this conversation may read anyhow. The same path once more
    in a turn changes what goes out and sends nothing twice: hence "idempotent".
    """

    def __init__(self, access: FileToolContext, outgoing: Outgoing) -> None:
        super().__init__(
            SendFileArguments,
            name="send_file",
            description=("Send a file of your workspace with your reply; a path in the reply sends nothing."),
            effect="idempotent",
        )
        self._access = access
        self._outgoing = outgoing

    async def act(self, arguments: SendFileArguments, context: ToolContext) -> Outcome:
        """Copy the file to where the reply will take it from."""
        return await asyncio.to_thread(self._send, arguments, context)

    def _send(self, arguments: SendFileArguments, context: ToolContext) -> Outcome:
        path = self._access.readable(arguments.path, context.audience)
        data = self._access.sandbox.read(path, limit=self._outgoing.largest(context.turn)).data
        if not data:
            return failed(f"{path} is empty: there is nothing to send")
        refusal = self._outgoing.put(context.turn, str(path), data, arguments.caption)
        if refusal is not None:
            return failed(refusal)
        return Outcome(
            text=f"{path} ({len(data):,} bytes) goes out with your reply", details={"path": str(path), "bytes": len(data)}
        )
