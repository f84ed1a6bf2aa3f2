"""Whether what a model wrote is a summary of what it is to replace: judged by its form and by the words that both share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from memory.function_words import ENGLISH
from memory.words import UNSPACED

_HEADING = re.compile(r"^\s{0,3}(?:#{1,6}\s+(.+?)|\*\*(.+?)\*\*:?)\s*$", re.MULTILINE)
_WORD = re.compile(rf"[{UNSPACED}]{{2}}|\d[\d.,:/-]*|[^\W\d_][^\W_]{{2,}}")
_LABELS = frozenset({"person", "agent", "calls", "result", "summary", "conversation", "message", "messages"})
"""What every conversation is written down with."""
_HEADINGS_WITHOUT_ONE_ASKED = 2
_LEAST_OWN_WORDS = 4
"""Words of a summary that are neither grammar nor in the order for it."""
_LEAST_SHARED = 2
_SHARED = 0.2
"""A summary has this share of its own words from what it replaces, or names and figures of it: so many."""
_LEAST_PARTICULAR = 4
_PERSON = re.compile(
    r"^Person: (.*?)(?=^(?:Person|Agent|Agent calls [^:\n]+|Result of [^:\n]+): |\Z)", re.MULTILINE | re.DOTALL
)
"""What people said, in the labels of ``summary.as_text``."""
_NAME = re.compile(r"(?<=[^\s.!?:;*>#-] )[^\W\d_a-z][^\W\d_]{2,}|\d[\d.,:/-]*")
"""A figure, or a word with a capital that does not begin a sentence or a line."""
_SEVERAL = 3
_STEM = 5
"""Letters by which forms of a word are taken for the same."""
_SAME_LINES = 3
_RUN = 3
_LEAST_RUNS = 40
_VARIED = 0.5
"""In a text of some length at least this share of the runs of three words occur but once."""


def fault_in(text: str, order: str, source: Iterable[str], asked: Iterable[str]) -> str:
    """Say what keeps ``text`` from being a summary of ``source``, or return an empty text.

    ``order`` is what the model was told, ``asked`` are the headings that it was asked for. Takes a while for a long source.
    """
    headings = [(found[1] or found[2]).casefold() for found in _HEADING.finditer(text)]
    wanted = [one.casefold() for one in asked]
    asked_for = any(one.startswith(name) for one in headings for name in wanted)
    if not asked_for and len(headings) < _HEADINGS_WITHOUT_ONE_ASKED:
        return "it has none of the headings that were asked for"
    if _repeats(text):
        return "it repeats itself"
    body = _HEADING.sub("", text)
    source = list(source)
    common = words_of(order) | _stems(ENGLISH | _LABELS)
    own = words_of(body) - common
    if len(own) < _LEAST_OWN_WORDS:
        return "it says next to nothing"
    there = set[str]().union(*map(words_of, source)) - common
    shared = own & there
    particular = sum(any(letter.isdigit() for letter in word) or word.capitalize() in body for word in shared)
    if len(shared) < min(_LEAST_SHARED, len(there)) or (len(shared) < _SHARED * len(own) and particular < _LEAST_PARTICULAR):
        return "it has next to nothing in common with the conversation"
    names = _stems(
        word.casefold().rstrip(".,:/-") for part in source for said in _PERSON.findall(part) for word in _NAME.findall(said)
    )
    if len(names - common) >= _SEVERAL and not names & words_of(text) and not asked_for:
        return "it has none of the names and figures that people gave"
    return ""


def words_of(text: str) -> set[str]:
    """Return the words of a text that may tell something, without their endings: figures, and pairs where there are no blanks."""
    return _stems(word.rstrip(".,:/-") for word in _WORD.findall(text.casefold()))


def _stems(words: Iterable[str]) -> set[str]:
    return {word[:_STEM] if word.isalpha() else word for word in words}


def without_last_line(text: str) -> str:
    """Return a text that was cut off without the line in which it was."""
    return text.rpartition("\n")[0].rstrip()


def _repeats(text: str) -> bool:
    lines = Counter(" ".join(line.split()) for line in text.splitlines() if len(line.split()) > _RUN)
    if lines and max(lines.values()) >= _SAME_LINES:
        return True
    words = text.casefold().split()
    runs = [tuple(words[n : n + _RUN]) for n in range(len(words) - _RUN + 1)]
    return len(runs) >= _LEAST_RUNS and sum(count == 1 for count in Counter(runs).values()) < _VARIED * len(runs)
