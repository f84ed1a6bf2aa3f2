"""Times in words for others than the notebook: a text that is nothing but a time, as it stands in a sentence."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from agent.models.notebook.due_time import MONTHS_LEFT_OUT, UnclearTime, when_of
from agent.models.notebook.reminders import all_first
from agent.models.notebook.said_time import NOTHING

_MARKS: Final = " ,.!"


def spoken_schedule(text: str, now: datetime) -> str | None:
    """Return a time or a repetition in words as ``When.text``; None where it is no such thing, or something would be assumed.

    ``now`` is the owner's local time, without a zone.
    """
    said, rest = all_first(text.strip(), NOTHING)
    if said == NOTHING or rest.strip(_MARKS):
        return None
    try:
        when = when_of(said, now)
    except UnclearTime:
        return None
    return None if any(MONTHS_LEFT_OUT not in note for note in when.notes) else when.text
