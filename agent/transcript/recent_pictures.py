"""Limits the pictures of a history that a model is shown, because requests have a largest size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from agent.messages import Image, Message, Text, ToolMessage, UserMessage

MOST: Final = 20
"""Pictures in one request; from more on, providers ask for smaller ones."""
MOST_CHARS: Final = 16_000_000
"""Characters of all of them together; the smallest request that a provider takes is twice that."""
STEP: Final = 10
"""Old ones give way so many at a time: the prompt's beginning changes seldom, and its cache holds."""
GONE: Final = "[A picture was shown here. What lies in a file can be looked at again with read.]"


def with_recent_pictures(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the newest pictures, and words in the place of older ones. Those of the last message with any stay."""
    sizes = [[len(picture.data) for picture in _pictures(message)] for message in messages]
    hidden = _hidden(sizes)
    shown: list[Message] = []
    for message, own in zip(messages, sizes, strict=True):
        gone = min(hidden, len(own))
        hidden -= gone
        shown.append(_without(message, gone) if gone else message)
    return shown


def _hidden(sizes: Sequence[Sequence[int]]) -> int:
    """Return how many pictures give way. More messages never make it fewer."""
    flat = [size for own in sizes for size in own]
    left, hidden = sum(flat), 0
    while len(flat) - hidden > MOST or left > MOST_CHARS:
        left -= sum(flat[hidden : hidden + STEP])
        hidden += STEP
    newest = next((len(own) for own in reversed(sizes) if own), 0)
    return min(hidden, len(flat) - newest)


def _pictures(message: Message) -> Sequence[Image]:
    if isinstance(message, UserMessage):
        return [part for part in message.content if isinstance(part, Image)]
    return message.images if isinstance(message, ToolMessage) else ()


def _without(message: Message, gone: int) -> Message:
    """Take the first ``gone`` pictures out of a message."""
    if isinstance(message, ToolMessage):
        return replace(message, text=f"{message.text}\n{GONE}".strip(), images=message.images[gone:])
    assert isinstance(message, UserMessage)
    parts: list[Text | Image] = []
    for part in message.content:
        if isinstance(part, Image) and gone:
            gone -= 1
            parts.append(Text(text=GONE))
        else:
            parts.append(part)
    return replace(message, content=tuple(parts))
