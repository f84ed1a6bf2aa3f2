"""Finds the points at which history may be cut: at the start of a turn where possible, never between a tool call and its result."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from agent.context.session_context import SessionContext
from agent.messages import AssistantMessage, Message, ToolMessage, begins_turn
from agent.models.token_estimate import weight_of
from agent.transcript.entries import Entry, Said, TurnEnded, Unanswered
from agent.transcript.history_view import views_of_results


class Cut(Struct, frozen=True):
    """``first`` is the first entry that stays; ``dropped`` are those before it that do not.

    ``waiting`` are messages before ``first`` that nobody answered yet: they stay as well.
    """

    first: Entry
    dropped: tuple[Entry, ...]
    waiting: tuple[Entry, ...]

    @property
    def parts_a_turn(self) -> bool:
        """Whether the turn that runs lies on both sides of the cut."""
        return bool(self.waiting)


def find_cut(context: SessionContext, keep_tokens: int, keep_turns: int) -> Cut | None:
    """Return where to cut, or None when there is nothing worth summarising.

    Walks back until ``keep_tokens`` and ``keep_turns`` are both reached, but never keeps more than half of the room there is,
    then moves to the nearest legal place at or after: a message of a person, or an answer of the model.
    """
    said = [entry for entry in context.transcript.entries if isinstance(entry.body, Said)]
    views = views_of_results(context.transcript.entries)
    most = context.window.compact_above // 2
    size = turns = 0
    start = len(said)
    for index in range(len(said) - 1, -1, -1):
        if size >= keep_tokens and turns >= keep_turns:
            break
        message = message_of(said[index])
        shown = views[said[index].id].apply(message) if said[index].id in views else message
        weight = context.calibration.apply(weight_of(shown))
        if start < len(said) and size + weight > most:
            break
        size += weight
        turns += begins_turn(message)
        start = index
    while start < len(said) and isinstance(message_of(said[start]), ToolMessage):
        start += 1
    if start == len(said):  # only results stay: their calls, then, with them
        start = max((n for n, entry in enumerate(said) if not isinstance(message_of(entry), ToolMessage)), default=0)
    if not 0 < start < len(said):
        return None
    return cut_at(context, said, start)


def cut_at(context: SessionContext, said: Sequence[Entry], start: int) -> Cut | None:
    """Return the cut before ``said[start]``, or None where nothing is left to drop."""
    unanswered = {entry.id for entry in _unanswered(context.transcript.entries)}
    waiting = tuple(entry for entry in said[:start] if entry.id in unanswered)
    dropped = tuple(entry for entry in said[:start] if entry.id not in unanswered)
    return Cut(said[start], dropped, waiting) if dropped else None


def message_of(entry: Entry) -> Message:
    """Return the message of an entry that is one."""
    assert isinstance(entry.body, Said)
    return entry.body.message


def _unanswered(entries: Sequence[Entry]) -> list[Entry]:
    """The messages behind the last answer that ended a turn, or behind the last turn that was given up."""
    found: list[Entry] = []
    for entry in reversed(entries):
        if isinstance(entry.body, (TurnEnded, Unanswered)) or (
            isinstance(entry.body, Said) and _ends_a_turn(entry.body.message)
        ):
            break
        if isinstance(entry.body, Said) and begins_turn(entry.body.message):
            found.append(entry)
    return found


def _ends_a_turn(message: Message) -> bool:
    if not isinstance(message, AssistantMessage):
        return False
    return not message.calls and message.failure is None and message.stop in {"end", "length"}
