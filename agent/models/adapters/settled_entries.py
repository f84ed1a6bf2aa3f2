"""Keeps the history of a request as the JSON that is sent, for the next request of its session: that one only adds to it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import is_
from typing import Any, Final

import msgspec

from agent.messages import AssistantMessage, Message, UserMessage
from agent.models.adapters.sanitize import CallIds
from agent.models.protocol import Request

Entry = dict[str, Any]
Translate = Callable[[Sequence[Message], CallIds], list[Entry]]

_LEAST: Final = 32
"""Messages from which on it pays."""
_MOST_BYTES: Final = 4_000_000
_KEPT_FOR: Final = timedelta(hours=1)
"""How long after its last request a session's part is kept: it holds the messages of a session that may be over by then."""


@dataclass(slots=True)
class _Settled:
    """The first messages of a session, and what they are as JSON."""

    messages: list[Message] = field(default_factory=list)
    entries: list[msgspec.Raw] = field(default_factory=list)
    ids: CallIds = field(default_factory=CallIds)
    size: int = 0
    used: datetime | None = None
    """When the last person, or the runtime, had spoken in the latest request."""

    def begins(self, messages: Sequence[Message], until: int) -> bool:
        """Whether these are the very messages that ``messages`` begins with, and not more than ``until`` of them."""
        return len(self.messages) <= until and all(map(is_, self.messages, messages))

    def grow(self, messages: Sequence[Message], translate: Translate) -> None:
        """Take further messages."""
        fresh = [msgspec.json.encode(entry) for entry in translate(messages, self.ids)]
        self.messages += messages
        self.entries += map(msgspec.Raw, fresh)
        self.size += sum(map(len, fresh))


class SettledEntries:
    """The settled part of the latest request of each session of the last hour, from ``least`` messages on, within ``most`` bytes in all.

    Settled is what lies before the last turn that has an answer: nothing that comes later joins its entries, or is marked among them.
    """

    def __init__(self, least: int = _LEAST, most: int = _MOST_BYTES) -> None:
        self._least = least
        self._most = most
        self._known: OrderedDict[Hashable, _Settled] = OrderedDict()

    @property
    def size(self) -> int:
        """How many bytes are kept."""
        return sum(known.size for known in self._known.values())

    def split(
        self, key: Hashable, messages: Sequence[Message], translate: Translate
    ) -> tuple[Sequence[msgspec.Raw], Sequence[Message], CallIds]:
        """Return the entries of what is settled, the messages behind it, and the ids of calls so far.

        ``translate`` makes entries of messages; ``key`` stands for the session and all else that these depend on.
        """
        now = next((message.at for message in reversed(messages) if isinstance(message, UserMessage)), None)
        self._forget(now)
        until = settled_until(messages)
        if until < self._least:
            return (), messages, CallIds()
        known = self._known.pop(key, None)
        if known is None or not known.begins(messages, until):
            known = _Settled()
        known.used = now
        try:
            known.grow(messages[len(known.messages) : until], translate)
        except UnicodeEncodeError:  # see ``request_json``
            return (), messages, CallIds()
        self._known[key] = known
        while self.size > self._most:
            self._known.popitem(last=False)
        return known.entries, messages[until:], known.ids.copy()

    def _forget(self, now: datetime | None) -> None:
        """Forget the sessions that have not been used for long."""
        while now is not None and self._known:
            used = next(iter(self._known.values())).used
            if used is None or now - used < _KEPT_FOR:
                return
            self._known.popitem(last=False)


def entries_of(
    request: Request, settled: SettledEntries | None, translate: Translate, *, images: bool
) -> tuple[Sequence[msgspec.Raw], list[Entry]]:
    """Return the entries of a request's messages: those that are settled, as JSON, and those behind them."""
    if settled is None or not request.cache_key or request.kept_parts is not None:  # with these the first message is marked
        return (), translate(request.messages, CallIds())
    kept, rest, ids = settled.split((request.cache_key, images), request.messages, translate)
    return kept, translate(rest, ids)


def settled_until(messages: Sequence[Message]) -> int:
    """Return how many of the first messages are settled."""
    answered = False
    for index in range(len(messages) - 1, 0, -1):
        if answered and isinstance(messages[index], UserMessage) and _ends_turn(messages[index - 1]):
            return index
        answered = answered or _says_something(messages[index])
    return 0


def _says_something(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and bool(message.calls or message.text.strip())


def _ends_turn(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.calls and bool(message.text.strip())
