"""Estimates token counts by what a text is made of, and corrects the estimate by what the provider reports.

No tokenizer is used: none that works offline counts every provider's tokens, and those that do come in megabytes. Tokenizers cut a text
into words, numbers and marks before anything else, so these are counted, at rates that were fitted to two of them (docs/cost.md has the
errors). ``Calibration`` takes out what is wrong with the rates for a session, kind by kind.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from agent.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    begins_with,
)
from agent.models.protocol import Request, Segment, ToolSpec
from agent.recent_results import RecentResults
from memory.text.late_pattern import LatePattern

IMAGE_TOKENS = 1600
"""What a picture of the largest size that is sent costs (1.15 million pixels / 750, rounded up), where its size is not known."""
PIXELS_PER_TOKEN = 750
"""Anthropic's published rate; others cost less, and what they report corrects the whole."""
MESSAGE_TOKENS = 4
"""Role and delimiters of one message."""
BASE64_CHARS_PER_TOKEN = 1.4
HEX_CHARS_PER_TOKEN = 1.75
WORD, GLUED_WORD = 1.1, 1.27
"""Tokens of a word after a blank, and of one after anything else, as most are in code and data."""
FOREIGN_WORD, FOREIGN_START, FOREIGN_LETTER = 0.89, 4, 0.42
"""Tokens of a word in a text with accents, with so many letters, and of each further letter: such words are cut in pieces."""
LONG_WORD, LETTERS_PER_TOKEN = 12, 4
"""From this many letters on a word without accents is cut in pieces of so many letters."""
CAPITAL_INSIDE, CAPITAL_AFTER_CAPITAL = 1.36, 0.23
DIGITS, MARKS, MARK, UNDERSCORE, LINE_END = 1.19, 0.87, 0.22, 0.55, 0.86
"""Tokens of up to three digits, of a run of punctuation, of each mark in it beyond the first, of an underscore, of a line's end with the
indentation after it."""
REPEATED_MARKS = 11
"""How many equal marks in a row (a line of dashes) are one token."""
DENSE = 0.97
"""Tokens of an ideograph, kana, Hangul or Thai character, and of an emoji."""
CYRILLIC, OTHER_LETTER = 0.6, 0.75
"""Tokens of a Cyrillic letter, and of one of Greek, Arabic, Hebrew and other alphabets. The two tokenizers differ by up to 2.5 times here
(0.64 and 0.43, 1.3 and 0.45), so the rates lie between.

All rates are fitted by non-negative least squares of the relative error to Claude's tokenizer of 2023: 689 texts of 400 to 3,000 characters
in English, German, French, Chinese, code, JSON, logs, hex and base64, half of them kept apart.
"""

_OPAQUE = re.compile(r"(?<![A-Za-z0-9+/=_-])(?![A-Za-z0-9+/=_-]*([=_+/-])\1{7})[A-Za-z0-9+/=_-]{64,}")
"""Encoded data, other than a line of dashes."""
_HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
_WORDS = re.compile(r" ?[A-Za-z\u00c0-\u024f]+")
_ACCENTS = LatePattern(r"[\u00c0-\u024f]")
_INNER_CAPITALS = re.compile(r"[a-z][A-Z]")
_CAPITALS = re.compile(r"[A-Z]{3,}")
_DIGITS = re.compile(r"[0-9]{1,3}")
_MARKS = re.compile(r"[!-/:-@\[-^`{-~\u00a1-\u00bf\u2010-\u2bff]+")
_REPEATED = re.compile(r"([^\w\s])\1{3,}")
_LINE_ENDS = re.compile(r"[\n\r\t]+[ \n\r\t]*")
_DENSE = LatePattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff00-\uffef\U00020000-\U0003ffff\U0001f000-\U0001faff]"
)
_CYRILLIC = LatePattern("[\u0400-\u052f]")
_OTHER = LatePattern("[\u0250-\u03ff\u0530-\u0dff\u0f00-\u0fff\u10a0-\u177f\u1800-\u1eff\U00010000-\U0001efff]")
_FOREIGN = 0.004
"""Share of letters with accents from which on a text counts as one in German, French or another language that has them."""
_PROSE = 0.45
"""Share of the six commonest letters and the blank above which ASCII text counts as prose rather than code or data."""
_SHORT_CHARS = 4000
_SLICES, _SLICE = 10, 2000
"""A longer text than so many slices of so many characters is judged by as many slices: 1,000 characters take 0.1 ms to count."""


class Weight(Struct, frozen=True):
    """Estimated tokens by the kind of text that they come from. ``plain`` is what needs no correction (pictures, delimiters)."""

    prose: float = 0.0
    foreign: float = 0.0
    code: float = 0.0
    opaque: float = 0.0
    dense: float = 0.0
    plain: float = 0.0

    def __add__(self, other: Weight) -> Weight:
        return Weight(
            self.prose + other.prose,
            self.foreign + other.foreign,
            self.code + other.code,
            self.opaque + other.opaque,
            self.dense + other.dense,
            self.plain + other.plain,
        )

    def __sub__(self, other: Weight) -> Weight:
        return Weight(
            self.prose - other.prose,
            self.foreign - other.foreign,
            self.code - other.code,
            self.opaque - other.opaque,
            self.dense - other.dense,
            self.plain - other.plain,
        )

    @property
    def total(self) -> int:
        """All of it, uncorrected."""
        return round(self.prose + self.foreign + self.code + self.opaque + self.dense + self.plain)


