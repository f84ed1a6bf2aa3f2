"""Asks a model for the summary of a history, in one request or in pieces, and checks the result."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.context.background_call import call_in_background
from agent.context.cut_points import Cut, message_of
from agent.context.session_context import SessionContext
from agent.messages import AssistantMessage, Message, Text, ToolMessage, Usage, UserMessage, added
from agent.models import token_estimate
from agent.models.protocol import Request
from agent.transcript.entries import Compacted
from agent.transcript.history_view import SUMMARY_HEAD
from memory.text.stop_words import english
from memory.text.terms import UNSPACED

HEADINGS = (
    "Exact details",
    "Goal",
    "Constraints and preferences",
    "Decisions",
    "Done",
    "In progress",
    "Blocked",
    "Next steps",
    "Files read and changed",
)
"""What a summary is asked for, what must not be lost first: it is written from the top, and may be cut at its end."""
THE_TURN = "The turn under way"
SHAPE = (
    "Write a summary that lets the work go on without the messages it replaces, in at most {words} words. Use these headings and "
    "leave out empty ones:\n"
    + "\n".join(f"## {name}" for name in HEADINGS)
    + "\nUnder the first one: names, numbers, dates, amounts, paths, URLs, error texts, word for word. Where there is an earlier "
    "summary, update it: carry over what still holds, move what was finished to Done. Do not continue the conversation, call no "
    "tools, invent nothing."
)
SPLIT = f"""
The cut falls into the middle of a turn. Add a heading "## {THE_TURN}": what was done so far, and what the messages that stay \
build on."""
AGAIN = "\nYour last answer was of no use: {fault}. Write the summary in the form that is asked for, and nothing else."
MOST_WORDS = 1500
_WORDS_A_TOKEN = 0.5
_KEPT_FOR_LINES = 0.4
_KEPT_SHARE = 0.05
"""Most of the window that is given to lines kept word for word behind a summary."""
_RESERVE_SHARE = 0.8
"""A summary may take this share of what is kept free of the window for an answer."""
_CUT_OFF = "it was cut off at the limit of its length; be shorter"


def longest(context: SessionContext) -> int:
    """Return how long a summary may be with the lines kept behind it, in tokens."""
    return int(context.window.reserve * _RESERVE_SHARE)


class Summary(Struct, frozen=True):
    """A summary (empty when none could be made), what it used, and what went wrong."""

    text: str
    usage: Usage | None
    problem: str = ""


async def summarise(context: SessionContext, cut: Cut, focus: str, most: int) -> Summary:
    """Summarise what lies before the cut in at most about ``most`` tokens; what must not be lost is checked and put back.

    Nothing is raised for a model that fails, answers in another way, or not at all: then the text is empty.
    """
    words = max(50, min(MOST_WORDS, int(most * (1 - _KEPT_FOR_LINES) * _WORDS_A_TOKEN)))
    order = SHAPE.format(words=words) + (SPLIT if cut.parts_a_turn else "") + (f"\nDwell on: {focus}" if focus else "")
    made = await _in_context(context, cut, order, most)
    if not made.text:
        pieces = await _in_pieces(context, cut, order, most)
        made = replace(pieces, usage=added(made.usage, pieces.usage), problem=pieces.problem or made.problem)
    return replace(made, text=await asyncio.to_thread(_completed, context, cut, made.text, most)) if made.text else made


def _completed(context: SessionContext, cut: Cut, text: str, most: int) -> str:
    """Put back what the summary lost and no note holds, word for word."""
    from agent.context.must_keep import kept_lines  # its patterns take 6 ms to compile

    dropped = [message_of(entry) for entry in cut.dropped]
    days = {context.day_of(message) for message in dropped if isinstance(message, UserMessage)}
    room = min(max(0, most - token_estimate.estimate(text)), int(context.window.size * _KEPT_SHARE)) * 4
    extra = kept_lines(dropped, former_summary(context), f"{text}\n{context.notes_known(days)}", room)
    return f"{text}\n\n{extra}" if extra else text


def former_summary(context: SessionContext) -> str:
    """The summary in force, or an empty text."""
    bodies = (entry.body for entry in reversed(context.transcript.entries))
    return next((body.summary for body in bodies if isinstance(body, Compacted)), "")


async def _in_context(context: SessionContext, cut: Cut, order: str, most: int) -> Summary:
    """Ask at the end of the whole conversation, whose beginning the provider has in its cache."""
    if context.tokens() + most + token_estimate.estimate(order) > context.readable:
        return Summary("", None, "the conversation does not fit the model's window")
    dropped = {entry.id for entry in cut.dropped}
    kept = sum(entry.body.kind == "said" and entry.id not in dropped for entry in context.transcript.entries)
    head = f"[Summary request] The newest {kept} messages stay as they are; everything before them is replaced.\n"
    source = [former_summary(context), *(as_text(message_of(entry)) for entry in cut.dropped)]

    async def ask(order: str) -> AssistantMessage:
        request = context.request(extra=[_order(context, head + order)])
        return await call_in_background(context, replace(request, max_output=min(request.max_output, most)))

    return (await _judged(ask, order, source))[0]


async def _judged(
    ask: Callable[[str], Awaitable[AssistantMessage]], order: str, source: Sequence[str]
) -> tuple[Summary, AssistantMessage]:
    """Ask, and once more where the answer is no summary of ``source``. One that is cut off twice counts without its last line."""
    answer = await ask(order)
    text, fault = await _text_and_fault(answer, order, source)
    if answer.failure is not None or answer.stop == "overflow" or not fault:
        return Summary("" if fault else text, answer.usage, fault), answer
    again = await ask(order + AGAIN.format(fault=fault))
    usage = added(answer.usage, again.usage)
    text, fault = await _text_and_fault(again, order, source)
    if fault == _CUT_OFF:
        text = without_last_line(text)
        fault = await asyncio.to_thread(fault_in, text, order, source, (*HEADINGS, THE_TURN))
    return Summary("" if fault else text, usage, f"the model wrote no summary: {fault}" if fault else ""), again


async def _text_and_fault(answer: AssistantMessage, order: str, source: Sequence[str]) -> tuple[str, str]:
    if answer.failure is not None:
        return "", answer.failure.message
    if answer.stop not in {"end", "length"} or answer.calls:
        return "", "it called tools"
    text = answer.text.strip()
    if answer.stop == "length":
        return text, _CUT_OFF
    return text, await asyncio.to_thread(fault_in, text, order, source, (*HEADINGS, THE_TURN))


async def _in_pieces(context: SessionContext, cut: Cut, order: str, most: int) -> Summary:
    """Summarise the old part as labelled text, piece by piece, each piece merged into the summary so far."""
    summary = former_summary(context)
    usage: Usage | None = None
    shares = (2 / 5, 1 / 5)
    texts = [as_text(message_of(entry)) for entry in cut.dropped]
    for share in shares:
        pieces = cut_into_pieces(texts, int(context.window.size * share))
        made, problem = summary, ""
        answer: AssistantMessage | None = None
        for piece in pieces:
            so_far = f"Summary so far:\n{made}\n\n" if made else ""
            text = f"[Summary request] {so_far}Conversation to be added:\n<conversation>\n{piece}\n</conversation>\n"

            async def ask(order: str, text: str = text) -> AssistantMessage:
                said = _order(context, text + order)
                request = Request(system=(), tools=(), messages=(said,), max_output=most, cached=False, thinking="off")
                return await call_in_background(context, request, learn=False)

            got, answer = await _judged(ask, order, [made, piece])
            usage, made, problem = added(usage, got.usage), got.text, got.problem
            if not made:
                break
        if made and pieces:
            return Summary(made, usage)
        if answer is None or answer.stop != "overflow":
            return Summary("", usage, problem)
    return Summary("", usage, problem)


def cut_into_pieces(texts: Sequence[str], limit: int) -> list[str]:
    """Join texts into pieces of at most ``limit`` tokens each; a text that is longer is shortened in its middle."""
    pieces: list[str] = []
    current: list[str] = []
    size = 0
    for text in texts:
        weight = token_estimate.estimate(text)
        shown = text
        if weight > limit:
            keep = len(text) * limit // weight // 2
            shown = f"{text[:keep]}\n[... {len(text) - 2 * keep:,} characters left out ...]\n{text[len(text) - keep :]}"
            weight = limit
        if current and size + weight > limit:
            pieces.append("\n\n".join(current))
            current, size = [], 0
        current.append(shown)
        size += weight
    return [*pieces, "\n\n".join(current)] if current else pieces


def as_text(message: Message) -> str:
    """Return a message as labelled text, so that a model reads it and does not go on with it."""
    if isinstance(message, UserMessage):
        if message.runtime or message.text.startswith(SUMMARY_HEAD):
            return message.text
        return f"{message.sender if message.automation else 'Person'}: {message.text}"
    if isinstance(message, ToolMessage):
        return f"Result of {message.name}: {message.text}"
    calls = "\n".join(
        f"Agent calls {call.name}: {call.raw if call.arguments is None else call.arguments}" for call in message.calls
    )
    return "\n".join(filter(None, (f"Agent: {message.text}" if message.text else "", calls)))


def _order(context: SessionContext, text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),), at=context.clock.now())


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
    common = words_of(order) | _stems(english() | _LABELS)
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
