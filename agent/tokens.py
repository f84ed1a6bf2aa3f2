"""How many tokens a text is likely to be: an estimate by script, corrected by what the provider reported.

No tokenizer is used: none that works offline counts every provider's tokens. The rates are characters per token, rounded
from the published behaviour of byte-pair encodings; ``Calibration`` takes out what is wrong with them for a session.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from agent.messages import AssistantMessage, Image, Text, Thinking, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent.messages import Message
    from agent.models.protocol import Request, ToolSpec

IMAGE_TOKENS = 1600
"""What a picture of the largest size that providers keep costs (1,568 x 1,568 pixels / 750, rounded up)."""
MESSAGE_TOKENS = 4
"""Role and delimiters of one message."""

_DENSE = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯\U00020000-\U0003ffff]")
_OPAQUE = re.compile(r"[A-Za-z0-9+/=_-]{64,}")

_PROSE = 0.45
"""Share of the six commonest letters and the blank above which ASCII text counts as prose rather than code or data."""


def estimate(text: str) -> int:
    """Return a likely token count of ``text``."""
    if not text:
        return 0
    opaque = sum(len(match[0]) for match in _OPAQUE.finditer(text))
    if opaque:
        return round(opaque / 2.2) + _plain(_OPAQUE.sub("", text))
    return _plain(text)


def _plain(text: str) -> int:
    if text.isascii():
        letters = sum(map(text.count, "etaoin "))
        common = letters / max(1, len(text))
        return max(1, round(len(text) / (4.2 if common > _PROSE else 3.2))) if text else 0
    dense = len(_DENSE.findall(text))
    ascii_chars = sum(1 for char in text if char < "\x80")
    other = len(text) - dense - ascii_chars
    return max(1, round(dense * 1.05 + ascii_chars / 4.0 + other / 2.0))


def of_message(message: Message) -> int:
    """Return a likely token count of a message."""
    if isinstance(message, UserMessage):
        parts = sum(estimate(part.text) if isinstance(part, Text) else IMAGE_TOKENS for part in message.content)
        return MESSAGE_TOKENS + parts
    if isinstance(message, ToolMessage):
        return MESSAGE_TOKENS + estimate(message.text) + IMAGE_TOKENS * len(message.images)
    return MESSAGE_TOKENS + sum(map(_of_part, message.content))


def _of_part(part: Text | Thinking | ToolCall | Image) -> int:
    if isinstance(part, (Text, Thinking)):
        return estimate(part.text)
    if isinstance(part, ToolCall):
        arguments = part.raw if part.arguments is None else json.dumps(part.arguments, ensure_ascii=False)
        return 12 + estimate(part.name) + estimate(arguments)
    return IMAGE_TOKENS


def of_messages(messages: Iterable[Message]) -> int:
    """Return a likely token count of several messages."""
    return sum(map(of_message, messages))


def of_tools(tools: Sequence[ToolSpec]) -> int:
    """Return a likely token count of tool descriptions."""
    return sum(_of_tool(tool.name, tool.description, json.dumps(tool.parameters)) for tool in tools)


@lru_cache(maxsize=256)
def _of_tool(name: str, description: str, parameters: str) -> int:
    return 8 + estimate(name) + estimate(description) + estimate(parameters)


def of_request(request: Request) -> int:
    """Return a likely token count of everything in a request."""
    system = sum(estimate(segment.text) for segment in request.system)
    return system + of_tools(request.tools) + of_messages(request.messages)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a session's real token counts relate to the estimate: a factor, learnt from each reported call."""

    factor: float = 1.0
    calls: int = 0

    def learn(self, estimated: int, reported: int) -> Calibration:
        """Return the calibration after one more call. Half of what is known gives way to the new figure each time."""
        if estimated < 1 or reported < 1:
            return self
        seen = min(4.0, max(0.25, reported / estimated))
        factor = seen if self.calls == 0 else (self.factor + seen) / 2
        return Calibration(factor, self.calls + 1)

    def apply(self, estimated: int) -> int:
        """Return the corrected estimate."""
        return round(estimated * self.factor)


def context_tokens(messages: Sequence[Message], fixed: int, calibration: Calibration) -> int:
    """Return the size of the next request: the last call's reported prompt and answer, plus an estimate of what came after.

    ``fixed`` is the estimate of system text and tools, which counts only when no call was reported yet. Figures of a tool
    loop are never summed: each call reports the whole prompt again.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and message.usage is not None and message.usage.prompt:
            tail = of_messages(messages[index + 1 :])
            return message.usage.prompt + message.usage.output + calibration.apply(tail)
    return calibration.apply(fixed + of_messages(messages))