def weigh(text: str) -> Weight:
    """Return a likely token count of ``text``, by kind. Texts are remembered: a history is weighed several times a turn."""
    return _weigh_short(text) if len(text) <= _SHORT_CHARS else _weigh_long(text)


def _weigh(text: str) -> Weight:
    opaque = sum(_of_opaque(found.group()) for found in _OPAQUE.finditer(text))
    rest = _OPAQUE.sub("", text) if opaque else text
    encoded = Weight(opaque=opaque)
    if not rest:
        return encoded
    if len(rest) <= _SLICES * _SLICE:
        return encoded + _of_text(rest)
    step = (len(rest) - _SLICE) // (_SLICES - 1)
    slices = "\n".join(rest[start : start + _SLICE] for start in range(0, step * _SLICES, step))
    return encoded + _of_text(slices, len(rest) / len(slices))


def _of_text(text: str, times: float = 1.0) -> Weight:
    words = _WORDS.findall(text)
    letters = [len(word) - (word[0] == " ") for word in words]
    tokens, dense, accents, foreign = _of_signs(text), 0.0, False, False
    if not text.isascii():
        accents = foreign = len(_ACCENTS.findall(text)) > _FOREIGN * sum(letters)
        dense = len(_DENSE.findall(text)) * DENSE
        beyond = len(_CYRILLIC.findall(text)) * CYRILLIC + len(_OTHER.findall(text)) * OTHER_LETTER
        foreign = foreign or beyond > tokens
        tokens += beyond
    if accents:
        tokens += (
            len(words) * FOREIGN_WORD + sum(many - FOREIGN_START for many in letters if many > FOREIGN_START) * FOREIGN_LETTER
        )
    else:
        after_blank = sum(word[0] == " " for word in words)
        tokens += after_blank * WORD + (len(words) - after_blank) * GLUED_WORD
        tokens += sum(many - LONG_WORD for many in letters if many > LONG_WORD) / LETTERS_PER_TOKEN
    if dense > tokens:
        return Weight(dense=(dense + tokens) * times)
    if foreign:
        return Weight(foreign=tokens * times, dense=dense * times)
    if sum(map(text.count, "etaoin ")) > _PROSE * len(text):
        return Weight(prose=tokens * times, dense=dense * times)
    return Weight(code=tokens * times, dense=dense * times)


def _of_signs(text: str) -> float:
    """Return the tokens of everything but letters, and of what capitals add to words."""
    marks = _MARKS.findall(text)
    repeated = [len(found.group()) for found in _REPEATED.finditer(text)]
    capitals = _CAPITALS.findall(text)
    return (
        len(_DIGITS.findall(text)) * DIGITS
        + len(marks) * MARKS
        + max(0, sum(map(len, marks)) - len(marks) - sum(repeated)) * MARK
        + sum(repeated) / REPEATED_MARKS
        + text.count("_") * UNDERSCORE
        + len(_LINE_ENDS.findall(text)) * LINE_END
        + len(_INNER_CAPITALS.findall(text)) * CAPITAL_INSIDE
        + (sum(map(len, capitals)) - len(capitals)) * CAPITAL_AFTER_CAPITAL
    )


def _of_opaque(run: str) -> float:
    return len(run) / (HEX_CHARS_PER_TOKEN if _HEX.fullmatch(run) else BASE64_CHARS_PER_TOKEN)


_weigh_short = RecentResults(_weigh, len)
_weigh_long = RecentResults(_weigh, len)


def estimate(text: str) -> int:
    """Return a likely token count of ``text``: one at least, unless it is empty."""
    return max(1, weigh(text).total) if text else 0


def weight_of(message: Message) -> Weight:
    """Return a likely token count of a message, by kind."""
    if isinstance(message, UserMessage):
        parts = [_of_part(part) for part in message.content]
    elif isinstance(message, ToolMessage):
        parts = [weigh(message.text), *map(_of_part, message.images)]
    else:
        parts = [_of_part(part) for part in message.content]
    return sum(parts, Weight(plain=MESSAGE_TOKENS))


