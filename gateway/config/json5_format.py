"""JSON5 parser (https://spec.json5.org) that keeps positions; also accepts a file without its outermost braces.

Own code because no library fits: ``json5`` reports no positions, and ``json-five`` installs into that package's directory, so that
each breaks the other; it would also cost 60 ms of start-up and 7.5 MB.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any, NoReturn

from msgspec.structs import replace

from gateway.base.errors import Problem, SettingsError
from gateway.config.syntax_tree import Node, join_surrogates

MAX_DEPTH = 100
MAX_DIGITS = 30
_GAP = re.compile(r"(?:\s|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[\w$\u200c\u200d]+")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w$.])")
_STRING = re.compile(r""""(?:[^"\\\n\r]|\\(?:\r\n|.))*"|'(?:[^'\\\n\r]|\\(?:\r\n|.))*'""", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|[\n\r\u2028\u2029])|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}
_BARE_SECTION = re.compile(r"""(?:[\w$]+|"[^"\n]*"|'[^'\n]*')\s*:""")


def read_json5(text: str, file: str) -> Node | None:
    """Parse one value; None when there are only blanks and comments. Raises SettingsError."""
    parser = _Parser(text, file)
    if not parser.next():
        return None
    node = parser.section("") if _BARE_SECTION.match(text, parser.at) else parser.value()
    if follows := parser.next():
        parser.fail(f"{follows!r} follows after the end", "Check the brackets above it.")
    if parser.problems:
        raise SettingsError(parser.problems)
    return node


class _Parser:
    """Recursive descent over ``text``; ``at`` is the current offset."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.at = text, file, 0
        self.depth = 0
        self.problems: list[Problem] = []
        self._line, self._counted = 1, 0

    def line(self) -> int:
        """Return the line of ``at``, which only ever moves forward between two calls."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def fail(self, message: str, hint: str = "") -> NoReturn:
        problem = Problem(f"is not valid JSON5: {message}", file=self.file, line=self.line(), hint=hint)
        raise SettingsError([*self.problems, problem])

    def next(self) -> str:
        """Skip blanks and comments; return the character there, or an empty string at the end."""
        gap = _GAP.match(self.text, self.at)
        self.at = gap.end() if gap else self.at
        if self.text.startswith("/*", self.at):
            self.fail("a comment /* is never closed", "Close it with */.")
        return self.text[self.at : self.at + 1]

    def required(self) -> str:
        return self.next() or self.fail("it ends too early", "Something was opened and never closed: a bracket, a quote.")

    def value(self) -> Node:
        first = self.required()
        if self.depth > MAX_DEPTH:
            self.fail("it is nested too deeply")
        if first == "{":
            return self.section("}")
        if first == "[":
            return self.items()
        start, line = self.at, self.line()
        return Node(self.scalar(first), start, self.at, line, start)

    def section(self, closing: str) -> Node:
        """Parse keys and values up to ``closing``; an empty string stands for the end of the text."""
        start, line = self.at, self.line()
        found: dict[str, Node] = {}
        self.at += len(closing)
        while self.more(closing):
            key_start, key_line, key = self.at, self.line(), self.key()
            if self.required() != ":":
                self.fail(f"a colon is missing after the key {key!r}")
            self.at += 1
            node = replace(self.nested(), entry_start=key_start, line=key_line)
            if key in found:
                message = f"the key {key!r} is there twice (first on line {found[key].line})"
                self.problems.append(Problem(message, file=self.file, line=key_line, hint="Keep one of the two."))
            found.setdefault(key, node)
            self.comma(closing)
        self.at += len(closing)
        return Node(found, start, self.at, line, start)

    def items(self) -> Node:
        start, line = self.at, self.line()
        found: list[Node] = []
        self.at += 1
        while self.more("]"):
            found.append(self.nested())
            self.comma("]")
        self.at += 1
        return Node(found, start, self.at, line, start)

    def nested(self) -> Node:
        self.depth += 1
        node = self.value()
        self.depth -= 1
        return node

    def more(self, closing: str) -> bool:
        return (self.required() if closing else self.next()) != closing

    def comma(self, closing: str) -> None:
        if self.more(closing):
            if self.text[self.at] != ",":
                self.fail(f"{self.text[self.at]!r} stands where a comma or {closing!r} should be")
            self.at += 1

    def key(self) -> str:
        if self.required() in "\"'":
            return self.string()
        start = self.at
        while word := _WORD.match(self.text, self.at):
            self.at = word.end()
            while unicodedata.category(self.text[self.at : self.at + 1] or " ") in {"Mn", "Mc"}:  # a decomposed accent
                self.at += 1
        if self.at == start:
            self.fail(f"{self.text[self.at]!r} stands where a key should be")
        return self.text[start : self.at]

    def scalar(self, first: str) -> Any:
        if first in "\"'":
            return self.string()
        if number := _NUMBER.match(self.text, self.at):
            value = _number(number[0])
            if value is None:
                self.fail(f"the number {number[0][:30]} is too large")
            self.at = number.end()
            return value
        word = _WORD.match(self.text, self.at)
        if word and word[0] in _CONSTANTS:
            self.at = word.end()
            return _CONSTANTS[word[0]]
        return self.fail(
            f"{word[0] if word else first!r} stands where a value should be", "Put text in quotes." if word else ""
        )

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            self.fail("a quote is opened and not closed on its line", "Close the quote.")
        self.at = match.end()
        content = match[0][1:-1]
        return join_surrogates(_ESCAPE.sub(_unescape, content)) if "\\" in content else content


def _unescape(match: re.Match[str]) -> str:
    unicode, byte, continued, letter = match.groups()
    if unicode or byte:
        return chr(int(unicode or byte, 16))
    return "" if continued else _LETTERS.get(letter, letter)


def _number(text: str) -> int | float | None:
    """Return the number, or None when it is too large for a setting."""
    digits = text.lstrip("+-")
    is_hex = digits[:2].lower() == "0x"
    if (is_hex or digits.isdigit()) and len(digits) > MAX_DIGITS:
        return None
    value: int | float = int(digits, 16) if is_hex else int(digits) if digits.isdigit() else float(digits)
    return None if math.isinf(value) else -value if text.startswith("-") else value
