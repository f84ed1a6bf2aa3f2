"""What turns cost, by the calls that were made while they ran."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

from gateway.ledger.database import Database
from gateway.ledger.spending_rows import NewCall, TurnCosts
from gateway.ledger.values import clean

DAYS: Final = 30
"""How far back turns are looked for."""
CALLS: Final = 300
"""How many calls are looked at, the latest first."""
_LONGEST: Final = 6 * 3600 * 1_000_000
"""Microseconds. A call whose turn did not end within them is left out."""
_TURN: Final = (
    f"(SELECT turn.id FROM turn WHERE turn.ended_at >= spending.at AND turn.ended_at < spending.at + {_LONGEST} "
    "AND turn.started_at <= spending.at AND turn.session = spending.session ORDER BY turn.ended_at LIMIT 1)"
)
_BEGAN: Final = "SELECT max(started_at) FROM turn WHERE state = 'running' AND session = ?"
_SUBAGENTS: Final = "subagent:", "subagent;"
"""What the source of a sub-agent begins with, and what stands behind all of these."""


def turn_costs(db: Database, call: NewCall) -> TurnCosts:
    """See ``SpendingLedger.turn_costs``. At most ``CALLS`` calls are read, however many there are."""
    if call.background:
        return TurnCosts()
    found: Any = db.execute(_BEGAN, (clean(call.session),)).fetchone()
    began = found[0] if found is not None else None
    tokens, usd, turns = 0, 0.0, dict[str, tuple[int, float]]()
    for at, session, used, cost, turn in _calls(db, call):
        if began is not None and at >= began:
            if session == call.session or ":sub:" in session:
                tokens, usd = tokens + used, usd + cost
        elif turn is not None:
            before = turns.get(turn, (0, 0.0))
            turns[turn] = before[0] + used, before[1] + cost
    return TurnCosts(
        tokens=tokens,
        usd=usd,
        dearest_tokens=max((one[0] for one in turns.values()), default=0),
        dearest_usd=max((one[1] for one in turns.values()), default=0.0),
    )


def _calls(db: Database, call: NewCall) -> list[Any]:
    """Return the latest calls of the same source or session: when, in which session, tokens, USD, and the turn that has ended since."""
    values: tuple[str, ...]
    if call.source.startswith(_SUBAGENTS[0]):
        which, values = "source >= ? AND source < ?", _SUBAGENTS
    elif call.source:
        which, values = "source = ?", (clean(call.source),)
    else:
        which, values = "agent = ? AND session = ?", (call.agent, clean(call.session))
    query = (
        f"SELECT at, session, tokens, coalesce(cost, 0.0), {_TURN} FROM spending WHERE day = ? AND {which} AND background = 0 "
        "ORDER BY id DESC LIMIT ?"
    )
    last, calls = date.fromisoformat(call.day), list[Any]()
    for back in range(DAYS):  # day by day, as the indexes have them
        day = f"{last - timedelta(days=back):%Y-%m-%d}"
        calls += db.execute(query, (day, *values, CALLS - len(calls))).fetchall()
        if len(calls) >= CALLS:
            break
    return calls
