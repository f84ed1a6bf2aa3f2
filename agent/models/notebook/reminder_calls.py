"""Reminders of the notebook as calls of the tool ``cron``, and what came of them in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from agent.messages import ToolCall, ToolMessage
from agent.models.notebook.due_time import UnclearTime, When, when_of
from agent.models.notebook.reminders import Remind, Reminders
from agent.models.notebook.repetition_words import ORDINAL
from agent.models.notebook.said_time import DAY
from agent.models.notebook.search_ranking import content_words
from agent.models.notebook.time_words import first_words
from memory.text.late_pattern import LatePattern

NAME: Final = "cron"
CANNOT_RING: Final = "I cannot ring by myself here, though: it is only written down."
_NAMELESS: Final = "You asked me to remind you now."
_LISTED: Final = LatePattern(r"^(?P<number>\d+)\. (?P<id>[a-z]{4,8}) (?P<rest>.*)$", re.MULTILINE)
"""A job in the tool's list."""
_TIME: Final = LatePattern(r"^(?:at|on|in|every|um|am|alle|jede[nrs]?)\b", re.IGNORECASE)
_LEFT: Final = LatePattern(
    r"^(?:and|und)\s+(?:at\s+|um\s+)?\d{1,2}\b(?:\s*uhr)?|^(?:and|und)\s+(?:morgens|mittags|abends|nachts)\b(?:\s+um\s+\d{1,2})?"
    r"|^(?:until|till|bis)\s+\w+|\s(?:until|bis)\s+(?:mon|tues|wednes|thurs|fri|satur|sun|frei|sams|sonn|diens|donners|mitt)\w*$"
    r"|^(?:utc|gmt)\s*[+-]\s*\d+|^\w+\s+time\s+(?:to|about)\b|^(?:from|von)\s+\d{1,2}\s+(?:to|until|bis)\s+\d{1,2}\b|^[6-9]\d\b",
    re.IGNORECASE,
)
"""A second time, an end, a zone or an impossible minute, which the words of the first time leave over."""
_UNREAD: Final = LatePattern(
    r"^(?:at|by|um|gegen)\s+(?:about|around|shortly|just|kurz|circa|ca\.|etwa|ungefähr|half|quarter|halb|viertel|dreiviertel)\b(?:\s+\w+){0,2}"
    r"|^(?:except|but\s+not|außer|ausser|nur\s+nicht)\b(?:\s+\w+){0,2}|^(?:between|from|zwischen|von)\s+\w+\s+(?:and|to|until|und|bis)\s+\w+"
    r"|^(?:or|oder)\s+(?:at\s+|um\s+)?\w+"
    rf"|^(?:every|each|jede[nrs]?|alle|(?:on\s+)?the|am)\s+(?:other|andere[nr]?|{ORDINAL})\s+\w+|^(?:and|und)\s+(?:on\s+|am\s+)?{DAY}"
    rf"|\b(?:every|each|jede[nrs]?|on\s+the|am)\s+(?:other|andere[nr]?|{ORDINAL})$",
    re.IGNORECASE,
)
"""Time words that were not understood, at either end of the text, although others were."""
_WEEKS_ON: Final = LatePattern(
    r"^in\s+(?:an?|one|two|three|\d+|einer?|zwei|drei)\s+(?:weeks?|months?|wochen?|monat(?:en)?)\b", re.IGNORECASE
)
"""Weeks from a weekday on: "Freitag in einer Woche"."""
_PLACEHOLDER: Final = "approval"
"""The detail of a result that says that the call waits for the owner."""


@dataclass(frozen=True, slots=True)
class Due:
    """A reminder that can be set."""

    text: str
    when: When


