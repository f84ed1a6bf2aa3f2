"""Searches what was said in all conversations, present and past ones: a pass over the transcripts, newest conversation first.

No index is kept: a line is parsed only if its bytes can match, so that a pass costs about as much as reading the files. A search ends
after some seconds and says where to go on. Blocking.
"""

from __future__ import annotations

import json
import re
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.base.errors import StorageFailed, UsageError
from gateway.sessions.past_sessions import Found
from gateway.sessions.transcript_reader import is_shown, unreadable

EXCERPT: Final = 220
"""Characters shown around the first match."""
HITS: Final = 5
"""Latest matches of a conversation that are listed; all are counted."""
LONGEST: Final = 400
_TERM: Final = re.compile(r'"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class Hit:
    """One message that matches. ``number`` is its place among the shown entries of its transcript."""

    number: int
    id: str
    at: str
    role: str
    excerpt: str


@dataclass(slots=True)
class Hits:
    """What matches in one conversation, the latest last."""

    found: Found
    count: int = 0
    hits: deque[Hit] = field(default_factory=lambda: deque(maxlen=HITS))


@dataclass(slots=True)
class SearchResult:
    """``searched`` conversations were looked through; the search goes on behind the session ``more``, "" where it is complete."""

    results: list[Hits]
    searched: int
    more: str = ""
    unreadable: list[str] = field(default_factory=list)


class Words:
    """What is searched for: all words must be in one message, in any order; text in quotes as it stands. Capitals do not matter."""

    def __init__(self, query: str) -> None:
        self.terms = [plain(found[0] or found[1]) for found in _TERM.findall(query[:LONGEST])]
        self.terms = [term for term in self.terms if term]
        if not self.terms:
            raise UsageError(
                "there is nothing to search for", hint="Name one word or more; put text in quotes to find it as it stands."
            )
        self._bytes = [
            term.encode() for term in self.terms if term.isascii() and not set(term) & set('"\\/') and term.isprintable()
        ]

    def may_be_in(self, line: bytes) -> bool:
        """Whether a line is worth parsing."""
        if not line.isascii():  # letters such as ß and K (Kelvin) are compared as several or other ones
            return True
        lowered = line.lower()
        return all(term in lowered for term in self._bytes)

    def place(self, text: str) -> int | None:
        """Return about where the first word stands in a text that has all of them; None for another text."""
        folded = plain(text)
        if not all(term in folded for term in self.terms):
            return None
        return min(folded.index(term) for term in self.terms)


def plain(text: str) -> str:
    """Return a text as it is compared."""
    return unicodedata.normalize("NFC", text).casefold()


def search(
    conversations: Sequence[Found],
    query: str,
    *,
    after: str = "",
    tools: bool = False,
    most: int = 50,
    seconds: float = 2.0,
    now: Callable[[], float] = time.monotonic,
) -> SearchResult:
    """Return the conversations in which something matches, in the order given, from behind the session ``after`` on.

    ``tools``: results of tools are searched too. It ends with ``most`` conversations that match, or after ``seconds``.

    Raises:
        UsageError: there is nothing to search for.
    """
    words, deadline = Words(query), now() + seconds
    start = next((place for place, one in enumerate(conversations, 1) if one.session == after), 0)
    result = SearchResult([], 0)
    for found in conversations[start:]:
        if result.searched and (now() > deadline or len(result.results) >= most):
            return result
        try:
            hits = _within(found, words, tools=tools)
        except StorageFailed as error:
            result.unreadable.append(str(error))
            hits = Hits(found)
        result.searched += 1
        result.more = found.session
        if hits.count:
            result.results.append(hits)
    result.more = ""
    return result


def _within(found: Found, words: Words, *, tools: bool) -> Hits:
    hits, number = Hits(found), -1
    try:
        for line in found.stored.lines():
            if not is_shown(line):
                continue
            number += 1
            if not words.may_be_in(line):
                continue
            for hit in _hits(line, number, words, tools=tools):
                hits.count += 1
                hits.hits.append(hit)
    except OSError as error:
        raise unreadable(error, found.stored) from error
    return hits


def _hits(line: bytes, number: int, words: Words, *, tools: bool) -> Iterable[Hit]:
    try:
        raw: Mapping[str, Any] = json.loads(line)
        message = raw["body"]["message"] if raw["kind"] == "said" else None
        if message is None or message.get("runtime") or (message["role"] == "tool" and not tools):
            return
        text = _text(message)
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    place = words.place(text)
    if place is not None:
        yield Hit(number, str(raw["id"]), str(raw["t"]), str(message["role"]), excerpt(text, place))


def _text(message: Mapping[str, Any]) -> str:
    if message["role"] == "tool":
        return str(message["text"])
    return "\n".join(str(part["text"]) for part in message["content"] if part.get("type") == "text")


def excerpt(text: str, place: int) -> str:
    """Return a text around a place on one line, with … where it goes on."""
    start = max(0, min(place, len(text)) - EXCERPT // 3)
    shown = " ".join(text[start : start + EXCERPT].split())
    return f"{'…' if start else ''}{shown}{'…' if start + EXCERPT < len(text) else ''}"
