"""What filled the window at past calls, derived from a transcript's entries: one point for each answered call, and marks between them.

Nothing is recorded for this: a call's total is what its provider reported, the parts are estimates of what the model was shown then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

from agent.context.context_report import kind_of
from agent.context.light_run import light_view
from agent.messages import AssistantMessage, Message, Usage
from agent.models import token_estimate
from agent.models.token_estimate import Calibration, Weight
from agent.transcript.entries import Compacted, Entry, FlushReceipt, Opened, Pruned, ResultsCleared, Said
from agent.transcript.history_view import RunningView, turn_of, view
from agent.transcript.transcript import kept_behind

MarkKind = Literal["reset", "flush", "compaction", "pruning"]
KINDS = ("summary", "people", "answers", "tool results")
"""The parts of a history. What else a request has are its instructions and tools."""
FIXED = "instructions and tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPoint:
    """One call that was answered. ``call`` is the id of the answer's entry. ``parts`` add up to the reported prompt."""

    call: str
    session: str
    at: datetime
    model: str
    usage: Usage
    parts: dict[str, int]
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that changed the window between calls. ``before`` and ``after`` are sizes in tokens where they were recorded."""

    entry: str
    session: str
    at: datetime
    kind: MarkKind
    told: str
    before: int | None = None
    after: int | None = None


def shown_before(entries: Sequence[Entry], call: str, zone: tzinfo, *, light: bool = False) -> tuple[Message, ...] | None:
    """Return the history that the model was shown for the answer with the entry id ``call``; None if there is none.

    ``light``: its turns were shown nothing but their own messages.
    """
    present: list[Entry] = []
    for entry in entries:
        if entry.id == call:
            shown = light_view(present, turn_of(entry), zone) if light else view(present, zone)
            return shown if _answer(entry) is not None else None
        present = grown(present, entry)
    return None


def points(
    entries: Sequence[Entry],
    session: str,
    zone: tzinfo,
    *,
    fixed: Weight,
    calibration: Calibration,
    wanted: int,
    light: bool = False,
) -> Iterator[CallPoint | Mark]:
    """Yield the last ``wanted`` calls of one session, and the marks among them, oldest first.

    ``fixed`` is the present estimate of instructions and tools, ``calibration`` the present one: they decide how a reported total is
    shared out, not how large it is.
    """
    places = [index for index, entry in enumerate(entries) if (said := _answer(entry)) is not None and said.usage is not None]
    start = places[-wanted] if len(places) >= wanted > 0 else 0
    present: list[Entry] = []
    shown = RunningView()
    for index, entry in enumerate(entries):
        said = _answer(entry)
        if index >= start and said is not None and said.usage is not None and said.usage.prompt:
            history = light_view(present, turn_of(entry), zone) if light else shown.of(present, zone)
            yield CallPoint(
                call=entry.id,
                session=session,
                at=entry.at,
                model=said.model,
                usage=said.usage,
                parts=shared_out(history, said.usage.prompt, fixed=fixed, calibration=calibration),
                messages=len(history),
            )
        elif index >= start and (mark := _mark(entry, session)) is not None:
            yield mark
        present = grown(present, entry)


def shared_out(history: Sequence[Message], total: int, *, fixed: Weight, calibration: Calibration) -> dict[str, int]:
    """Share a reported total out among its parts, in proportion to their estimates."""
    weights = dict.fromkeys(KINDS, Weight())
    for message in history:
        kind = kind_of(message)
        weights[kind] += token_estimate.weight_of(message)
    likely = {FIXED: calibration.apply(fixed), **{kind: calibration.apply(weight) for kind, weight in weights.items()}}
    whole = sum(likely.values()) or 1
    shares = {name: round(total * tokens / whole) for name, tokens in likely.items()}
    shares[FIXED] += total - sum(shares.values())
    return {name: tokens for name, tokens in shares.items() if tokens > 0}


def grown(present: list[Entry], entry: Entry) -> list[Entry]:
    """Return what a transcript holds in memory after one more entry: the same list, or a shorter one after a compaction."""
    if isinstance(entry.body, Compacted):
        present = kept_behind(present, entry.body)
    present.append(entry)
    return present


def _answer(entry: Entry) -> AssistantMessage | None:
    message = entry.body.message if isinstance(entry.body, Said) else None
    return message if isinstance(message, AssistantMessage) and message.failure is None else None


def _mark(entry: Entry, session: str) -> Mark | None:
    match entry.body:
        case Opened():
            return Mark(entry=entry.id, session=session, at=entry.at, kind="reset", told="")
        case FlushReceipt(written=written, outcome=outcome):
            detail = ", ".join(note.path for note in written) or outcome
            return Mark(entry=entry.id, session=session, at=entry.at, kind="flush", told=detail)
        case Compacted(reason=reason, tokens_before=before, tokens_after=after):
            return Mark(
                entry=entry.id, session=session, at=entry.at, kind="compaction", told=reason, before=before, after=after
            )
        case Pruned(trimmed=trimmed, aged=aged, cleared=cleared):
            detail = f"{len(trimmed) + len(aged)} trimmed, {len(cleared)} cleared"
            return Mark(entry=entry.id, session=session, at=entry.at, kind="pruning", told=detail)
        case ResultsCleared():
            return Mark(entry=entry.id, session=session, at=entry.at, kind="pruning", told="old tool results cleared")
    return None
