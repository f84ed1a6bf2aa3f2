"""The view of a transcript that grows, without going over its whole history for each message.

A long conversation is looked at several times a turn, and nearly always only its end is new. What lies before the last answer
can change by nothing that comes behind it but a summary, a pruning mark or a picture: then the whole is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo

from agent.messages import AssistantMessage, Image, Message, ToolMessage, UserMessage
from agent.transcript.entries import Entry, Said
from agent.transcript.history_view import SHRINKING, is_stopped, paired, shown_as_it_is, stamped, turn_of, unrepaired, useless


class RunningView:
    """Gives what ``agent.transcript.history_view.view`` gives, for the entries of one transcript that are asked about again and again."""

    def __init__(self) -> None:
        self._entries: Sequence[Entry] = ()
        self._zone: tzinfo | None = None
        self._seen = 0
        self._grows = True
        self._settled: list[Message] = []
        """What is shown before the last answer, with everything in its place."""
        self._stopped = ""
        """The turn of the latest stopped answer: if it goes on, that answer was none."""
        self._open: list[Message] = []
        """What is shown from the last answer on, before calls are paired with results that may still come."""
        self._shown: tuple[Message, ...] = ()

    def of(self, entries: Sequence[Entry], zone: tzinfo) -> tuple[Message, ...]:
        """Return the view of ``entries``: the sequence of the last time, perhaps with more at its end, or another one."""
        if entries is not self._entries or zone is not self._zone or len(entries) < self._seen:
            return self._anew(entries, zone)
        fresh = entries[self._seen :]
        if not fresh:
            return self._shown
        if not self._grows or _stopped_turn(fresh) or any(self._reaches_back(entry) for entry in fresh):
            return self._anew(entries, zone)
        self._seen = len(entries)
        self._take(stamped(message, zone) for entry in fresh for message in shown_as_it_is(entry))
        return self._shown

    def _reaches_back(self, entry: Entry) -> bool:
        """Whether an entry may change how those before it are shown."""
        if isinstance(entry.body, Said):
            return _has_pictures(entry.body.message) or turn_of(entry) == self._stopped
        return isinstance(entry.body, SHRINKING)

    def _anew(self, entries: Sequence[Entry], zone: tzinfo) -> tuple[Message, ...]:
        messages = unrepaired(entries, zone)
        self._entries, self._zone, self._seen = entries, zone, len(entries)
        self._grows = not any(map(_has_pictures, messages))
        self._stopped = _stopped_turn(entries)
        self._settled, self._open = [], []
        self._take(messages)
        return self._shown

    def _take(self, messages: Iterable[Message]) -> None:
        """Add messages, and settle what lies before the last answer: only behind it are results of its calls looked for."""
        self._open += [message for message in messages if not useless(message)]
        if not self._settled:
            while self._open and not isinstance(self._open[0], UserMessage):
                self._open.pop(0)
        last = next((n for n in range(len(self._open) - 1, 0, -1) if _settles(self._open[n])), 0)
        self._settled += paired(self._open[:last])
        self._open = self._open[last:]
        self._shown = (*self._settled, *paired(self._open))


def _stopped_turn(entries: Sequence[Entry]) -> str:
    stopped = (entry for entry in reversed(entries) if isinstance(entry.body, Said) and is_stopped(entry.body.message))
    return next(map(turn_of, stopped), "")


def _settles(message: Message) -> bool:
    """Whether what stands before a message is settled by it: a stopped answer may still turn out to be none."""
    return isinstance(message, AssistantMessage) and not is_stopped(message)


def _has_pictures(message: Message) -> bool:
    if isinstance(message, UserMessage):
        return any(isinstance(part, Image) for part in message.content)
    return isinstance(message, ToolMessage) and bool(message.images)