def _of_part(part: Text | Thinking | ToolCall | Image) -> Weight:
    if isinstance(part, (Text, Thinking)):
        return weigh(part.text)
    if isinstance(part, ToolCall):
        arguments = part.raw if part.arguments is None else json.dumps(part.arguments, ensure_ascii=False)
        return weigh(part.name) + weigh(arguments) + Weight(plain=12)
    return Weight(plain=-(-part.width * part.height // PIXELS_PER_TOKEN) or IMAGE_TOKENS)


def weight_of_messages(messages: Iterable[Message]) -> Weight:
    """Return a likely token count of several messages, by kind. What is one of the latest histories, or goes on from one, is quick."""
    if not isinstance(messages, tuple) or len(messages) < _LONG:
        return sum(map(weight_of, messages), Weight())
    for known, weight in reversed(_histories):
        if known is messages:
            return weight
    before = next((one for one in reversed(_histories) if begins_with(messages, one[0])), None)
    start, weight = (0, Weight()) if before is None else (len(before[0]), before[1])
    weight = sum(map(weight_of, messages[start:]), weight)
    _histories.append((messages, weight))
    return weight


_LONG = 16
"""Messages from which on a history is worth remembering."""
_histories: deque[tuple[tuple[Message, ...], Weight]] = deque(maxlen=8)


def weight_of_fixed(system: tuple[Segment, ...], tools: tuple[ToolSpec, ...]) -> Weight:
    """Return a likely token count of what stands before the messages, by kind. It is the same from call to call, and remembered."""
    total = Weight()
    weighed: tuple[tuple[tuple[Any, ...], Callable[[Any], Weight]], ...] = ((system, _of_segment), (tools, _of_tool))
    for parts, weigh_one in weighed:
        known = _known.get(id(parts))
        if known is None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            known = _known[id(parts)] = (parts, sum(map(weigh_one, parts), Weight()))
        total += known[1]
    return total


def weight_of_tools(tools: tuple[ToolSpec, ...]) -> Weight:
    """Return a likely token count of tool descriptions, by kind."""
    return weight_of_fixed((), tools)


def _of_segment(segment: Segment) -> Weight:
    return weigh(segment.text)


def _of_tool(tool: ToolSpec) -> Weight:
    return weigh(tool.name) + weigh(tool.description) + weigh(json.dumps(tool.parameters)) + Weight(plain=8)


_known: dict[int, tuple[tuple[Any, ...], Weight]] = {}
"""What was weighed lately, by its identity; it is held, so that no other object gets its place."""
_MOST_KNOWN = 128


def weight_of_request(request: Request) -> Weight:
    """Return a likely token count of everything in a request, by kind."""
    return weight_of_fixed(request.system, request.tools) + weight_of_messages(request.messages)


class Calibration(Struct, frozen=True):
    """How a session's real token counts relate to the estimate: a factor for each kind of text, learnt from reported calls.

    What is learnt from is the growth from one call to the next, whose makeup is better known than that of the whole. The
    kinds share a correction by their share in it (the multiplicative form of normalised least mean squares).
    """

    prose: float = 1.0
    foreign: float = 1.0
    code: float = 1.0
    opaque: float = 1.0
    dense: float = 1.0
    calls: int = 0

    @classmethod
    def for_model(cls, name: str) -> Calibration:
        """Return what to begin with for a model: the rates are Claude's, and others have larger vocabularies (measured: o200k)."""
        return cls() if "claude" in name.lower() else cls(prose=0.98, foreign=0.8, code=0.88, opaque=0.97, dense=0.84)

    def learn(self, weight: Weight, reported: int) -> Calibration:
        """Return the calibration after ``weight`` turned out to be ``reported`` tokens."""
        expected = self.apply(weight)
        if expected < _LEAST or reported < _LEAST:
            return self
        off = min(4.0, max(0.25, reported / expected))
        shares = (weight.prose, weight.foreign, weight.code, weight.opaque, weight.dense)
        known = (self.prose, self.foreign, self.code, self.opaque, self.dense)
        moved = (
            min(4.0, max(0.2, factor * off ** (_GAIN * (factor * share / expected) ** 0.5)))
            for factor, share in zip(known, shares, strict=True)
        )
        prose, foreign, code, opaque, dense = moved
        return Calibration(prose, foreign, code, opaque, dense, self.calls + 1)

    def apply(self, weight: Weight) -> int:
        """Return the corrected estimate."""
        return round(
            weight.prose * self.prose
            + weight.foreign * self.foreign
            + weight.code * self.code
            + weight.opaque * self.opaque
            + weight.dense * self.dense
            + weight.plain
        )


_LEAST = 50
"""Growth below this many tokens says little: delimiters outweigh the text."""
_GAIN = 0.85
"""How far one report moves what is known, for the kind that makes up all of the growth."""


def context_tokens(messages: Sequence[Message], fixed: Weight, calibration: Calibration) -> int:
    """Return the size of the next request: the last call's reported prompt and answer, plus an estimate of what came after.

    ``fixed`` is the estimate of system text and tools, which counts only when no call was reported yet. Figures of a tool
    loop are never summed: each call reports the whole prompt again.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and message.usage is not None and message.usage.prompt:
            tail = weight_of_messages(messages[index + 1 :])
            return message.usage.prompt + message.usage.output + calibration.apply(tail)
    return calibration.apply(fixed + weight_of_messages(messages))
