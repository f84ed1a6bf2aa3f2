"""Estimates token counts by script, and corrects the estimate by what the provider reports.

No tokenizer is used: none that works offline counts every provider's tokens. The rates of ``memory.text.tokens`` hold for prose and
for dense scripts; code and encoded data, which notes hardly hold and tool results often do, have rates of their own here.
``Calibration`` takes out what is wrong with all of them for a session, kind by kind.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import is_
from typing import Any

from agent.messages import AssistantMessage, Image, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent.models.protocol import Request, Segment, ToolSpec
from memory.text.tokens import estimate as of_prose

IMAGE_TOKENS = 1600
"""What a picture of the largest size that is sent costs (1.15 million pixels / 750, rounded up), where its size is not known."""
PIXELS_PER_TOKEN = 750
"""Anthropic's published rate; others cost less, and what they report corrects the whole."""
MESSAGE_TOKENS = 4
"""Role and delimiters of one message."""
CODE_CHARS_PER_TOKEN = 3.2
BASE64_CHARS_PER_TOKEN = 1.4
HEX_CHARS_PER_TOKEN = 1.75
"""Measured with the tokenizers that Anthropic and OpenAI have shipped (Claude's of 2023, o200k): 200 texts."""

ACCENTED = 1.12
"""German, French and others with accents take more tokens than English: 4 to 17 % in the German of those texts."""

_OPAQUE = re.compile(r"[A-Za-z0-9+/=_-]{64,}")
_HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
_PROSE = 0.45
"""Share of the six commonest letters and the blank above which ASCII text counts as prose rather than code or data."""
_SHORT_CHARS = 4000
_DENSE = 0.6
"""Tokens a character from which on a text counts as dense (ideographs, kana, Hangul, Thai, emoji)."""


@dataclass(frozen=True, slots=True)
class Weight:
    """Estimated tokens by the kind of text that they come from. ``plain`` is what needs no correction (pictures, delimiters)."""

    prose: float = 0.0
    code: float = 0.0
    opaque: float = 0.0
    dense: float = 0.0
    plain: float = 0.0

    def __add__(self, other: Weight) -> Weight:
        return Weight(
            self.prose + other.prose,
            self.code + other.code,
            self.opaque + other.opaque,
            self.dense + other.dense,
            self.plain + other.plain,
        )

    def __sub__(self, other: Weight) -> Weight:
        return Weight(
            self.prose - other.prose,
            self.code - other.code,
            self.opaque - other.opaque,
            self.dense - other.dense,
            self.plain - other.plain,
        )

    @property
    def total(self) -> int:
        """All of it, uncorrected."""
        return round(self.prose + self.code + self.opaque + self.dense + self.plain)


def weigh(text: str) -> Weight:
    """Return a likely token count of ``text``, by kind. Texts are remembered: a history is weighed several times a turn."""
    return _weigh_short(text) if len(text) <= _SHORT_CHARS else _weigh_long(text)


def _weigh(text: str) -> Weight:
    opaque = sum(map(_of_opaque, _OPAQUE.findall(text)))
    rest = _OPAQUE.sub("", text) if opaque else text
    encoded = Weight(opaque=opaque)
    if not rest:
        return encoded
    if rest.isascii():
        common = sum(map(rest.count, "etaoin "))
        prose = common > _PROSE * len(rest)
        return encoded + (Weight(prose=of_prose(rest)) if prose else Weight(code=len(rest) / CODE_CHARS_PER_TOKEN))
    likely = of_prose(rest)
    return encoded + (Weight(dense=likely) if likely > _DENSE * len(rest) else Weight(prose=likely * ACCENTED))


def _of_opaque(run: str) -> float:
    return len(run) / (HEX_CHARS_PER_TOKEN if _HEX.fullmatch(run) else BASE64_CHARS_PER_TOKEN)


_weigh_short = lru_cache(maxsize=8192)(_weigh)
_weigh_long = lru_cache(maxsize=256)(_weigh)


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


def of_message(message: Message) -> int:
    """Return a likely token count of a message."""
    return weight_of(message).total


def weight_of_messages(messages: Iterable[Message]) -> Weight:
    """Return a likely token count of several messages, by kind. What is one of the latest histories, or goes on from one, is quick."""
    if not isinstance(messages, tuple) or len(messages) < _LONG:
        return _sum(messages)
    for known, weight in reversed(_histories):
        if known is messages:
            return weight
    before = next(
        (one for one in reversed(_histories) if len(one[0]) < len(messages) and all(map(is_, one[0], messages))), None
    )
    weight = _sum(messages) if before is None else before[1] + _sum(messages[len(before[0]) :])
    _histories.append((messages, weight))
    return weight


_LONG = 16
"""Messages from which on a history is worth remembering."""
_histories: deque[tuple[tuple[Message, ...], Weight]] = deque(maxlen=8)


def _sum(messages: Iterable[Message]) -> Weight:
    return sum(map(weight_of, messages), Weight())


def weight_of_tools(tools: tuple[ToolSpec, ...]) -> Weight:
    """Return a likely token count of tool descriptions, by kind. They are the same from call to call, and so is what holds them."""
    return _remembered(tools, _of_tool)


def weight_of_system(system: tuple[Segment, ...]) -> Weight:
    """Return a likely token count of a system text, by kind. It is the same from turn to turn, too."""
    return _remembered(system, _of_segment)


def _remembered(parts: tuple[Any, ...], weigh_one: Callable[[Any], Weight]) -> Weight:
    known = _known.get(id(parts))
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[id(parts)] = (parts, sum(map(weigh_one, parts), Weight()))
    return known[1]


def _of_segment(segment: Segment) -> Weight:
    return weigh(segment.text)


def _of_tool(tool: ToolSpec) -> Weight:
    return weigh(tool.name) + weigh(tool.description) + weigh(json.dumps(tool.parameters)) + Weight(plain=8)


_known: dict[int, tuple[tuple[Any, ...], Weight]] = {}
"""What was weighed lately, by its identity; it is held, so that no other object gets its place."""
_MOST_KNOWN = 128


def weight_of_request(request: Request) -> Weight:
    """Return a likely token count of everything in a request, by kind."""
    return weight_of_system(request.system) + weight_of_tools(request.tools) + weight_of_messages(request.messages)


def of_request(request: Request) -> int:
    """Return a likely token count of everything in a request."""
    return weight_of_request(request).total


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a session's real token counts relate to the estimate: a factor for each kind of text, learnt from reported calls.

    What is learnt from is the growth from one call to the next, whose makeup is better known than that of the whole. The
    kinds share a correction by their share in it (the multiplicative form of normalised least mean squares).
    """

    prose: float = 1.0
    code: float = 1.0
    opaque: float = 1.0
    dense: float = 1.0
    calls: int = 0

    def learn(self, weight: Weight, reported: int) -> Calibration:
        """Return the calibration after ``weight`` turned out to be ``reported`` tokens."""
        expected = self.apply(weight)
        if expected < _LEAST or reported < _LEAST:
            return self
        off = min(4.0, max(0.25, reported / expected))
        shares = (weight.prose, weight.code, weight.opaque, weight.dense)
        known = (self.prose, self.code, self.opaque, self.dense)
        moved = (
            min(4.0, max(0.2, factor * off ** (_GAIN * (factor * share / expected) ** 0.5)))
            for factor, share in zip(known, shares, strict=True)
        )
        prose, code, opaque, dense = moved
        return Calibration(prose, code, opaque, dense, self.calls + 1)

    def apply(self, weight: Weight) -> int:
        """Return the corrected estimate."""
        return round(
            weight.prose * self.prose
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
