"""Turns that the last process did not finish: which of them are gone on with, and what is said of the others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from gateway.ledger.rows import Turn, TurnEnd

MAX_ATTEMPTS = 3
FRESH = timedelta(minutes=30)
"""A turn that was begun longer ago is not simply gone on with: its owner may have moved on."""
QUOTED_CHARS = 60


@dataclass(frozen=True, slots=True)
class GivenUp:
    """How a turn ends that is not gone on with: in the ledger, with the reason, and in words for the person."""

    state: TurnEnd
    reason: str
    text: str


def given_up(turn: Turn, asked: str, now: datetime, zone: tzinfo | None) -> GivenUp | None:
    """Judge a turn that began with the message ``asked``; None: it goes on. No ``zone``: its agent or session is gone."""
    about = _shortened(asked)
    if zone is None or turn.attempt >= MAX_ATTEMPTS:
        text = f"⚠️ I was interrupted {turn.attempt} times over “{about}” and gave it up. Say it again if it still matters."
        return GivenUp("failed", "interrupted too often", text)
    if now - turn.started_at > FRESH:
        at = f"{turn.started_at.astimezone(zone):%a %H:%M}"
        text = f"I was interrupted over “{about}” ({at}) and am back. It is a while ago: say “go on” if it still matters."
        return GivenUp("stopped", "interrupted long ago", text)
    return None


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUOTED_CHARS else f"{line[:QUOTED_CHARS].rstrip()}…"
