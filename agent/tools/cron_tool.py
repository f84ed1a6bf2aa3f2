"""The ``cron`` tool: reminders and tasks for later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import AfterValidator, AliasChoices, Field

from agent.errors import JobRefused
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.protocol import Act, Outcome, ToolContext

Action = Literal["add", "list", "change", "remove", "pause", "resume", "run", "log"]
MAX_TEXT: Final = 8_000
"""Characters of a reminder or a prompt."""
_MAX_LINE: Final = 200
_LOOKS: Final[frozenset[Action]] = frozenset({"list", "log"})
_TAKES_AWAY: Final[frozenset[Action]] = frozenset({"remove", "pause"})


def _at_most(most: int) -> AfterValidator:
    """Check a length without a word in the schema, where it would cost tokens in every request."""

    def checked(text: str) -> str:
        if len(text) > most:
            raise ValueError(f"is {len(text):,} characters long; at most {most:,} are possible")
        return text

    return AfterValidator(checked)


_Line = Annotated[CleanText, _at_most(_MAX_LINE)]
_Text = Annotated[CleanText, _at_most(MAX_TEXT)]


class CronArguments(Arguments):
    """What ``cron`` takes. Fields that a call leaves out are None, and a change leaves them as they are."""

    action: Action
    job: Annotated[_Line | None, Field(validation_alias=AliasChoices("job", "id", "jobId"), description="id or name")] = None
    when: Annotated[
        _Line | None,
        Field(
            validation_alias=AliasChoices("when", "at", "schedule"),
            description="2026-11-24T09:00, in 20 minutes, every 2h, or cron: 0 9 * * 1-5",
        ),
    ] = None
    text: Annotated[_Text | None, Field(validation_alias=AliasChoices("text", "message", "prompt"))] = None
    kind: Annotated[
        Literal["reminder", "task"] | None, Field(description="reminder: sends text; task: text is your prompt")
    ] = None
    name: _Line | None = None
    to: Literal["owner", "here", "none"] | None = None
    session: Annotated[Literal["isolated", "main"] | None, Field(exclude=True)] = None


class Jobs(Protocol):
    """The jobs of one agent, as far as a conversation may see and change them (``context.audience``)."""

    async def perform(self, wish: CronArguments, context: ToolContext) -> Outcome:
        """Do what a complete call asks. The same call (``context.turn`` and ``context.call``) adds one job, however often it is made.

        Raises:
            JobRefused: it cannot be done; the text says what is wrong and what would do.
        """
        ...

    def preview(self, wish: CronArguments, context: ToolContext) -> tuple[str, str]:
        """Return what a call would do as one line, and the whole job as it would be. Blocking: call it in a thread.

        Raises:
            JobRefused: as in ``perform``.
        """
        ...


class Cron(CheckedTool[CronArguments]):
    """Adds, lists and changes what is to happen later. A call that is made again after a crash adds no second job: hence "idempotent"."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__(
            CronArguments,
            name="cron",
            description=("Reminders and tasks for later or at intervals. Then tell when, as it answers."),
            effect="idempotent",
        )
        self._jobs = jobs

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return what would be set up, with the whole job; None for calls that only look, and for those that ``run`` refuses.

        What a guest or a group takes away of its own is not judged either, unless untrusted text is in view.
        """
        wish = self.checked(arguments)
        if wish is None or wish.action in _LOOKS or _missing(wish):
            return None
        if wish.action in _TAKES_AWAY and context.audience.kind != "owner" and not context.taint:
            return None
        try:
            summary, details = self._jobs.preview(wish, context)
        except JobRefused:
            return None
        return Act(kind="schedule", summary=summary, details=details, quotes=wish.action != "add")

    async def act(self, arguments: CronArguments, context: ToolContext) -> Outcome:
        """Do it."""
        if wrong := _missing(arguments):
            return failed(wrong)
        try:
            return await self._jobs.perform(arguments, context)
        except JobRefused as refused:
            return failed(str(refused), refused.hint, refused.sources)


def _missing(wish: CronArguments) -> str:
    """Say what a call lacks; "" if nothing."""
    if wish.action == "add":
        lacks = [name for name, value in (("when", wish.when), ("text", wish.text)) if not (value and value.strip())]
        return f"add needs {' and '.join(lacks)}" if lacks else ""
    if wish.action == "list":
        return ""
    if not (wish.job and wish.job.strip()):
        return f"{wish.action} needs job: its id or its name, as list tells"
    fields = (wish.when, wish.text, wish.kind, wish.name, wish.to, wish.session)
    if wish.action == "change" and all(one is None for one in fields):
        return "change needs what is to be different: when, text, kind, name, to or session"
    return ""
