"""Watches the prompt prefix that the provider caches, and finds the first place where two requests differ."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from functools import lru_cache
from itertools import zip_longest
from operator import is_

from msgspec import Struct, to_builtins

from agent.messages import Message, begins_with
from agent.models.protocol import Request, Segment, ToolSpec
from agent.transcript.entries import Entry

log = logging.getLogger(__name__)

_NONE = Segment(name="", text="")


class PrefixChange(Struct, frozen=True):
    """The first place where a request differs from the one before: the segment's name and the offset in it, in bytes of UTF-8."""

    segment: str
    byte: int

    def __str__(self) -> str:
        return f"{self.segment}, byte {self.byte:,}"


class PrefixWatch:
    """Compares each request of a session with the one before it. Appended messages are not a change."""

    def __init__(self) -> None:
        self.parting: PrefixChange | None = None
        """Where the latest turn's request parted from the one before, or None."""
        self.why = ""
        """What the parting comes from, where it was meant: a summary, cleared or pruned results."""
        self.digest = ""
        """The hashes of the latest request's segments."""
        self._former: Request | None = None
        self._tools = ""
        self._shrunk = ""

    def observe(self, request: Request, shrunk: Entry | None) -> None:
        """Take a request of a turn. A parting that nobody meant is logged. ``shrunk`` is the latest entry that meant one."""
        mark = shrunk.id if shrunk else ""
        former, self._former = self._former, request
        if former is None or former.tools is not request.tools:
            self._tools = _short_hash(_tools(request))
        self.digest = digest(request, self._tools)
        self.parting = None if former is None else parting(former, request)
        meant = shrunk is not None and mark != self._shrunk and self.parting is not None and "message" in self.parting.segment
        self.why = shrunk.body.kind.replace("_", " ") if shrunk and meant else ""
        self._shrunk = mark
        if self.parting is not None and not meant:
            log.warning("the prompt changed in %s: the provider's cache is lost from there on", self.parting)

    def look_aside(self, request: Request) -> None:
        """Take a request of the runtime's own, which should go on from the latest one of a turn."""
        found = None if self._former is None else parting(self._former, request)
        if found is not None:
            log.warning("a background request changed the prompt in %s: the provider's cache is lost from there on", found)


def digest(request: Request, tools: str = "") -> str:
    """Return a hash of everything in a request that stands before its messages, by segment: ``tools:1f0c… AGENTS.md:77ab…``.

    ``tools`` is the hash of the tools, where it is known.
    """
    tools = tools or _short_hash(_tools(request))
    parts = [f"{segment.name.replace(' ', '-')}:{_short_hash(segment.text)}" for segment in request.system]
    return " ".join([f"tools:{tools}", *parts])


@lru_cache(maxsize=32)
def _short_hash(text: str) -> str:
    """Segments are the same from turn to turn."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def parting(former: Request, request: Request) -> PrefixChange | None:
    """Return the first place where ``request`` does not go on from ``former``, or None."""
    if former.tools is not request.tools and (found := _differs(_tools(former), _tools(request))) is not None:
        return PrefixChange("tools", found)
    for one, two in zip_longest(former.system, request.system, fillvalue=_NONE):
        if one.name != two.name or one.text != two.text:
            return PrefixChange(f"system text: {two.name or one.name}", _differs(one.text, two.text) or 0)
    now = request.messages
    if begins_with(now, former.messages):
        return None
    for index, message in enumerate(former.messages):
        if index >= len(now):
            return PrefixChange(f"message {index + 1} (of {message.role})", 0)
        if message is not now[index] and _shown(message) != _shown(now[index]):
            return PrefixChange(f"message {index + 1} (of {message.role})", _differs(_shown(message), _shown(now[index])) or 0)
    return None


def _shown(message: Message) -> str:
    """What a provider is sent of a message: figures of its use are not."""
    raw = to_builtins(message)
    for name in ("usage", "details", "at", "sender", "automation"):
        raw.pop(name, None)
    return json.dumps(raw, ensure_ascii=False)


_recent_tools: deque[tuple[tuple[ToolSpec, ...], str]] = deque(maxlen=8)
"""Tools that were written out lately: sessions have lists of their own, of the same tools."""


def _tools(request: Request) -> str:
    for specs, text in _recent_tools:
        if len(specs) == len(request.tools) and all(map(is_, specs, request.tools)):
            return text
    text = json.dumps([(t.name, t.description, t.parameters) for t in request.tools], ensure_ascii=False)
    _recent_tools.append((request.tools, text))
    return text


def _differs(one: str, two: str) -> int | None:
    """The first byte at which two texts differ; None when they are the same."""
    if one == two:
        return None
    first, second = one.encode("utf-8", "replace"), two.encode("utf-8", "replace")
    common = min(len(first), len(second))
    low, high = 0, common
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
