"""JSON5 as the settings are read: comments, trailing commas, bare keys, single quotes; every place known.

Read by hand, after https://spec.json5.org, because the places and the repeated keys matter here and no library keeps them.
The outermost braces may be missing, as in many a snippet.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left
from typing import Any, NoReturn

from gateway.base.errors import SettingsError
from gateway.base.problem import Problem
from gateway.config.node import Entry, Node, paired

MAX_DEPTH = 100
MAX_DIGITS = 30
_GAP = re.compile(r"(?:\s|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[\w$\u200c\u200d]+")
_MARKS = {"Mn", "Mc"}
"""Accents that stand apart from their letters, as some keyboards write them; a key may hold them."""
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w$.])")
_STRING = {
    '"': re.compile(r'"((?:[^"\\\n\r]|\\(?:\r\n|.))*)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\\n\r]|\\(?:\r\n|.))*)'", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|[\n\r\u2028\u2029])|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


def read_json5(text: str, file: str) -> Node | None:
    """Read one value; None when there is nothing but space and comments. Raises SettingsError."""
    reading = _Reading(text, file)
    reading.skip()
    if reading.at == len(text):
        return None
    bare = re.compile(r"""(?:[\w$]+|"[^"\n]*"|'[^'\n]*')\s*:""").match(text, reading.at)
    node = reading.section(depth=0, bare=True) if bare else reading.value(depth=0)
    reading.skip()
    if reading.at < len(text):
        reading.fail(f"{text[reading.at]!r} follows after the end", "Check the brackets above it.")
    if reading.problems:
        raise SettingsError(reading.problems)
    return node


class _Reading:
    """One pass over the text; ``at`` is where it stands."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.problems: list[Problem] = []
        self._newlines = [match.start() for match in re.finditer("\n", text)]

    def line(self, position: int) -> int:
        return bisect_left(self._newlines, position) + 1

    def fail(self, message: str, hint: str = "") -> NoReturn:
        problem = Problem(f"is not valid JSON5: {message}", file=self.file, line=self.line(self.at), hint=hint)
        raise SettingsError([*self.problems, problem])

    def skip(self) -> None:
        gap = _GAP.match(self.text, self.at)
        self.at = gap.end() if gap else self.at
        if self.text.startswith("/*", self.at):
            self.fail("a comment /* is never closed", "Close it with */.")

    def peek(self) -> str:
        self.skip()
        if self.at >= len(self.text):
            self.fail("it ends too early", "Something was opened and never closed: a bracket, a quote.")
        return self.text[self.at]

    def value(self, depth: int) -> Node:
        sign = self.peek()
        if depth > MAX_DEPTH:
            self.fail("it is nested too deeply")
        if sign == "{":
            return self.section(depth)
        if sign == "[":
            return self.items(depth)
        start = self.at
        return Node("scalar", self.scalar(sign), start, self.at, self.line(start))

    def section(self, depth: int, *, bare: bool = False) -> Node:
        start = self.at
        self.at += 0 if bare else 1
        entries: dict[str, Entry] = {}
        while not self._closes("}", bare=bare):
            position, key = self.at, self.key()
            if self.peek() != ":":
                self.fail(f"a colon is missing after the key {key!r}")
            self.at += 1
            entry = Entry(key, self.value(depth + 1), position, self.line(position))
            if key in entries:
                message = f"the key {key!r} is there twice (first on line {entries[key].line})"
                self.problems.append(Problem(message, file=self.file, line=entry.line, hint="Keep one of the two."))
            entries.setdefault(key, entry)
            self._comma("}", bare=bare)
        self.at += 0 if bare else 1
        return Node("map", tuple(entries.values()), start, self.at, self.line(start))

    def items(self, depth: int) -> Node:
        start = self.at
        self.at += 1
        found: list[Node] = []
        while not self._closes("]"):
            found.append(self.value(depth + 1))
            self._comma("]")
        self.at += 1
        return Node("list", tuple(found), start, self.at, self.line(start))

    def key(self) -> str:
        if self.peek() in _STRING:
            return self.string()
        start = self.at
        while word := _WORD.match(self.text, self.at):
            self.at = word.end()
            while unicodedata.category(self.text[self.at : self.at + 1] or " ") in _MARKS:
                self.at += 1
        if self.at == start:
            self.fail(f"{self.text[self.at]!r} stands where a key should be")
        return self.text[start : self.at]

    def scalar(self, sign: str) -> Any:
        if sign in _STRING:
            return self.string()
        number = _NUMBER.match(self.text, self.at)
        if number:
            value = _number(number[0])
            if value is None:
                self.fail(f"the number {number[0][:30]} is too large")
            self.at = number.end()
            return value
        word = _WORD.match(self.text, self.at)
        if word and word[0] in _WORDS:
            self.at = word.end()
            return _WORDS[word[0]]
        return self.fail(f"{word[0] if word else sign!r} stands where a value should be", "Put text in quotes." if word else "")

    def string(self) -> str:
        match = _STRING[self.text[self.at]].match(self.text, self.at)
        if match is None:
            self.fail("a quote is opened and not closed on its line", "Close the quote.")
        self.at = match.end()
        return paired(_ESCAPE.sub(_unescape, match[1])) if "\\" in match[1] else match[1]

    def _closes(self, bracket: str, *, bare: bool = False) -> bool:
        if bare:
            self.skip()
            return self.at >= len(self.text)
        return self.peek() == bracket

    def _comma(self, bracket: str, *, bare: bool = False) -> None:
        if self._closes(bracket, bare=bare):
            return
        if self.text[self.at] != ",":
            self.fail(f"{self.text[self.at]!r} stands where a comma or {bracket!r} should be")
        self.at += 1


def _unescape(match: re.Match[str]) -> str:
    unicode, byte, continued, letter = match.groups()
    if unicode or byte:
        return chr(int(unicode or byte, 16))
    return "" if continued else _LETTERS.get(letter, letter)


def _number(text: str) -> int | float | None:
    """Read a number; None for one that no setting can be."""
    body = text.lstrip("+-")
    if body[:2].lower() == "0x":
        value: int | float = int(body, 16) if len(body) <= MAX_DIGITS else math.inf
    elif body.isdigit():
        value = int(body) if len(body) <= MAX_DIGITS else math.inf
    else:
        value = float(body)
    if not math.isfinite(value):
        return None
    return -value if text.startswith("-") else value
