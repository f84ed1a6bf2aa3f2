"""Pauses all work while there is a cause, and says so; in a cluster, also whether other gateways go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final

from msgspec import Struct

from gateway.queue.lanes import Lanes

Cause = str
"""``crashes``, ``storage`` (a write failed), or ``disk`` and which one."""
OTHERS_WORK: Final = "Other gateways work for its agents meanwhile."


class _Why(Struct, frozen=True):
    """A cause in the words of a gateway that keeps what it has, and in those for a cluster. ``known``: the owner was told before."""

    notice: str
    short: str
    known: bool


class Pause:
    """Pauses the lanes while there is a cause. ``report`` notifies the owner, and ``withdraw`` is given the same notices at its end.

    ``resumed`` is called in a thread when the owner ends it.

    In a cluster the gateway has a ``name``. Where a pause lasts, ``changed`` is called with why; the cluster decides whether others take
    over what this gateway has (``decide``), and only then the owner is told.
    """

    def __init__(self, lanes: Lanes[Any], report: Callable[[str], None], withdraw: Callable[[str], None]) -> None:
        self._lanes = lanes
        self._report = report
        self._withdraw = withdraw
        self._causes: dict[Cause, _Why] = {}
        self._reported: dict[Cause, set[str]] = {}
        self._told: set[str] = set()
        self.name = ""
        self.rests: bool | None = None
        """Whether others take over what this gateway has; None while that is not decided."""
        self.keeps = False
        """Whether something cannot be handed over though others would take it."""
        self.changed: Callable[[str], None] = lambda _: None
        self.resumed: Callable[[], None] = lambda: None
        self.still: Callable[[], Awaitable[Collection[Cause]]] = _none
        """Looks which causes no command ends, as they hold still."""
        self.everywhere: Callable[[], Awaitable[dict[str, Any]]] = self.resume
        """The same as ``resume``, for all gateways of a cluster."""

    @property
    def causes(self) -> list[str]:
        """The causes, in words; empty when nothing is paused."""
        return [self._words(why, rests=bool(self.rests)) for why in self._causes.values()]

    @property
    def lasts(self) -> bool:
        """Whether the pause lasts until somebody acts. A pause for failed writes ends by itself after seconds."""
        return any(cause != "storage" for cause in self._causes)

    def words(self, cause: Cause) -> tuple[str, ...]:
        """Return what the owner may be told of a cause."""
        why = self._causes[cause]
        return tuple({self._words(why, rests=rests) for rests in (False, True)})

    def untold(self, conversation: str) -> bool:
        """Return True once for each conversation during a pause: when its people have to be told. Not where others answer them."""
        if self.name and self.rests is not False and not self.keeps:
            return False
        known = conversation in self._told
        self._told.add(conversation)
        return not known

    def begin(self, cause: Cause, notice: str, *, short: str = "", known: bool = False) -> None:
        """Pause for a cause and notify the owner, unless it is ``known``. ``short`` says it to those who look at a cluster."""
        why = self._causes[cause] = _Why(notice, short, known)
        self._lanes.pause()
        if not self._shared(why):
            self._tell(cause, why)
            return
        if self.rests is not None:
            self._tell(cause, why)
        self._say_why()

    def decide(self, *, rests: bool) -> None:
        """Take note whether others take over what this gateway has, and notify the owner of that once."""
        shared = {cause: why for cause, why in self._causes.items() if self._shared(why)}
        if shared and rests != self.rests:
            self.rests = rests
            for cause, why in shared.items():
                if (former := self._words(why, rests=not rests)) in self._reported.get(cause, ()):
                    self._withdraw(former)
                self._tell(cause, why)

    def end(self, cause: Cause) -> None:
        """Remove a cause. When none is left the lanes resume."""
        if self._causes.pop(cause, None) is not None:
            self._over([cause])

    async def resume(self) -> dict[str, Any]:
        """Resume by the owner's command; return what is over and what ``still`` holds, in words, as JSON values."""
        was = dict(self._causes)
        still = await self.still()
        over = [cause for cause in self._causes if cause not in still]
        words = {cause: self._words(why, rests=bool(self.rests)) for cause, why in (was | self._causes).items()}
        for cause in over:
            del self._causes[cause]
        self._over(over)
        await asyncio.to_thread(self.resumed)
        return {"was": [words[cause] for cause in words if cause not in self._causes], "still": self.causes}

    def _over(self, causes: Iterable[Cause]) -> None:
        for cause in causes:
            for notice in self._reported.pop(cause, ()):
                self._withdraw(notice)
        if not any(self._shared(why) for why in self._causes.values()):
            self.rests, self.keeps = None, False
        self._say_why()
        if not self._causes:
            self._told.clear()
            self._lanes.resume()

    def _say_why(self) -> None:
        self.changed("; ".join(why.short for why in self._causes.values() if self._shared(why)))

    def _tell(self, cause: Cause, why: _Why) -> None:
        notice, reported = self._words(why, rests=bool(self.rests)), self._reported.setdefault(cause, set())
        if not why.known and notice not in reported:
            reported.add(notice)
            self._report(notice)

    def _shared(self, why: _Why) -> bool:
        return bool(self.name and why.short)

    def _words(self, why: _Why, *, rests: bool) -> str:
        if not self._shared(why):
            return why.notice
        return f"{self.name}: {why.short}. {OTHERS_WORK}" if rests else f"{self.name}: {why.notice}"


async def _none() -> Collection[Cause]:
    return ()
