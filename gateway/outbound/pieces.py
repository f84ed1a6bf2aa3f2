"""Derives the blocks of a turn from its transcript entries: those to send before its end, and the rest.

Each block is keyed by the entry that completes it, so that a replay after a crash yields the same blocks and each is queued once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent import no_reply
from agent.messages import AssistantMessage
from agent.transcript.entries import Entry, Said, SentPart
from channels.common.stream_splitter import alone, reopening

_NO_ANSWERS = frozenset({"cut", "cancelled", "error", "overflow"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A block to send. ``place``: its entry's index in the turn; ``begins``: whether it is the first of an answer."""

    place: str
    text: str
    begins: bool = True


def pieces(entries: Iterable[Entry], least: int, *, finished: bool, whole: bool) -> list[Piece]:
    """Return the blocks of a turn: stored parts of its answers and, with ``finished``, the text before tool calls.

    Blocks shorter than ``least`` characters are joined with the next one, unless ``whole``. More entries only add blocks, as long as
    ``whole`` is set only at the end.
    """
    found: list[Piece] = []
    held, place, ahead = "", "0", ""
    for entry in entries:
        match entry.body:
            case SentPart(text=text, opening=opening, closing=closing):
                shown = _below(held, alone(text, opening, closing))
                found.append(Piece(_place(entry), shown, begins=not ahead or bool(held)))
                held, ahead = "", ahead + text
            case Said(message=AssistantMessage() as message):
                if finished and message.calls and message.failure is None and message.stop not in _NO_ANSWERS:
                    begun, place = bool(ahead), _place(entry)
                    held = _below(held, _rest(no_reply.without_no_reply(message.text), ahead).strip())
                    if held and len(held) >= least:
                        found.append(Piece(place, held, begins=not begun))
                        held = ""
                ahead = ""
    return [*found, Piece(place, held)] if whole and held else found


def left_of(reply: str, entries: Iterable[Entry], *, finished: bool) -> tuple[str, bool]:
    """Return the unsent rest of a turn's last answer, and whether a part of it was sent."""
    last, ahead, begun = None, "", ""
    for entry in entries:
        if isinstance(entry.body, SentPart):
            ahead += entry.body.text
        elif isinstance(entry.body, Said):
            if isinstance(entry.body.message, AssistantMessage):
                last, begun = entry.body.message, ahead
            ahead = ""
    if last is None or last.failure is not None or last.stop in _NO_ANSWERS:
        return reply, False
    if finished and last.calls:  # it ended for want of further calls, and was sent as what is said before tools
        begun = no_reply.without_no_reply(last.text).strip()
    return (_rest(reply, begun), True) if begun else (reply, False)


def unsent(whole: str, sent: str) -> str:
    """Return the part of a text after what was sent. The streamed text may differ from the whole in white space."""
    if whole.startswith(sent):
        return whole[len(sent) :]
    end = 0
    for letter in sent:
        if letter.isspace():
            continue
        while end < len(whole) and whole[end].isspace():
            end += 1
        if end == len(whole) or whole[end] != letter:
            break  # it was streamed otherwise than it was said: rather twice than never
        end += 1
    return whole[end:]


def _rest(whole: str, sent: str) -> str:
    """The same as a separate message: a code block that continues is opened again."""
    left = unsent(whole, sent)
    return alone(left, reopening(sent), "") if left.strip() else ""


def _place(entry: Entry) -> str:
    return entry.id.rpartition(":")[2]


def _below(upper: str, lower: str) -> str:
    return "\n\n".join(filter(None, [upper, lower]))
