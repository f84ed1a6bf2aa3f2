"""Where history may be cut: never between a call and its result, and at the beginning of a turn where that can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.entries import Said
from agent.messages import ToolMessage, UserMessage
from agent.tokens import weight_of
from agent.wire import views_of_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.conversation import Conversation
    from agent.entries import Entry
    from agent.messages import Message


@dataclass(frozen=True, slots=True)
class Cut:
    """``first`` is the first entry that stays. ``request`` is what a person asked in the turn that the cut parts, if it parts one."""

    first: Entry
    dropped: tuple[Entry, ...]
    request: UserMessage | None


def find_cut(conversation: Conversation, keep_tokens: int, keep_turns: int) -> Cut | None:
    """Return where to cut, or None when there is nothing worth summarising.

    Walks back until ``keep_tokens`` and ``keep_turns`` are both reached, but never keeps more than half of the room there is,
    then moves to the nearest legal place at or after: a message of a person, or an answer of the model.
    """
    said = [entry for entry in conversation.transcript.entries if isinstance(entry.body, Said)]
    views = views_of_results(conversation.transcript.entries)
    most = conversation.window.compact_above // 2
    size = turns = 0
    start = len(said)
    for index in range(len(said) - 1, -1, -1):
        if size >= keep_tokens and turns >= keep_turns:
            break
        message = message_of(said[index])
        shown = views[said[index].id].apply(message) if said[index].id in views else message
        weight = conversation.calibration.apply(weight_of(shown))
        if start < len(said) and size + weight > most:
            break
        size += weight
        turns += isinstance(message, UserMessage)
        start = index
    while start < len(said) and isinstance(message_of(said[start]), ToolMessage):
        start += 1
    if not 0 < start < len(said):
        return None
    return Cut(said[start], tuple(said[:start]), _asked(said, start))


def message_of(entry: Entry) -> Message:
    """Return the message of an entry that is one."""
    assert isinstance(entry.body, Said)
    return entry.body.message


def _asked(said: Sequence[Entry], start: int) -> UserMessage | None:
    if isinstance(message_of(said[start]), UserMessage):
        return None
    earlier = (message_of(entry) for entry in reversed(said[:start]))
    return next((message for message in earlier if isinstance(message, UserMessage)), None)
