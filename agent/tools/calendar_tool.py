"""The ``calendar`` tool: what is in the owner's calendars, when there is time, and changing them; and whose number or address is what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import AfterValidator, AliasChoices, Field

from agent.errors import CalendarFailed
from agent.tools.arguments import Arguments, CheckedTool, CleanText, at_most, failed
from agent.tools.protocol import Act, Outcome, ToolContext

Action = Literal["list", "free", "search", "show", "create", "change", "cancel", "calendars", "contacts"]
ACTS: Final[frozenset[Action]] = frozenset({"create", "change", "cancel"})
_WHEN: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "search": ("text",),
    "show": ("event",),
    "create": ("title", "start"),
    "change": ("event",),
    "cancel": ("event",),
    "contacts": ("text",),
}
_NAMES: Final = {"start": "from"}
_CHANGES: Final = ("start", "end", "title", "place", "notes", "repeat", "minutes")


def _when(text: str) -> str:
    """Bring a day or a local time into one form, to the minute."""
    found = _WHEN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no day or time; write 2026-11-24 or 2026-11-24T09:00")
    day, time, offset = found.groups()
    made = day + (f"T{time}" if time else "") + (offset or "")
    try:
        datetime.fromisoformat(made)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} does not exist ({error})") from error
    return made


When = Annotated[CleanText, AfterValidator(_when)]
_Line = Annotated[CleanText, at_most(300)]


def _longest(text: str) -> str:
    if len(text) > 8000:  # noqa: PLR2004 -- as long as the text of a job
        raise ValueError(f"has {len(text):,} characters; at most 8,000 are possible")
    return text


_Words = Annotated[CleanText, AfterValidator(_longest)]


class CalendarArguments(Arguments):
    """What ``calendar`` takes. Fields that a call leaves out are None, and a change leaves them as they are."""

    action: Action
    start: Annotated[
        When | None,
        Field(validation_alias=AliasChoices("from", "start", "date"), description="2026-11-24 or 2026-11-24T09:00"),
    ] = None
    end: Annotated[When | None, Field(validation_alias=AliasChoices("to", "end", "until"))] = None
    event: Annotated[_Line | None, Field(validation_alias=AliasChoices("event", "id"))] = None
    title: Annotated[_Line | None, Field(validation_alias=AliasChoices("title", "summary"))] = None
    place: Annotated[_Words | None, Field(validation_alias=AliasChoices("place", "location"))] = None
    notes: Annotated[_Words | None, Field(validation_alias=AliasChoices("notes", "description"))] = None
    calendar: _Line | None = None
    repeat: Annotated[_Line | None, Field(validation_alias=AliasChoices("repeat", "rrule"), description="RRULE")] = None
    scope: Annotated[Literal["one", "following", "all"] | None, Field()] = None
    minutes: Annotated[int | None, Field(ge=0, le=43_200, description="free: least length; else alarm before")] = None
    text: Annotated[_Line | None, Field(validation_alias=AliasChoices("text", "query"))] = None


class Calendars(Protocol):
    """The calendars and address books of one agent."""

    async def perform(self, wish: CalendarArguments, context: ToolContext) -> Outcome:
        """Do what a complete call asks. The same call (``context.turn`` and ``context.call``) changes the same, however often it is made.

        Raises:
            CalendarFailed: it cannot be done; the text says what is wrong.
        """
        ...

    def preview(self, wish: CalendarArguments, context: ToolContext) -> Act | None:
        """Return what a call of ``ACTS`` would do; None where it would do nothing, and ``perform`` says why. Blocking: it looks it up."""
        ...


class CalendarTool(CheckedTool[CalendarArguments]):
    """Reads and changes calendars. A call that is made again after a crash changes nothing further: hence "idempotent"."""

    def __init__(self, calendars: Calendars) -> None:
        super().__init__(
            CalendarArguments,
            name="calendar",
            description=("The owner's calendars; contacts finds mail and phone. List before you change."),
            effect="idempotent",
            output="calendars and address books, which others write in, too: untrusted",
            needs=("network",),
            private=True,
        )
        self._calendars = calendars

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return what would be changed; None for calls that only look, and for those that ``run`` refuses."""
        wish = self.checked(arguments)
        if wish is None or wish.action not in ACTS or _missing(wish):
            return None
        return self._calendars.preview(wish, context)

    async def act(self, arguments: CalendarArguments, context: ToolContext) -> Outcome:
        """Do it."""
        if wrong := _missing(arguments):
            return failed(wrong)
        try:
            return await self._calendars.perform(arguments, context)
        except CalendarFailed as error:
            return failed(str(error), error.hint)


def _missing(wish: CalendarArguments) -> str:
    """Say what a call lacks; "" if nothing."""
    lacks = [_NAMES.get(name, name) for name in _NEEDS.get(wish.action, ()) if getattr(wish, name) is None]
    if lacks:
        return f"{wish.action} needs {' and '.join(lacks)}" + ("; list tells the ids" if "event" in lacks else "")
    if wish.action == "change" and all(getattr(wish, name) is None for name in _CHANGES):
        return "change needs what is to be different: from, to, title, place, notes, repeat or minutes"
    if wish.end is not None and wish.start is None and wish.action in {"list", "free", "search"}:
        return f"{wish.action} with to needs from"
    return ""
