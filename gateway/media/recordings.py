"""Recordings that people send, and what makes text of them."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Recording(Struct, frozen=True, kw_only=True):
    """A recording, and for which agent and session key it is transcribed. ``seconds`` is None where its headers do not say."""

    data: bytes
    media_type: str
    seconds: float | None
    agent: str
    session: str


class Transcript(Struct, frozen=True, kw_only=True):
    """What was said, or in ``trouble`` why that is not known, with what mends it. ``echo``: show people the text."""

    text: str = ""
    trouble: str = ""
    echo: bool = False


class Transcriber(Protocol):
    """Turns recordings into text."""

    async def transcribe(self, recording: Recording) -> Transcript | None:
        """Return the text of a recording; None where recordings are not transcribed. Raises nothing."""
        ...


def clock_time(seconds: float | None) -> str:
    """Return a length as people write it, such as ``0:12``; "" for None."""
    if seconds is None:
        return ""
    whole = max(1, round(seconds)) if seconds else 0
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
