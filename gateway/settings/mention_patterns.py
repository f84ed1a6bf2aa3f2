"""Mention patterns, such as ``@?homebody`` or ``hey (bot|agent)``, restricted so that matching is always fast.

A pattern is validated by counting the ways in which it could match from one position; too many are rejected. Only the beginning
and the end of a text are searched, with white space collapsed.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

LONGEST: Final = 200
WINDOW: Final = 300
"""Number of characters at the beginning and at the end of a text that are searched."""
MOST_WAYS: Final = 4000
ENDLESS: Final = WINDOW
_GROUP = re.compile(r"\((?!\?)|\(\?:|\(\?P<[A-Za-z_]\w*>")
_QUANTIFIER = re.compile(r"[*+?]|\{(\d{0,3})(,?)(\d{0,3})\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_SPACES = {r"\s", " ", r"\ "}


class _Judge:
    """Counts the possible matches of a pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern.removeprefix("(?i)")
        self._at = 0

    def ways(self) -> int:
        ways = self._branches()
        if self._at < len(self._pattern):
            raise ValueError("a bracket is closed but not opened")
        return ways

    def _branches(self) -> int:
        ways = self._sequence()
        while self._here("|"):
            self._at += 1
            ways += self._sequence()
        return ways

    def _sequence(self) -> int:
        ways = 1
        while self._at < len(self._pattern) and not self._here("|") and not self._here(")"):
            start = self._at
            inner = self._atom()
            ways *= self._repeated(inner, self._pattern[start : self._at])
            if ways > MOST_WAYS:
                raise ValueError(
                    "it could match in too many ways; remove `.*` (a pattern is searched anywhere in the text) and "
                    "nested repetitions"
                )
        return ways

    def _atom(self) -> int:
        if group := _GROUP.match(self._pattern, self._at):
            self._at = group.end()
            ways = self._branches()
            if not self._here(")"):
                raise ValueError("a bracket is not closed")
            self._at += 1
            return ways
        if self._here("("):
            raise ValueError(f"`{self._pattern[self._at : self._at + 4]}` is not supported here")
        if self._here("\\"):
            if self._pattern[self._at + 1 : self._at + 2].isdigit():
                raise ValueError("back-references are not supported")
            self._at += 2
        elif found := _CLASS.match(self._pattern, self._at):
            self._at = found.end()
        else:
            self._at += 1
        return 1

    def _repeated(self, inner: int, atom: str) -> int:
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None or found[0] in {"{}", "{,}"}:
            return inner
        self._at = found.end()
        if self._pattern[self._at : self._at + 1] in {"?", "+"} and found[0] != "?":
            self._at += 1  # lazy or possessive: as many ways at most
        least, most = _bounds(found)
        if atom in _SPACES:
            return 2
        if inner == 1:
            return max(1, most - least + 1)
        return MOST_WAYS + 1 if most == ENDLESS else sum(inner**count for count in range(least, most + 1))

    def _here(self, character: str) -> bool:
        return self._pattern.startswith(character, self._at)


def _bounds(found: re.Match[str]) -> tuple[int, int]:
    match found[0]:
        case "*" | "+":
            return (0 if found[0] == "*" else 1), ENDLESS
        case "?":
            return 0, 1
    least = int(found[1] or 0)
    if not found[2]:
        return least, least
    return least, int(found[3]) if found[3] else ENDLESS


def _judged(pattern: str) -> str:
    if not pattern.strip() or len(pattern) > LONGEST:
        raise ValueError(f"a pattern must have 1 to {LONGEST} characters")
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
        _Judge(pattern).ways()
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
    if compiled.search("") is not None:
        raise ValueError(
            f"{pattern!r} matches everything; to receive all messages of a group, set requireMention: false for it"
        )
    return pattern


Pattern = Annotated[str, AfterValidator(_judged)]
"""A validated pattern."""


def called(text: str, patterns: tuple[str, ...]) -> bool:
    """Whether a text matches one of the patterns, ignoring case."""
    if not patterns:
        return False
    plain = " ".join(text[: 20 * WINDOW].split())
    end = " ".join(text[-20 * WINDOW :].split())[-WINDOW:]
    return any(re.search(pattern, part, re.IGNORECASE) for pattern in patterns for part in (plain[:WINDOW], end))


def by_name(name: str) -> str:
    """Return the pattern that matches a name."""
    return rf"(?<!\w)@?{re.escape(name)}(?!\w)"
