"""Hooks: the owner's rules for webhooks that come in. Of a token only a hash is stored, of a signature's secret the secret itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from gateway.ledger.database import Database
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.values import clean, instant, stamp

HookKind = Literal["prompt", "message"]
"""What a call becomes: a message for the agent, or a text that is sent as it is, without a model."""
HookState = Literal["active", "paused"]
HOOK_ACCOUNT: Final = "hook"
"""The account under which messages of hooks are in the inbox."""
LATEST: Final = "latest"
"""Deliver to the chat in which the owner last wrote."""
NOWHERE: Final = "none"
"""Deliver nothing: what the agent answers stays in its session."""
PER_MINUTE: Final = 60
BURST: Final = 20

COLUMNS = "id, name, agent, state, token_hash, secret, rules, created_at, changed_at"
_LATEST_CALLS: Final = 20


class HookRules(Struct, frozen=True, kw_only=True):
    """What becomes of a hook's calls.

    ``text`` is the instruction for the agent ("prompt") or the template that is sent ("message"). ``deliver`` is ``LATEST``,
    ``NOWHERE`` or a chat's address. ``allow`` and ``deny`` narrow the agent's tools.
    ``per_minute`` calls are taken on average, ``burst`` at once.
    """

    kind: HookKind
    text: str
    session: Literal["main", "isolated"] = "isolated"
    deliver: str = LATEST
    model: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    daily_usd: float | None = None
    daily_tokens: int | None = None
    urgent: bool = False
    per_minute: int = PER_MINUTE
    burst: int = BURST


class Hook(Struct, frozen=True, kw_only=True):
    """One hook. ``id`` is random and never used again.

    It has either a ``token_hash`` (SHA-256, hex) or the ``secret`` of its signatures.
    """

    id: str
    name: str
    agent: str
    rules: HookRules
    token_hash: str | None
    secret: str | None
    created_at: datetime
    changed_at: datetime
    state: HookState = "active"


class HookCall(Struct, frozen=True, kw_only=True):
    """One call that was taken.

    ``state`` is that of its message in the inbox, or of its text in the outbox, or "held" or "kept" (see ``UnaskedLedger``). ``reason`` is
    why it ended so. ``replies`` are the states of what its turn sends, likewise.
    """

    key: str
    received_at: datetime
    state: str
    reason: str | None = None
    turn: str | None = None
    replies: tuple[str, ...] = ()


class HookLedger(Protocol):
    """Hooks, and what became of their calls."""

    async def all(self) -> list[Hook]:
        """Return all hooks, by name."""
        ...

    async def add(self, hook: Hook) -> bool:
        """Store a new hook; return whether its name was free."""
        ...

    async def change(self, hook: Hook) -> bool:
        """Store a changed hook; return whether there was one with its id."""
        ...

    async def remove(self, hook: str) -> bool:
        """Delete a hook by its id; return whether there was one. Messages that wait are answered nevertheless."""
        ...

    async def waiting(self) -> int:
        """Return how many messages of hooks wait for a turn."""
        ...

    async def calls(self, hook: str, key: str | None = None, *, limit: int = _LATEST_CALLS) -> list[HookCall]:
        """Return the newest calls of a hook, newest first, or those with one ``key``."""
        ...


class HooksPart:
    """Implements ``HookLedger``."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    async def all(self) -> list[Hook]:
        query = f"SELECT {COLUMNS} FROM hook ORDER BY name"
        return await self._connection.run(lambda db: [read_hook(found) for found in db.execute(query)])

    async def add(self, hook: Hook) -> bool:
        query = f"INSERT INTO hook ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        return await self._connection.run(lambda db: _changed(db, query, _values(hook)))

    async def change(self, hook: Hook) -> bool:
        hook = replace(hook, changed_at=self._connection.now())
        query = (
            "UPDATE hook SET name = ?, agent = ?, state = ?, token_hash = ?, secret = ?, rules = ?, changed_at = ? WHERE id = ?"
        )
        identity, name, agent, state, token_hash, secret, rules, _, changed_at = _values(hook)
        values = (name, agent, state, token_hash, secret, rules, changed_at, identity)
        return await self._connection.run(lambda db: _changed(db, query, values))

    async def remove(self, hook: str) -> bool:
        return await self._connection.run(lambda db: _changed(db, "DELETE FROM hook WHERE id = ?", (clean(hook),)))

    async def waiting(self) -> int:
        query = "SELECT count(*) FROM inbox INDEXED BY inbox_waiting WHERE state = 'waiting' AND account = ?"
        found: Any = await self._connection.run(lambda db: db.execute(query, (HOOK_ACCOUNT,)).fetchone())
        return int(found[0])

    async def calls(self, hook: str, key: str | None = None, *, limit: int = _LATEST_CALLS) -> list[HookCall]:
        first, last = (key, key) if key is not None else (f"{hook}:", f"{hook};")

        def work(db: Database) -> list[HookCall]:
            found = [*_messages(db, first, last, limit), *_sent(db, first, last, limit), *_held(db, first, last, limit)]
            return sorted(found, key=lambda one: one.received_at, reverse=True)[:limit]

        return await self._connection.run(work)


