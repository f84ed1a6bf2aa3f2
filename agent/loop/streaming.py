"""An answer that is sent while it is still being written: whoever sends it, and what becomes of it when it breaks off.

What was sent stands in the transcript before anybody can read it. When the answer comes to a good end these words are its
beginning; when it does not, they are all of it: they are kept as an answer that was cut off, and the model goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.messages import AssistantMessage, Text
from agent.transcript.entries import Entry, Said, SentPart


class AnswerStream:
    """Hears an answer as it is written, and may send it ahead. This one stands in where answers are sent when they are whole.

    One that sends puts an ``SentPart`` into the transcript of the turn first, and raises nothing.
    """

    def hear(self, text: str) -> None:
        """Take more of the answer, of which a person may see all. Quick."""

    async def stop(self) -> None:
        """The answer is over, or void: forget what was not sent of it. Nothing is sent from then on until more is heard."""


def cut_answer(entries: Iterable[Entry], model: str) -> AssistantMessage | None:
    """Return what was sent of an answer that these entries end with and that is not whole, as an answer; None when nothing was."""
    words, closing = "", ""
    for entry in entries:
        if isinstance(entry.body, SentPart):
            words, closing = words + entry.body.text, entry.body.closing
        elif isinstance(entry.body, Said):
            words = closing = ""
    return AssistantMessage(content=(Text(text=words + closing),), model=model, stop="cut") if words else None
