"""Limits answers: ends one that is far longer than allowed, or that repeats itself.

A server that ignores the requested maximum could otherwise fill the memory, and the chat.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import cast

from msgspec.structs import replace

from agent.characters import is_blank
from agent.events import Progress, Restarted, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Message, Text, Thinking, UserMessage
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
    asked = asked_in(request.messages)
    said, thought, size = Repetition(asked), Repetition(), 0
    # every model's stream is a generator
    async with aclosing(cast("AsyncGenerator[Part, None]", model.stream(request))) as parts:
        async for part in parts:
            if isinstance(part, AssistantMessage):
                yield _whole(part, most, asked)
                return
            if isinstance(part, Restarted):
                said, thought, size = Repetition(asked), Repetition(), 0
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
                yield _ended(model.name, said.text, looped=looped, most=most, asked=asked)
                return


def _ended(name: str, text: str, *, looped: bool, most: int, asked: str = "") -> AssistantMessage:
    kept = closed(shortened(text, asked)) if looped else text
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


def _whole(answer: AssistantMessage, most: int, asked: str) -> AssistantMessage:
    """Take a finished answer within the same bounds: some servers stream nothing and then say it all at once."""
    text = answer.text
    if (
        answer.failure is None
        and not answer.calls
        and Repetition(asked).feed(text)
        and (kept := shortened(text, asked)) != text
    ):
        return replace(answer, content=(*_thoughts(answer, most), Text(text=closed(kept))), stop="repeated")
    called = sum(len(call.raw) if call.arguments is None else _size(call.arguments, most) for call in answer.calls)
    if len(text) + called <= most:
        return answer
    if called > most:
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
LINES = 30
"""The same for whole lines: a refrain."""
ASKED = 200
"""The same for words that the person wrote: they asked for them."""
LEAST, LONGEST = 5, 80
"""The size of what is repeated, in letters and digits."""
SPAN = 300
"""How many letters and digits of nothing else there must be."""
BLOCK = 20_000
"""So many characters of a code block or a table may repeat themselves, as rows of zeros do."""
_FEW_SPAN, _FEW = 3000, 4
"""So many characters of any kind, of which so few differ, are a loop as well: dashes, blanks, zeros."""
_EVERY = 200
"""Characters between two looks."""
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_CLOSED = re.compile(r"\n {0,3}(?:`{3,}|~{3,})\s*\Z")


class Repetition:
    """Takes a text as it grows. Blanks, punctuation and capitals do not count: loops drift in these.

    ``asked`` is what the person wrote last.
    """

    def __init__(self, asked: str = "") -> None:
        self._asked = asked
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
        if _period(self._words):
            return bool(_loop(self.text, self._asked))
        return _has_few(self._tail) and not _in_block(self.text)


def shortened(text: str, asked: str = "") -> str:
    """Return a text that ends in a loop up to the end of its first round, or the text as it is where it does not."""
    folded = _folded(text)
    if not _period(folded):
        end = text[-_FEW_SPAN:]
        if not _has_few(end) or _in_block(text):
            return text
        return text[: len(text.rstrip("".join(set(end)))) + 1].rstrip()
    period = _loop(text, asked)
    if not period:
        return text
    start = len(folded) - period
    while start > 0 and folded[start - 1] == folded[start - 1 + period]:
        start -= 1
    return _raw(text, start + period)


def closed(text: str) -> str:
    """Return a text that was cut with its code block closed, or without the beginning of one that holds nothing."""
    start = _open_fence(text)
    if start < 0:
        return text
    head, _, inside = text[start:].partition("\n")
    if not inside.strip():
        return text[:start].rstrip()
    return f"{text.rstrip()}\n{head.strip()[:3]}"


def asked_in(messages: Sequence[Message]) -> str:
    """Return what a person wrote last."""
    return next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")


def _loop(text: str, asked: str) -> int:
    """Return after how many letters the end of a text repeats itself, or 0 where it does not, or may."""
    folded = _folded(text[-4 * ASKED * LONGEST :])
    period = _period(folded)
    if not period or _in_block(text):
        return 0
    unit = folded[-period:]
    wanted = _folded(asked)
    is_asked = any(unit[n:] + unit[:n] in wanted for n in range(period))
    times = ASKED if is_asked else LINES if _is_of_lines(text, unit) else TIMES
    end = folded[-max(SPAN, times * period) :]
    return period if len(end) >= times * period and end[period:] == end[:-period] else 0


def _is_of_lines(text: str, unit: str) -> bool:
    """Whether the unit of a loop at the end of a text is one or several whole lines."""
    lines = [folded for line in text[-4 * TIMES * LONGEST :].splitlines() if (folded := _folded(line))][-TIMES:-1]
    turned = unit * 2
    return len(lines) > 1 and all(len(line) <= len(unit) and line in turned for line in lines)


def _has_few(end: str) -> bool:
    return len(end) == _FEW_SPAN and len(set(end)) <= _FEW


def _in_block(text: str) -> bool:
    """Whether a text ends in a code block or a table that may still go on."""
    body = _CLOSED.sub("", text)
    start = _open_fence(body)
    if start >= 0:
        return len(body) - start <= BLOCK
    size = 0
    for line in reversed(body[-2 * BLOCK :].rstrip().split("\n")):
        if not line.lstrip().startswith("|"):
            break
        size += len(line) + 1
    return 0 < size <= BLOCK


def _open_fence(text: str) -> int:
    """Return where a code block begins that is open at the end of a text, or -1."""
    start, mark = -1, ""
    for found in _FENCE.finditer(text):
        if start < 0:
            start, mark = found.start(), found[1]
        elif found[1].startswith(mark) and not found[2].strip():
            start = -1
    return start


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
