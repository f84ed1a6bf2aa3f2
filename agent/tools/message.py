"""The ``message`` tool: sends a text to another chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from msgspec import Struct
from pydantic import AliasChoices, Field

from agent.errors import RequestRefused
from agent.tools.arguments import Arguments, CheckedTool, CleanText, at_most, failed
from agent.tools.protocol import Act, Outcome, ToolContext

LONGEST = 8000
"""Characters of a message: two of them on most platforms."""


class MessageArguments(Arguments):
    """What ``message`` takes."""

    to: Annotated[
        str,
        Field(
            validation_alias=AliasChoices("to", "target", "chat"),
            description="telegram, say, or a group as sessions lists it",
        ),
    ]
    text: Annotated[CleanText, at_most(LONGEST), Field(validation_alias=AliasChoices("text", "message"))]


class KnownChat(Struct, frozen=True, kw_only=True):
    """A chat that a message may go to. ``name`` is for people; ``others``: others than the owner read it."""

    name: str
    others: bool


class ChatSender(Protocol):
    """Sends to other chats."""

    def find(self, to: str, context: ToolContext) -> KnownChat | None:
        """Return the chat that ``to`` means in this session, or None. Quick: it does not look at the ledger."""
        ...

    async def send(self, to: str, text: str, context: ToolContext) -> Outcome:
        """Queue a text for a chat; the same call queues it once.

        Raises:
            RequestRefused: there is no such chat, or it cannot be written to.
        """
        ...


class MessageTool(CheckedTool[MessageArguments]):
    """Sends a text to another chat, through the outbox. A repeat of the same call sends nothing twice: hence "idempotent"."""

    def __init__(self, chats: ChatSender) -> None:
        super().__init__(
            MessageArguments,
            name="message",
            description="Send a text to another chat than this one.",
            effect="idempotent",
        )
        self._chats = chats

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return where it would go and what it says; None for arguments that ``run`` refuses."""
        given = self.checked(arguments)
        chat = self._chats.find(given.to, context) if given is not None else None
        if given is None or chat is None:
            return None
        return Act(kind="send", summary=f"send a message to {chat.name}", details=given.text, others=chat.others)

    async def act(self, arguments: MessageArguments, context: ToolContext) -> Outcome:
        """Queue it."""
        try:
            return await self._chats.send(arguments.to, arguments.text, context)
        except RequestRefused as refused:
            return failed(str(refused), refused.hint)
