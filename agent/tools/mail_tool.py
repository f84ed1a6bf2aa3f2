"""The ``mail`` tool: reads and sends mail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from agent.errors import MailRefused
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.protocol import Act, Need, Outcome, ToolContext

Action = Literal["folders", "list", "search", "read", "save", "send", "reply", "reply_all", "forward", "move", "mark"]
SENDS: Final[frozenset[Action]] = frozenset({"send", "reply", "reply_all", "forward"})
LONGEST_TEXT: Final = 100_000
"""Characters of a mail."""
_LINE: Final = 2000
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("id",),
    "save": ("id",),
    "send": ("to", "subject", "text"),
    "reply": ("id", "text"),
    "reply_all": ("id", "text"),
    "forward": ("id", "to"),
    "move": ("id", "folder"),
    "mark": ("id", "mark"),
}
"""What each action cannot do without."""


def _listed(given: object) -> object:
    return ", ".join(map(str, given)) if isinstance(given, list) else given


def _at_most(characters: int) -> AfterValidator:
    """Check a length without a word in the schema, where it would cost tokens in every request."""

    def check(text: str) -> str:
        if len(text) > characters:
            raise ValueError(f"has {len(text):,} characters; at most {characters:,} are possible")
        return text

    return AfterValidator(check)


_Short = Annotated[CleanText, _at_most(_LINE)]
_Addresses = Annotated[str, BeforeValidator(_listed), _at_most(20 * _LINE)]


class MailArguments(Arguments):
    """What ``mail`` takes."""

    action: Action
    id: _Short | None = None
    query: Annotated[_Short | None, Field(description="from:ann since:2026-01-31 is:unread word")] = None
    account: _Short | None = None
    folder: _Short | None = None
    to: _Addresses | None = None
    cc: _Addresses | None = None
    bcc: Annotated[_Addresses | None, Field(exclude=True)] = None
    subject: _Short | None = None
    text: Annotated[
        Annotated[CleanText, _at_most(LONGEST_TEXT)] | None, Field(validation_alias=AliasChoices("text", "body"))
    ] = None
    attach: tuple[_Short, ...] | None = None
    draft: Annotated[bool, Field(description="do not send")] = False
    mark: Literal["read", "unread", "flagged", "unflagged"] | None = None
    attachment: Annotated[int | None, Field(ge=1)] = None
    offset: Annotated[int, Field(ge=0, exclude=True)] = 0


class Mailboxes(Protocol):
    """The mailboxes of one agent."""

    def preview(self, wish: MailArguments, context: ToolContext) -> Act | None:
        """Return what a complete call would do; None where it changes and sends nothing. Blocking: it may ask the mail server.

        A mail is written here and kept, so that what is sent is what was shown.

        Raises:
            MailRefused: it cannot be done; the text says what is wrong and what would do.
        """
        ...

    def known_outcome(self, wish: MailArguments, context: ToolContext) -> str:
        """Say what is known of a call whose outcome is not; "" if nothing. Quick."""
        ...

    async def perform(self, wish: MailArguments, context: ToolContext) -> Outcome:
        """Do it. A mail that ``preview`` did not write is not sent; the same call sends it once, however often it is made.

        Raises:
            MailRefused: as in ``preview``.
        """
        ...


class MailTool(CheckedTool[MailArguments]):
    """Reads, sends and sorts mail. A call that is made again after a crash sends no second mail: hence "idempotent"."""

    output = "mails, which others wrote"
    needs: tuple[Need, ...] = ("network", "approval")
    private = True

    def __init__(self, mailboxes: Mailboxes) -> None:
        super().__init__(
            MailArguments,
            name="mail",
            description=(
                "The owner's mail, newest first. save puts an attachment into inbox/. The owner is asked before mail is sent: do not "
                "ask yourself."
            ),
            effect="idempotent",
        )
        self._mailboxes = mailboxes

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return what would be sent or changed; None for what only reads, and for calls that ``run`` refuses."""
        wish = self.checked(arguments)
        if wish is None or _missing(wish):
            return None
        try:
            return self._mailboxes.preview(wish, context)
        except MailRefused:
            return None

    def known_of(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Say what is known of a mail whose sending was interrupted."""
        wish = self.checked(arguments)
        return self._mailboxes.known_outcome(wish, context) if wish is not None and wish.action in SENDS else ""

    async def act(self, arguments: MailArguments, context: ToolContext) -> Outcome:
        """Do it."""
        if wrong := _missing(arguments):
            return failed(wrong)
        try:
            return await self._mailboxes.perform(arguments, context)
        except MailRefused as refused:
            return failed(str(refused), refused.hint, refused.sources)


def _missing(wish: MailArguments) -> str:
    """Say what a call lacks; "" if nothing."""
    lacks = [name for name in _NEEDS.get(wish.action, ()) if not (getattr(wish, name) or "").strip()]
    return f"{wish.action} needs {' and '.join(lacks)}" if lacks else ""
