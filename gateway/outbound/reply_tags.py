"""Parses the reply tags ``[[reply_to_current]]`` and ``[[reply_to:<id>]]`` and removes them from replies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agent import no_reply

_TAG: Final = re.compile(
    r"\[\[\s{0,20}(?:reply_to_current|reply_to\s{0,20}:\s{0,20}(?P<id>[^\[\]\r\n]{1,120}?))\s{0,20}\]\][ \t]?", re.IGNORECASE
)
LONGEST: Final = 160
"""Maximum length of a tag; longer unfinished text is not one."""
_WORD: Final = "reply_to"


@dataclass(frozen=True, slots=True)
class Tagged:
    """A reply without its tags. ``current`` and ``target`` come from the last tag."""

    text: str
    current: bool = False
    target: str | None = None


def untagged(text: str) -> Tagged:
    """Remove all tags from a finished reply."""
    found = list(_TAG.finditer(text))
    if not found:
        return Tagged(text)
    bare = text
    while (shorter := _TAG.sub("", bare)) != bare:  # what closes around a tag that is gone is none that anybody should see
        bare = shorter
    target = found[-1]["id"]
    bare = no_reply.without_no_reply(bare)  # a tag must not hide that nothing is to be said
    return Tagged(bare.strip("\n") if bare.strip() else "", current=target is None, target=target)


def shown(text: str) -> str:
    """Return the part of an unfinished reply that can be shown: without tags, and without the possible start of a tag or of NO_REPLY."""
    bare = untagged(text).text
    if bare != text:
        bare = no_reply.NoReplyFilter().feed(bare)
    while (begun := _beginning(bare)) is not None:
        bare = bare[:begun]
    return bare


def may_end(text: str) -> Callable[[int], bool]:
    """Return a predicate: whether an unfinished reply may be split at an index, which is not inside a (possible) tag."""
    spans = [match.span() for match in _TAG.finditer(text)]
    begun = _beginning(text)
    end = len(text) if begun is None else begun
    return lambda place: place <= end and not any(start < place < stop for start, stop in spans)


def _beginning(text: str) -> int | None:
    """Return the index where an unfinished tag begins."""
    for at in range(max(0, len(text) - LONGEST), len(text)):
        if text[at] == "[" and _may_become_tag(text[at:]):
            return at
    return None


def _may_become_tag(tail: str) -> bool:
    if tail == "[":
        return True
    if not tail.startswith("[[") or "\n" in tail or "]]" in tail:
        return False
    word = tail[2:].lstrip().casefold()
    return word.startswith(_WORD) or _WORD.startswith(word)
