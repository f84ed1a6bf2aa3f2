"""A house with a past, for the pages that look at it: conversations, calls with figures, dead letters, a log and a restored session."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.messages import AssistantMessage, Text, ToolCall, ToolMessage, Usage, UserMessage
from agent.transcript.entries import Compacted, Entry, FlushReceipt, Opened, Pruned, Said, TurnEnded, WrittenNote, encode
from channels.messages import ChatAddress
from gateway.ledger.rows import NewOutbound
from gateway.ledger.spending_rows import NewCall, Spent
from gateway.sessions.sessions_file import SessionRecord

if TYPE_CHECKING:
    from gateway.app.gateway import Gateway

MAIN = "agent:main:main"
MODEL = "anthropic/claude-sonnet-5-5"
EVIL = '<img src=x onerror="alert(1)"> [x](javascript:alert(2)) \u202etxt.exe'


class Past:
    """Writes one transcript."""

    def __init__(self, path: Path, session: str, key: str = MAIN, *, at: datetime) -> None:
        self.path, self.at, self.number = path, at, 0
        self.lines: list[bytes] = []
        self._add("open:0", Opened(agent="main", session=session, key=key))

    def _add(self, name: str, body: Any) -> str:
        self.lines.append(encode(Entry(id=name, parent=None, at=self.at, body=body)))
        return name

    def event(self, body: Any) -> str:
        self.number += 1
        return self._add(f"e{self.number}:0", body)

    def turn(self, said: str, answered: str, *, prompt: int, read: int = 0, tool: str = "", pause: float = 60) -> str:
        """Write a turn; return the id of its answer."""
        self.number += 1
        turn, self.at = f"t{self.number}", self.at + timedelta(seconds=pause)
        self._add(f"{turn}:0", Said(message=UserMessage(content=(Text(text=said),), at=self.at)))
        place = 1
        if tool:
            calls = (ToolCall(id="c", name="read", arguments={"path": "notes.txt"}),)
            usage = Usage(input=100, output=20, cache_read=max(0, prompt - 400), cost=0.004)
            self._add(f"{turn}:1", Said(message=AssistantMessage(content=calls, model=MODEL, stop="tools", usage=usage)))
            self._add(f"{turn}:2", Said(message=ToolMessage(call_id="c", name="read", text=tool)))
            place = 3
        usage = Usage(input=prompt - read - 50, output=60, cache_read=read, cache_write=50, cost=0.01)
        answer = AssistantMessage(content=(Text(text=answered),), model=MODEL, stop="end", usage=usage)
        name = self._add(f"{turn}:{place}", Said(message=answer))
        self._add(f"{turn}:{place + 1}", TurnEnded(turn=turn, outcome="answered", facts={}))
        return name

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"".join(self.lines))


async def fill(house: Gateway) -> None:
    """Give a house its past. It has an agent ``main`` and no conversation yet."""
    store, now = house.agents["main"].store, datetime.now(UTC)
    former = Past(Path(store.transcript("s-former").where), "s-former", at=now - timedelta(days=2))
    former.turn("Where did we put the key of the shed?", "Under the blue pot.", prompt=4200)
    former.write()
    present = Past(Path(store.transcript("s-now").where), "s-now", at=now - timedelta(hours=5))
    present.turn(f"Good morning! My sister is called {EVIL}", "Good morning. I will remember that.", prompt=4100)
    first_kept = ""
    for n in range(1, 13):
        long = "\n".join(f"line {line} of the notes" for line in range(120)) if n % 4 == 0 else ""
        said = f"Question {n} about the teal door and the boat of 1998"
        present.turn(said, f"Answer {n}: the door stays teal.", prompt=4100 + n * 900, read=4000 + (n - 1) * 880, tool=long)
        if n == 9:
            first_kept = f"t{present.number}:0"
    note = WrittenNote(path="memory/2026-11-25.md", bytes_before=0, bytes_after=400, sha256_before=None, sha256_after="0" * 64)
    present.event(FlushReceipt(cycle=None, outcome="written", reason="threshold", written=(note,)))
    summary = "## Decisions\nThe door stays teal; the boat is of 1998."
    present.event(
        Compacted(
            summary=summary, first_kept=first_kept, tokens_before=15_000, tokens_after=6_200, model=MODEL, reason="threshold"
        )
    )
    for n in range(13, 17):
        present.turn(f"And question {n}?", f"Answer {n}.", prompt=6000 + n * 60, read=5800, pause=400)
    present.event(Pruned(trimmed=("t9:2",), head_chars=200, tail_chars=100, placeholder="[cleared]"))
    present.turn("My locker number is 4711, and Ada comes on Friday at 18:30.", "Noted for later.", prompt=7400, read=7000)
    present.write()
    await store.put(
        SessionRecord(
            session="s-now",
            key=MAIN,
            started=now - timedelta(hours=5),
            spoken=now - timedelta(minutes=3),
            turns=18,
            compactions=1,
            former="s-former",
            former_until=now + timedelta(days=5),
        )
    )
    await _money(house, now)
    await _letters(house)
    log = house.deps.paths.logs / "homebody.jsonl"
    await asyncio.to_thread(_log, log, now)


async def _money(house: Gateway, now: datetime) -> None:
    spending = house.ledger.spending
    for days in range(20, -1, -1):
        day = f"{now - timedelta(days=days):%Y-%m-%d}"
        for n, (model, origin) in enumerate((("anthropic/claude-sonnet-5-5", "owner"), ("openai/gpt-6-sol", "schedule"))):
            call = NewCall(day=day, agent="main", session=MAIN, model=model, background=False, tokens=1, usd=0.0, origin=origin)
            row = (await spending.reserve(call, (), force=True)).row
            assert row is not None
            cost = 0.08 + 0.05 * ((days * 7 + n * 3) % 5)
            await spending.settle_call(row, Spent(input=900, output=300, cache_read=60_000, cache_write=9_000, cost=cost))


async def _letters(house: Gateway) -> None:
    place = ChatAddress(channel="telegram", kind="direct", id="42")
    texts = ("The weather stays fine until Friday.", f"A letter from {EVIL}", "Your tea is ready.")
    await house.ledger.outbox.enqueue([NewOutbound(conversation=place, text=text) for text in texts])
    for row in (await house.ledger.outbox.latest(("ready",)))[:2]:
        await house.ledger.outbox.dead(row.id, "the chat is gone")


def _log(path: Path, now: datetime) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        {"level": "info", "event": "the gateway has started", "logger": "gateway.app"},
        {"level": "warning", "event": f"a name that nobody chose: {EVIL}", "logger": "channels", "channel": "telegram"},
        {"level": "error", "event": "a turn failed", "logger": "gateway.turns", "session": MAIN, "exception": "Traceback …"},
    ]
    with path.open("a") as file:
        for line in lines:
            file.write(json.dumps({"at": now.isoformat(timespec="seconds"), **line}) + "\n")
