"""Limits answers: ends one that is far longer than allowed, or that repeats itself.

A server that ignores the requested maximum could otherwise fill the memory, and the chat.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

from msgspec.structs import replace

from agent.characters import is_blank
from agent.events import Progress, Restarted, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Text, Thinking
from agent.models.protocol import Model, Part, Request
from agent.models.thinking import THINKING_TOKENS

CHARS_A_TOKEN = 8
"""More characters than a token of any language or code has on average."""
MOST_CHARS = 1_000_000
"""The longest answer that is taken whatever is allowed, text, thoughts and arguments of tools together."""


async def bounded(model: Model, request: Request) -> AsyncIterator[Part]:
    """Stream a model's answer, and end it where it goes on and on.

    What was said until then is the answer, with ``stop`` "length" or "repeated"; a loop is shortened to its first round. Where
    nothing was said to a person by then (thoughts, a tool's arguments) the answer is a failure.
    """
    most = min(MOST_CHARS, CHARS_A_TOKEN * (request.max_output + THINKING_TOKENS.get(request.thinking, 0)))
    said, thought, size = Repetition(), Repetition(), 0
    # every model's stream is a generator
    async with aclosing(cast("AsyncGenerator[Part, None]", model.stream(request))) as parts:
        async for part in parts:
            if isinstance(part, AssistantMessage):
                yield _whole(part, most)
                return
            if isinstance(part, Restarted):
                said, thought, size = Repetition(), Repetition(), 0
            looped = False
            if isinstance(part, TextDelta):
                room_left = max(0, most - size)
                size += len(part.text)
                part = part if len(part.text) <= room_left else TextDelta(part.text[:room_left])  # noqa: PLW2901
                looped = said.feed(part.text)
            elif isinstance(part, ThinkingDelta):
                size += len(part.text)
                looped = thought.feed(part.text[:most])
            elif isinstance(part, Progress):
                size += part.chars
            if size <= most or (isinstance(part, TextDelta) and part.text):
                yield part
            if looped or size > most:
                yield _ended(model.name, said.text, looped=looped, most=most)
                return


def _ended(name: str, text: str, *, looped: bool, most: int) -> AssistantMessage:
    kept = shortened(text) if looped else text
    if not is_blank(kept):
        return AssistantMessage(content=(Text(text=kept),), model=name, stop="repeated" if looped else "length")
    reason = (
        "began to repeat itself while it was thinking" if looped else f"wrote more than {most:,} characters without an answer"
    )
    failure = Failure(
        kind="bad_request",
        message=f"{name} {reason}, so it was stopped.",
        hint="Say it differently, or choose another model with /model.",
    )
    return AssistantMessage(content=(), model=name, stop="error", failure=failure)


def _whole(answer: AssistantMessage, most: int) -> AssistantMessage:
    """Take a finished answer within the same bounds: some servers stream nothing and then say it all at once."""
    text = answer.text
    if answer.failure is None and not answer.calls and Repetition().feed(text) and (kept := shortened(text)) != text:
        return replace(answer, content=(*_thoughts(answer, most), Text(text=kept)), stop="repeated")
    asked = sum(len(call.raw) if call.arguments is None else _size(call.arguments, most) for call in answer.calls)
    if len(text) + asked <= most:
        return answer
    if asked > most:
        return _ended(answer.model, "", looped=False, most=most)
    return replace(answer, content=(*_thoughts(answer, most), Text(text=text[:most])), stop="length")


def _thoughts(answer: AssistantMessage, most: int) -> tuple[Thinking, ...]:
    return tuple(part for part in answer.content if isinstance(part, Thinking) and len(part.text) <= most)


def _size(value: object, most: int) -> int:
    """How many characters the texts in JSON data have, as far as ``most``."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            waiting += one
        else:
            size += 4
    return size


TIMES = 12
"""How often in a row the same words count as a loop."""
LEAST, LONGEST = 5, 80
"""The size of what is repeated, in letters and digits."""
SPAN = 300
"""How many letters and digits of nothing else there must be."""
_FEW_SPAN, _FEW = 3000, 4
"""So many characters of any kind, of which so few differ, are a loop as well: dashes, blanks, zeros."""
_EVERY = 200
"""Characters between two looks."""


class Repetition:
    """Takes a text as it grows. Blanks, punctuation and capitals do not count: loops drift in these."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._words = ""
        self._tail = ""
        self._unseen = 0

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._text)

    def feed(self, piece: str) -> bool:
        """Take more of the text; return whether it repeats itself by now. A look is taken every ``_EVERY`` characters."""
        self._text.append(piece)
        self._unseen += len(piece)
        self._tail = (self._tail + piece)[-_FEW_SPAN:]
        self._words = (self._words + _folded(piece))[-2 * TIMES * LONGEST :]
        if self._unseen < _EVERY:
            return False
        self._unseen = 0
        return self.found()

    def found(self) -> bool:
        """Return whether the text repeats itself at its end."""
        return _period(self._words) > 0 or (len(self._tail) == _FEW_SPAN and len(set(self._tail)) <= _FEW)


def shortened(text: str) -> str:
    """Return a text that ends in a loop up to the end of its first round, or the text as it is where it does not."""
    folded = _folded(text)
    period = _period(folded)
    if not period:
        end = text[-_FEW_SPAN:]
        if len(end) < _FEW_SPAN or len(set(end)) > _FEW:
            return text
        few = set(end)
        return text[: len(text.rstrip("".join(few))) + 1].rstrip()
    start = len(folded) - period
    while start > 0 and folded[start - 1] == folded[start - 1 + period]:
        start -= 1
    return _raw(text, start + period)


def _folded(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _period(folded: str) -> int:
    """Return after how many letters the end repeats itself often enough, or 0."""
    if len(folded) < SPAN:
        return 0
    for period in range(LEAST, LONGEST + 1):
        span = max(SPAN, TIMES * period)
        if len(folded) < span:
            break
        end = folded[-span:]
        if end[period:] == end[:-period] and len(set(end[:period])) >= _FEW:
            return period
    return 0


def _raw(text: str, letters: int) -> str:
    """Return the beginning of a text that has so many letters, with the marks that close it."""
    seen = 0
    for index, char in enumerate(text):
        seen += len(_folded(char))
        if seen >= letters:
            rest = text[index + 1 : index + 4]
            marks = len(rest) - len(rest.lstrip(".!?…。！？\"”'"))
            return text[: index + 1 + marks]
    return text
