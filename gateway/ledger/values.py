"""What the parts of the SQLite ledger have in common: the thread, the clock, and how values are written."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from channels.messages import ChatAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gateway.ledger.thread import LedgerThread

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIELDS = frozenset(field.name for field in fields(ChatAddress))


WITHIN = "(conversation = :at OR substr(conversation, 1, length(:at) + 8) = :at || ':thread:')"
"""In a query: the conversation with the address ``:at``, or a thread of it."""


class Clock(Protocol):
    """The time, from outside."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...


class NameCache:
    """For what rows of some kind exist, kept in memory: hardly any do, and every message asks.

    Whoever adds rows says ``changed`` before; what was read before that is not learnt any more.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._known: frozenset[str] | None = None

    def changed(self) -> None:
        """Forget: what is known may be too little from now on."""
        self.changes += 1
        self._known = None

    def learn(self, names: Iterable[str], as_of: int) -> None:
        """Take note of all names, read when there had been ``as_of`` changes."""
        if as_of == self.changes:
            self._known = frozenset(names)

    def lacks(self, name: str) -> bool:
        """Whether there is certainly no row for a name."""
        return self._known is not None and name not in self._known


class Part:
    """A part of the ledger. ``token`` makes a new random name of at most 25 characters."""

    def __init__(self, thread: LedgerThread, clock: Clock, token: Callable[[], str]) -> None:
        self._thread = thread
        self._clock = clock
        self._token = token
        self._listeners: list[Callable[[], None]] = []
        self._asides, self._allowances = NameCache(), NameCache()

    def _ring(self) -> None:
        for listener in self._listeners:
            listener()


def stamp(instant: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (instant - _START) // _MICROSECOND


def instant(microseconds: int) -> datetime:
    """The reverse of ``stamp``."""
    return _START + timedelta(microseconds=microseconds)


def clean(text: str) -> str:
    """Replace lone surrogates, which no database takes; joined pairs become the character they stand for."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def listed(values: Iterable[int] | Iterable[str]) -> str:
    """Values for ``IN (SELECT value FROM json_each(?))``."""
    return json.dumps(list(values))


def write_conversation(conversation: ChatAddress) -> str:
    """A conversation as JSON."""
    return json.dumps({name: value for name, value in flat(conversation).items() if value is not None})


def read_conversation(text: str) -> ChatAddress:
    """The reverse; what a later version added is left out."""
    return as_conversation(json.loads(text))


def as_conversation(written: dict[str, Any]) -> ChatAddress:
    """A conversation from its fields; what a later version added is left out."""
    return ChatAddress(**{name: value for name, value in written.items() if name in _FIELDS})


def flat(values: Any) -> dict[str, Any]:
    """The fields of a dataclass with slots, as they are. ``dataclasses.asdict`` copies them deeply, which costs more than the rest."""
    return {name: getattr(values, name) for name in values.__slots__}


def account_of(conversation: ChatAddress) -> str:
    """The name under which the ledger keeps a channel's account, such as ``telegram:default``."""
    return f"{conversation.channel}:{conversation.account}"