def due_or_why(wish: Remind, now: datetime) -> Due | str:
    """Return the reminder that was asked for, or why none can be set. ``now`` is the owner's local time."""
    try:
        when = when_of(wish.said, now)
    except UnclearTime as unclear:
        if str(unclear):
            return str(unclear)
        if _TIME.match(wish.text) or not wish.text:
            return "I do not understand when that is. Say it like “tomorrow at 9”, “on 24 December at 18:00” or “every weekday at 8”."
        return "Say when to remind you of it, too, such as “tomorrow at 9” or “every first Monday at 9”."
    left = _LEFT.search(wish.text) if wish.said.timed or wish.said.repeats else None
    if left is None and wish.said.weekday is not None:
        left = _WEEKS_ON.search(wish.text)
    if left is None and first_words(wish.text) is None:
        left = _UNREAD.search(wish.text)
    if left is not None:
        return (
            f"I can set one time for a reminder, and do not understand “{left[0].strip()}” with it. "
            "Say each time by itself, such as “every day at 8” and “every day at 20:00”."
        )
    return Due(wish.text or _NAMELESS, when)


def calls_of(
    intent: Due | Reminders, results: Mapping[str, ToolMessage], key: Callable[[ToolCall], str]
) -> tuple[ToolCall, ...]:
    """Return the calls that an intent takes: a reminder is found in the list before it is removed. ``results`` are those by ``key``."""
    if isinstance(intent, Due):
        return (_call(action="add", kind="reminder", when=intent.when.text, text=intent.text),)
    listing = _call(action="list")
    listed = results.get(key(listing))
    if intent.what == "list" or listed is None or listed.is_error:
        return (listing,)
    found = _matching_lines(listed.text, intent.which)
    return (listing, _call(action="remove", job=found[0]["id"])) if len(found) == 1 else (listing,)


def told_reminders(intent: Due | Reminders, results: Sequence[ToolMessage]) -> str:
    """Put the results of the calls into words."""
    failed = next((result for result in results if result.is_error), None)
    if failed is not None:
        done = "set the reminder" if isinstance(intent, Due) else "do that"
        return f"I could not {done}: {failed.text.strip()}"
    if any(_PLACEHOLDER in result.details for result in results):
        return "That needs my owner's approval. I have asked for it, and do it once it is given."
    return _told_due(intent, results) if isinstance(intent, Due) else _told_list(intent, results)


def _told_due(due: Due, results: Sequence[ToolMessage]) -> str:
    if not results:
        return "It was not set; please ask again."
    text = results[0].text.strip().replace("the owner's latest", "your latest")
    return " ".join([f"⏰ {text}", *due.when.notes])


def _told_list(intent: Reminders, results: Sequence[ToolMessage]) -> str:
    if intent.what == "remove" and len(results) > 1:
        return results[-1].text.strip()
    listed = results[0].text if results else ""
    rows = _rows(_LISTED.finditer(listed))
    if not rows:
        return "You have no reminders. “remind me tomorrow at 9 to water the plants” sets one."
    if intent.what == "list":
        return "\n".join(["Your reminders:", "", *rows, "", "“delete reminder 1” removes the first."])
    found = _rows(_matching_lines(listed, intent.which))
    which = "Which one? Say its number, such as “delete reminder 1”:"
    return "\n".join([which if found or not intent.which else "There is no such reminder. There are:", "", *(found or rows)])


def _rows(jobs: Iterable[re.Match[str]]) -> list[str]:
    return [f"{job['number']}. {job['rest']}" for job in jobs]


def _matching_lines(listed: str, which: str) -> list[re.Match[str]]:
    """Return the jobs of a list that are meant by a number, an id or words."""
    jobs = list(_LISTED.finditer(listed))
    wanted = which.removeprefix("#").casefold()
    if wanted.isdecimal():
        return [job for job in jobs if job["number"] == wanted]
    if exact := [job for job in jobs if job["id"] == wanted]:
        return exact
    words = [word.casefold() for word in content_words(which)] if which else []
    return [job for job in jobs if words and all(word in job["rest"].casefold() for word in words)]


def _call(**arguments: str) -> ToolCall:
    return ToolCall(id="", name=NAME, arguments=dict(arguments))