def to_json(rules: HookRules) -> str:
    """Encode rules."""
    return json.dumps(asdict(rules), separators=(",", ":"))


def from_json(written: str) -> HookRules:
    """Decode rules. Fields of later versions are ignored. Raises ValueError or TypeError for what is none."""
    found: dict[str, Any] = json.loads(written)
    known = {field.name for field in fields(HookRules)}
    for name in ("allow", "deny"):
        if isinstance(found.get(name), list):
            found[name] = tuple(found[name])
    return HookRules(**{name: value for name, value in found.items() if name in known})


def _messages(db: Database, first: str, last: str, limit: int) -> list[HookCall]:
    query = (
        "SELECT skey, received_at, state, reason, turn FROM inbox WHERE account = ? AND skey >= ? AND skey <= ? "
        "ORDER BY received_at DESC LIMIT ?"
    )
    found: Sequence[Any] = db.execute(query, (HOOK_ACCOUNT, first, last, limit)).fetchall()
    return [
        HookCall(key=key, received_at=instant(at), state=state, reason=reason, turn=turn, replies=_replies(db, turn))
        for key, at, state, reason, turn in found
    ]


def _replies(db: Database, turn: str | None) -> tuple[str, ...]:
    if turn is None:
        return ()
    found = db.execute("SELECT state FROM outbox WHERE turn = ? ORDER BY id", (turn,)).fetchall()
    kept = db.execute("SELECT state FROM unasked WHERE state <> 'queued' AND turn = ? ORDER BY id", (turn,)).fetchall()
    return tuple(str(state) for (state,) in (*found, *kept))


def _sent(db: Database, first: str, last: str, limit: int) -> list[HookCall]:
    query = "SELECT key, created_at, state, reason FROM outbox WHERE key >= ? AND key <= ? ORDER BY created_at DESC LIMIT ?"
    found: Sequence[Any] = db.execute(query, (first, last, limit)).fetchall()
    return [HookCall(key=key, received_at=instant(at), state=state, reason=reason) for key, at, state, reason in found]


def _held(db: Database, first: str, last: str, limit: int) -> list[HookCall]:
    query = "SELECT key, made_at, state FROM unasked WHERE key >= ? AND key <= ? AND state <> 'queued' ORDER BY made_at DESC LIMIT ?"
    found: Sequence[Any] = db.execute(query, (first, last, limit)).fetchall()
    return [HookCall(key=key, received_at=instant(at), state=state) for key, at, state in found]


def _changed(db: Database, query: str, values: Sequence[Any]) -> bool:
    db.execute(query, values)
    return db.changes() == 1


def _values(hook: Hook) -> tuple[Any, ...]:
    return (
        *(hook.id, clean(hook.name), clean(hook.agent), hook.state, hook.token_hash, hook.secret, clean(to_json(hook.rules))),
        *(stamp(hook.created_at), stamp(hook.changed_at)),
    )


def read_hook(found: Any) -> Hook:
    """Read a hook, selected as ``COLUMNS``."""
    identity, name, agent, state, token_hash, secret, rules, created_at, changed_at = found
    return Hook(
        id=identity,
        name=name,
        agent=agent,
        state=state,
        token_hash=token_hash,
        secret=secret,
        rules=from_json(rules),
        created_at=instant(created_at),
        changed_at=instant(changed_at),
    )
