"""A small house on a ledger, to be killed at any moment: reads a platform's messages, runs one effect each, answers, and sends.

What the world sees is kept outside the ledger, one line each in append-only files: ``effects`` (what tools did) and ``shown`` (what a
person read). A line is one write, so it happened or it did not.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from channels.messages import ChatAddress, Cursor
from gateway.base.clock import SystemClock
from gateway.ledger.rows import Arrival, NewOutbound, Turn
from gateway.ledger.sqlite import SqliteLedger

if TYPE_CHECKING:
    from gateway.ledger.protocol import Ledger

ACCOUNT = "telegram:default"
CHATS = 3
MOMENT = 0.003  # what takes time in the world: the most interesting one to be killed in


class House:
    def __init__(self, folder: Path, messages: int, url: str) -> None:
        self.url = url
        self.folder = folder
        self.messages = messages
        self.clock = SystemClock()

    async def run(self) -> None:
        self.ledger = await self.opened()
        for turn in await self.ledger.turns.unfinished():
            await self.turn(await self.ledger.turns.retry(turn.id))
        await asyncio.gather(self.receive(), *(self.answer(chat) for chat in range(CHATS)), self.hear_results(), self.deliver())
        await self.ledger.close()
        print("done", flush=True)  # noqa: T201

    async def opened(self) -> Ledger:
        if not self.url:
            return await SqliteLedger.open(self.folder / "ledger.sqlite", self.clock)
        from gateway.ledger.postgres.ledger import PostgresLedger

        return await PostgresLedger.open(self.url, self.clock)

    async def receive(self) -> None:
        """The platform numbers its messages and forgets those that it was told are safe."""
        offset = int(await self.ledger.inbox.cursor(ACCOUNT, "offset") or 0)
        print("ready", flush=True)  # noqa: T201
        while offset < self.messages:
            again = max(0, offset - 2)
            batch = range(again, min(self.messages, offset + 3))
            offset = batch.stop
            await self.ledger.inbox.accept(
                ACCOUNT, [self.arrival(number) for number in batch], Cursor(name="offset", value=str(offset))
            )
            self.line("acknowledged", str(offset))

    def arrival(self, number: int) -> Arrival:
        chat = number % CHATS
        return Arrival(
            key=f"u:{number}",
            alias=f"m:{number}",
            conversation=conversation(chat).address,
            session=f"s{chat}",
            sender="1",
            payload="{}",
            received_at=self.clock.now(),
        )

    async def answer(self, chat: int) -> None:
        expected = len(range(chat, self.messages, CHATS))
        while True:
            rows = [row for row in await self.ledger.inbox.waiting() if row.session == f"s{chat}"]
            for row in rows:
                await self.turn(await self.ledger.turns.claim(f"s{chat}", "main", [row.id]))
            if not rows:
                answered = await self.ledger.outbox.latest(["ready", "sending", "ambiguous", "sent"], limit=100_000)
                if len({row.turn for row in answered if row.conversation.id == str(chat)}) >= expected:
                    return
                await asyncio.sleep(0.001)

    async def hear_results(self) -> None:
        """The session that each turn's end is told to."""
        while True:
            rows = [row for row in await self.ledger.inbox.waiting() if row.account == "agent"]
            for row in rows:
                await self.turn(await self.ledger.turns.claim("boss", "main", [row.id]))
            if not rows and len(await self.ledger.inbox.latest(["answered"], limit=100_000)) == 2 * self.messages:
                return
            await asyncio.sleep(0.001)

    async def turn(self, turn: Turn) -> None:
        (row,) = await self.ledger.inbox.rows(turn.inbox)
        if await self.ledger.turns.begin_call(turn.id, "call", "effect", "hash", "effect") is None:
            self.line("effects", row.alias)
            await asyncio.sleep(MOMENT)
            await self.ledger.turns.end_call(turn.id, "call")
        if turn.session == "boss":
            await self.ledger.turns.finish(turn.id, "done")
            return
        chat = int(turn.session[1:])
        chunks = [NewOutbound(conversation=conversation(chat), text=f"{row.alias}/{piece}") for piece in range(2)]
        result = replace(self.arrival(0), key=f"result:{row.alias}", alias=f"result:{row.alias}", session="boss")
        await self.ledger.turns.finish(turn.id, "done", chunks, arrivals=[("agent", result)])

    async def deliver(self) -> None:
        sent = 0
        while sent < 2 * self.messages:
            due = await self.ledger.outbox.due([ACCOUNT])
            for one in due:
                row = await self.ledger.outbox.sending(one.id)
                self.line("shown", f"{row.conversation.id} {row.text}{' (repeated)' if row.doubts else ''}")
                await asyncio.sleep(MOMENT)
                await self.ledger.outbox.sent(row.id, "p")
            if not due:
                sent = (await self.ledger.tally()).outbox.get("sent", 0)
                await asyncio.sleep(0.001)

    def line(self, file: str, text: str) -> None:
        descriptor = os.open(self.folder / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{text}\n".encode())
        os.close(descriptor)


def conversation(chat: int) -> ChatAddress:
    return ChatAddress(channel="telegram", kind="direct", id=str(chat))


if __name__ == "__main__":
    asyncio.run(House(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]).run())
