"""The ``sessions`` tool: lists sessions, reads the history of one, and sends sub-agents more to do."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from pydantic import AliasChoices, Field

from agent.errors import RequestRefused
from agent.tools.arguments import Arguments, CheckedTool, CleanText, at_most, failed
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.spawn import LONGEST_TASK


class SessionsArguments(Arguments):
    """What ``sessions`` takes."""

    action: Literal["list", "history", "send"]
    session: Annotated[str | None, Field(validation_alias=AliasChoices("session", "id", "sessionKey", "key"))] = None
    text: Annotated[
        Annotated[CleanText, at_most(LONGEST_TASK)] | None, Field(validation_alias=AliasChoices("text", "message"))
    ] = None
    before: Annotated[int | None, Field(description="a message's number")] = None


class Sessions(Protocol):
    """The sessions that a session may see."""

    async def list(self, context: ToolContext) -> Outcome:
        """List them."""
        ...

    async def history(self, session: str, before: int | None, context: ToolContext) -> Outcome:
        """Return the last messages of one, or those before a number.

        Raises:
            RequestRefused: it is not one of them.
        """
        ...

    async def send(self, session: str, text: str, context: ToolContext) -> Outcome:
        """Send a sub-agent a message; the same call sends it once.

        Raises:
            RequestRefused: it is none of this session's, or a limit forbids it.
        """
        ...


class SessionsTool(CheckedTool[SessionsArguments]):
    """Looks at sessions and sends to them. A repeat of the same call sends nothing twice: hence "idempotent"."""

    def __init__(self, sessions: Sessions) -> None:
        super().__init__(
            SessionsArguments,
            name="sessions",
            description="Your sub-agents and conversations: list them, read one, or send a sub-agent more to do.",
            effect="idempotent",
        )
        self._sessions = sessions

    async def act(self, arguments: SessionsArguments, context: ToolContext) -> Outcome:
        """Do it."""
        session, text = arguments.session or "", arguments.text or ""
        if arguments.action != "list" and not session:
            return failed(f"session: is required for {arguments.action}")
        if arguments.action == "send" and not text:
            return failed("text: is required for send")
        try:
            match arguments.action:
                case "list":
                    return await self._sessions.list(context)
                case "history":
                    return await self._sessions.history(session, arguments.before, context)
                case "send":
                    return await self._sessions.send(session, text, context)
        except RequestRefused as refused:
            return failed(str(refused), refused.hint)
