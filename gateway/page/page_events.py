"""What open pages are told as it happens: numbered events, each kept for a while, so that a lost connection can catch up."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

KEPT: Final = 500
"""Events that a connection can catch up with. One that missed more is told to load its facts again."""
MOST_WAITING: Final = 2000
"""Events that wait for one slow reader; then its stream ends, and it begins anew."""
MOST_A_BROWSER: Final = 8
MOST: Final = 100
BEAT_SECONDS: Final = 15.0
RELOAD: Final = "reload"
"""The kind of event by which a page is told that it missed some: all that it shows is to be asked for again."""


class TooManyStreams(Exception):
    """A browser, or all together, have as many streams as they may."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """One event. ``kind`` says what changed, such as ``approvals``; ``data`` is JSON. ``relayed``: another gateway told of it."""

    number: int
    kind: str
    data: Any
    relayed: bool = False


@dataclass(eq=False)
class Stream:
    """One connection of a browser. ``take`` returns None once it has ended. ``reader`` is the name of the tab that reads it."""

    browser: str
    reader: str = ""
    waiting: deque[LiveEvent] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    async def take(self, seconds: float) -> LiveEvent | None:
        """Wait for the next event. Raises TimeoutError after ``seconds`` without one."""
        while not self.waiting:
            if self.ended:
                return None
            self.news.clear()
            async with asyncio.timeout(seconds):
                await self.news.wait()
        return self.waiting.popleft()

    def end(self) -> None:
        """End it; what waits is dropped."""
        self.ended = True
        self.waiting.clear()
        self.news.set()

    def put(self, event: LiveEvent) -> None:
        """Queue an event."""
        self.waiting.append(event)
        if len(self.waiting) > MOST_WAITING:
            self.end()
        self.news.set()


class EventHub:
    """The streams of all browsers. Numbers begin anew with each gateway, which ``boot`` tells apart."""

    def __init__(self) -> None:
        self.opened: Callable[[], None] = lambda: None
        """Called whenever a stream begins."""
        self.beat_seconds = BEAT_SECONDS
        """How often a sign of life is sent where nothing happens, so that both sides notice a connection that is gone."""
        self.boot = secrets.token_hex(4)
        self._number = 0
        self._kept: OrderedDict[int, LiveEvent] = OrderedDict()
        self._latest: dict[str, int] = {}
        """By kind the number of its latest event without data, which alone is kept: an earlier one says nothing more."""
        self._let_go = 0
        self._streams: list[Stream] = []
        self._closed = False

    @property
    def watched(self) -> bool:
        """Whether anybody listens."""
        return bool(self._streams)

    @property
    def latest(self) -> str:
        """The name of the latest event, after which a stream can begin."""
        return f"{self.boot}-{self._number}"

    def publish(self, kind: str, data: Any = None, *, relayed: bool = False) -> None:
        """Tell all streams."""
        self._number += 1
        event = LiveEvent(self._number, kind, data, relayed)
        if data is None:
            self._kept.pop(self._latest.get(kind, 0), None)
            self._latest[kind] = self._number
        self._kept[self._number] = event
        if len(self._kept) > KEPT:
            self._let_go, _ = self._kept.popitem(last=False)
        for stream in self._streams:
            stream.put(event)

    def open(self, browser: str, last: str | None, reader: str = "") -> Stream:
        """Begin a stream, with what came after the event ``last`` (``BOOT-NUMBER``, as it was sent), if that is still known.

        It takes the place of the former one of the same ``reader``, whose connection may have died without a word.

        Raises:
            TooManyStreams: there are as many as may be.
        """
        for former in [one for one in self._streams if reader and (one.browser, one.reader) == (browser, reader)]:
            self.close(former)
        count = Counter(one.browser for one in self._streams)
        if self._closed or len(self._streams) >= MOST or count[browser] >= MOST_A_BROWSER:
            raise TooManyStreams
        stream = Stream(browser, reader)
        missed = self._after(last)
        if missed is None:
            stream.put(LiveEvent(self._number, RELOAD, None))
        for event in missed or ():
            stream.put(event)
        self._streams.append(stream)
        self.opened()
        return stream

    def close(self, stream: Stream) -> None:
        """Forget a stream."""
        stream.end()
        if stream in self._streams:
            self._streams.remove(stream)

    def end(self, browser: str | None = None) -> None:
        """End the streams of a browser; of all, and let no new one begin, without one."""
        self._closed = self._closed or browser is None
        for stream in self._streams:
            if browser in {None, stream.browser}:
                stream.end()

    def written(self, event: LiveEvent) -> bytes:
        """Return an event as it is sent."""
        body = json.dumps({"kind": event.kind, "data": event.data}, ensure_ascii=False)
        return f"id: {self.boot}-{event.number}\ndata: ".encode() + body.encode("utf-8", "replace") + b"\n\n"

    def _after(self, last: str | None) -> list[LiveEvent] | None:
        """Return what came after an event; None where that is not known, [] for a reader that knows of none yet."""
        if last is None:
            return []
        boot, _, number = last.partition("-")
        if boot != self.boot or not (number.isascii() and number.isdigit()) or int(number) > self._number:
            return None
        return [one for one in self._kept.values() if one.number > int(number)] if int(number) >= self._let_go else None
