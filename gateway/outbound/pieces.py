"""What of a turn is sent before it is over, worked out from its entries in the transcript, and what is left for the end.

Every piece is named after the entry with which it became sure, so that a repeat after a crash comes to the same pieces, and each
is queued once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent import no_reply
from agent.messages import AssistantMessage
from agent.transcript.entries import Said, SentPart
from channels.common.stream_splitter import alone, reopening

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent.transcript.entries import Entry

_NO_ANSWERS = frozenset({"cut", "cancelled", "error", "overflow"})


@dataclass(frozen=True, slots=True)
class Piece:
    """Something to send. ``place`` is that of its entry in the turn; ``begins`` says that an answer begins with it."""

    place: str
    text: str
    begins: bool = True


def pieces(entries: Iterable[Entry], least: int, *, finished: bool, whole: bool) -> list[Piece]:
    """Return what is to be sent of a turn: what was about to be sent of its answers, and with ``finished`` also those before tools.

    Those of fewer letters than ``least`` wait for what comes next, or until ``whole``. More entries only ever add pieces, as long as
    ``whole`` waits for the end.
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
    """Return what of a turn's last words is not sent yet, and whether anything of them was."""
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
    """Return what of a text stands behind what was sent of it. What was streamed may differ from the whole in blanks."""
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
    """The same as a text of its own: a code block that goes on is opened anew."""
    left = unsent(whole, sent)
    return alone(left, reopening(sent), "") if left.strip() else ""


def _place(entry: Entry) -> str:
    return entry.id.rpartition(":")[2]


def _below(upper: str, lower: str) -> str:
    return "\n\n".join(filter(None, [upper, lower]))
