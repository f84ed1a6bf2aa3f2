"""Fallback notice: tells when another model than the chosen one answered, and when the chosen one is back."""

from __future__ import annotations

from agent.loop.turn import TurnResult
from gateway.sessions.record import SessionRecord

THOUGHT_CHARS = 4000
"""The most that is shown of a turn's thinking."""


def fallback_of(result: TurnResult) -> str:
    """Return the model that answered in the place of the chosen one, or an empty text."""
    return result.model if result.chosen and result.model != result.chosen else ""


def fallback_text(record: SessionRecord, result: TurnResult) -> str:
    """Return the line to tell with a reply; an empty text where nothing changed since the last one or nobody answered."""
    now = fallback_of(result)
    if result.outcome != "answered" or now == record.fallback_of:
        return ""
    if not now:
        return f"↩️ {result.chosen} answers again."
    reason = result.stood_in.reason.rstrip(".") if result.stood_in else ""
    why = f": {reason}" if reason else f", instead of {result.chosen}"
    return f"↪️ {now} answered{why}."


def with_asides(text: str, record: SessionRecord, result: TurnResult | None, *, continued: bool = False) -> str:
    """Return a reply with what its reader is to be told beside it: quiet lines below, and above it thoughts, if they are wanted.

    ``continued``: it goes on from what was sent already, perhaps with nothing; then thoughts come below, too.
    """
    if result is None or not (text or continued):
        return text
    if record.reasoning and result.thoughts:
        thoughts = result.thoughts if len(result.thoughts) <= THOUGHT_CHARS else f"{result.thoughts[:THOUGHT_CHARS]}…"
        quoted = "\n".join(f"> {line}".rstrip() for line in f"💭 {thoughts}".splitlines())
        text = "\n\n".join(filter(None, (text, quoted) if continued else (quoted, text)))
    lines = [*result.asides, *filter(None, [fallback_text(record, result)])]
    return "\n\n".join(filter(None, [text, "\n".join(lines)])) if lines else text
