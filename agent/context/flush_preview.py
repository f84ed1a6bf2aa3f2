"""What the next memory flush would keep, as far as that can be told without asking a model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from agent.context import flush
from agent.context.note_writer import NoteWriter
from agent.context.session_context import SessionContext
from agent.transcript.entries import FlushReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptByRule:
    """Sentences of people that the notes do not tell yet. ``taint`` names their sources where they are not to be trusted."""

    day: date
    note: str
    taint: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPreview:
    """``obstacle`` says why nothing would be flushed; empty where something would.

    ``request`` is what the model is asked; what it will write cannot be known. ``said`` counts statements of people since the last flush.
    ``by_rule`` is what would be written down by rule if the model noted nothing of it.
    """

    at: int
    tokens: int
    obstacle: str
    note: str
    request: str
    said: int
    by_rule: tuple[KeptByRule, ...]
    last: datetime | None
    last_outcome: str


async def flush_preview(context: SessionContext) -> FlushPreview:
    """Describe the next flush of a session that was prepared. Nothing is written, and no model is asked."""
    latest = context.transcript.latest(FlushReceipt)
    receipt = latest.body if latest is not None and isinstance(latest.body, FlushReceipt) else None
    obstacle, statements = context.flush_obstacle, flush.statements_of(context)
    if not obstacle and not statements:
        obstacle = "nobody has said anything since the last flush"
    elif not obstacle and not flush.is_worthwhile(context):
        obstacle = "too little was said since the last flush"
    writer = NoteWriter(context, "preview")
    kept = [
        KeptByRule(day=day, note=str(context.audience.daily_note(day)), taint=tuple(sorted(taint)), sentences=tuple(sentences))
        async for day, taint, sentences in writer.missing(statements, everything=False)
    ]
    return FlushPreview(
        at=context.window.flush_at,
        tokens=context.tokens(),
        obstacle=obstacle,
        note=str(context.audience.daily_note(flush.day_of_the_talk(context))),
        request=flush.request_text(context),
        said=len(statements),
        by_rule=tuple(kept),
        last=latest.at if latest is not None else None,
        last_outcome=receipt.outcome if receipt is not None else "",
    )
