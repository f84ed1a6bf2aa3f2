"""The answer to one request as it comes: text and activity while a turn works, and the finished reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channels.live import Activity, Done, LiveEvent, Note, Rejected

_MARKS = {"started": "…", "finished": "✓", "failed": "✗"}


@dataclass(frozen=True, slots=True)
class Progress:
    """What came since the last look: more text of the answer, and lines on what the agent does."""

    text: str = ""
    activity: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end. ``text`` is the whole reply, ``rest`` what was not passed on as progress. ``failure``: why there is none."""

    text: str
    rest: str
    facts: Mapping[str, Any]
    failure: str = ""
    hint: str = ""

    @property
    def stopped(self) -> bool:
        """Whether the turn was stopped before its end, so that the reply is cut."""
        return bool(self.facts.get("stopped"))


class PendingAnswer:
    """Collects what a channel hears of one message, for one reader. Progress that is not read is joined, so it stays small.

    Text that was passed on cannot be taken back: when a model begins again, nothing more is passed on until the reply is finished.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._news = asyncio.Event()
        self._shown = ""
        self._text = ""
        self._holding = False
        self._activity: list[str] = []
        self._replies: dict[str, str] = {}
        self._own: set[str] = set()
        self._asides: dict[str, str] = {}
        self._done: dict[str, Done] = {}
        self._rejected: Rejected | None = None

    def preview(self, text: str) -> None:
        """Take the reply so far, whole."""
        text = text.rstrip()
        if text.startswith(self._text) and not self._holding:
            self._text = text
            self._news.set()
        else:
            self._holding = True

    def hear(self, frame: LiveEvent) -> None:
        """Take an event."""
        match frame:
            case Activity(text=text, state=state):
                self._activity.append(f"{_MARKS[state]} {text}")
            case Note(text=text):
                self._activity.append(text)
            case Done(key=key):
                self._done[key] = frame
            case Rejected(key=key) if key == self.key:
                self._rejected = frame
        self._news.set()

    def reply(self, text: str, key: str, *, own: bool) -> None:
        """Take a piece of a reply. ``own``: it is known to be one to this message; of others the turn's end says so."""
        self._replies[key] = text
        if own:
            self._own.add(key)
        self._news.set()

    def aside(self, text: str, key: str) -> None:
        """Take what is to be said before the reply."""
        self._asides[key] = text
        self._news.set()

    async def next(self) -> Progress | Ended:
        """Wait for news, and return them. After ``Ended`` nothing follows."""
        while True:
            self._news.clear()
            if self._rejected is not None:
                return Ended("", "", {}, failure=self._rejected.reason, hint=self._rejected.hint)
            if (ended := self._ended()) is not None and not self._activity:
                return ended
            if self._activity or self._text != self._shown:
                return self._progress()
            await self._news.wait()

    def _progress(self) -> Progress:
        activity = "".join(f"{line}\n" for line in self._activity)
        self._activity.clear()
        text, self._shown = self._text[len(self._shown) :], self._text
        return Progress(text, activity)

    def _ended(self) -> Ended | None:
        """Return the end, once the turn is over and all of its reply came. A message that joined another one has that one's reply."""
        own = self._done.get(self.key)
        if own is None:
            return None
        counted = self._done.get(str(own.facts.get("answeredWith") or ""), own)
        named = counted.facts.get("replyKeys")
        if named is None:
            named = [key for key in self._replies if key in self._own]
            if len(named) < int(counted.facts.get("chunks") or 0):
                return None
        if not self._replies.keys() >= set(named):
            return None
        text = "\n\n".join([*self._asides.values(), *(self._replies[key] for key in named)])
        rest = rest_of(self._shown, text)
        if counted.facts.get("exit"):
            return Ended(text, rest, counted.facts, failure=text or "The turn failed.")
        return Ended(text, rest, counted.facts)


def rest_of(shown: str, text: str) -> str:
    """Return what is to be added to ``shown`` so that it ends with ``text``, which may begin in the midst of it."""
    if not shown:
        return text
    starts = [0, *(at + 2 for at in range(len(shown)) if shown.startswith("\n\n", at))]
    for at in starts:
        if text.startswith(shown[at:]):
            return text[len(shown) - at :]
    return f"\n\n{text}" if text else ""
