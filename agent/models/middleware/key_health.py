"""Tracks which key failed with which model, until when it is not used, and which key a session keeps to.

A key that is rate limited or rejected is not used with that model for a while (limits are counted by model). One without credit
is not used with any model for hours. Errors of a request do not count against a key. A session keeps to one key as long as it
works, because a provider's prompt cache belongs to the key's account.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from agent.messages import Failure, FailureKind
from agent.models.catalog.provider_keys import Key
from agent.models.middleware.cooldown import Cooldowns, cooldown_seconds
from agent.timing import Clock

ROTATING_KINDS: frozenset[FailureKind] = frozenset({"auth", "billing", "rate_limit"})
"""Failures for which the provider's next key is tried."""
EVERY_MODEL = "*"
FORGOTTEN_AFTER = timedelta(hours=24)
"""A failure that is longer ago does not make the next rest longer."""
_SESSIONS = 1024


class KeyTrouble(Struct, frozen=True):
    """The failures of one key with one model (or all): kind, number in a row, time of the last, end of the cooldown."""

    kind: FailureKind
    times: int
    at: datetime
    until: datetime


class HealthStore(Protocol):
    """Stores the health of keys across restarts. Neither method raises: what cannot be stored is lost."""

    def load(self) -> dict[tuple[str, str], KeyTrouble]:
        """Return what was kept, by the key's id and the model."""
        ...

    async def save(self, ailing: Mapping[tuple[str, str], KeyTrouble]) -> None:
        """Keep it."""
        ...


class KeyHealth:
    """The health of all keys. ``rests`` gives the cooldowns in force."""

    def __init__(self, clock: Clock, store: HealthStore | None = None, *, rests: Callable[[], Cooldowns] = Cooldowns) -> None:
        self.rests = rests
        self._clock = clock
        self._store = store
        self._ailing: dict[tuple[str, str], KeyTrouble] = store.load() if store else {}
        self._pinned: dict[int, str] = {}
        """By a hash of the session and the provider, which takes a quarter of their memory: the key's id, the latest last."""
        self._used: dict[str, int] = {}
        self._uses = 0

    def is_over(self, moment: datetime) -> bool:
        """Whether an instant has passed, by the clock that rests are measured with."""
        return self._clock.now() >= moment

    def order(self, keys: Sequence[Key], model: str, session: str = "", *, fixed: bool = True) -> list[Key]:
        """Return the keys to try: the session's own, then those awake; when all rest, only the one that is awake first.

        ``fixed`` keeps the awake ones in the order given; else those of one origin take turns, the least recently begun first.
        """
        now = self._clock.now()
        awake = [key for key in keys if self._until(key, model, now) <= now]
        if not awake:
            return sorted(keys, key=lambda key: self._until(key, model, now))[:1]
        origins = list(dict.fromkeys(key.origin for key in awake))
        if not fixed:
            awake.sort(key=lambda key: (origins.index(key.origin), self._used.get(key.id, 0)))
        own = self._pinned.get(_place(session, model)) if session else None
        return sorted(awake, key=lambda key: key.id != own)

    def begun(self, key: Key, model: str, session: str) -> None:
        """Take note that a key is used for a session, which keeps to it from now on."""
        self._uses += 1
        self._used[key.id] = self._uses
        if session:
            place = _place(session, model)
            self._pinned.pop(place, None)
            self._pinned[place] = sys.intern(key.id)
            while len(self._pinned) > _SESSIONS:
                del self._pinned[next(iter(self._pinned))]

    async def failed(self, key: Key, model: str, failure: Failure) -> None:
        """Lay a key to rest. A failure while it rests already makes the rest no longer."""
        now, place = self._clock.now(), (key.id, EVERY_MODEL if failure.kind == "billing" else model)
        known = self._ailing.get(place)
        if known is not None and known.until > now:
            return
        times = known.times + 1 if known is not None and now - known.at < FORGOTTEN_AFTER else 1
        self._ailing[place] = KeyTrouble(
            failure.kind, times, now, now + timedelta(seconds=cooldown_seconds(failure, times, self.rests()))
        )
        await self._save()

    async def worked(self, key: Key, model: str) -> None:
        """Take note that a key is well."""
        places = [place for place in ((key.id, model), (key.id, EVERY_MODEL)) if place in self._ailing]
        for place in places:
            del self._ailing[place]
        if places:
            await self._save()

    def ailing(self, key: Key) -> dict[str, KeyTrouble]:
        """Return what ails a key now, by model."""
        now = self._clock.now()
        return {model: ill for (one, model), ill in self._ailing.items() if one == key.id and ill.until > now}

    def _until(self, key: Key, model: str, now: datetime) -> datetime:
        found = [ill.until for place in ((key.id, model), (key.id, EVERY_MODEL)) if (ill := self._ailing.get(place))]
        return max(found, default=now)

    async def _save(self) -> None:
        if self._store is not None:
            now = self._clock.now()
            self._ailing = {place: ill for place, ill in self._ailing.items() if now - ill.at < 2 * FORGOTTEN_AFTER}
            await self._store.save(dict(self._ailing))


def _place(session: str, model: str) -> int:
    return hash((session, model.partition("/")[0]))
