"""Sending an answer while it is still being written, and keeping what was sent when it breaks off.

Each part is in the transcript before it is sent. When the answer is completed, the parts are its beginning; when it breaks off,
they are recorded as an answer that was cut off, and the model is asked to continue.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.messages import AssistantMessage, Text
from agent.transcript.entries import Entry, Said, SentPart


class AnswerStream:
    """Takes an answer as it is written, and may send it in parts. This one sends nothing: the answer is sent when it is complete.

    A subclass that sends parts appends a ``SentPart`` to the transcript first, and raises nothing.
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
