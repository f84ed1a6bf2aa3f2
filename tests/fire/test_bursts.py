"""Many messages at once: they wait on disk, not in memory."""

from __future__ import annotations

import asyncio
import json
import sys
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from channels.messages import ChatAddress, Inbound, Sender
from gateway.base.clock import ManualClock
from gateway.ledger.rows import Arrival
from gateway.ledger.sqlite import SqliteLedger
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.message_queue import QueuedMessage
from gateway.routing.access import Actor
from gateway.routing.routed_message import encode_message
from gateway.routing.router import Route
from memory.audience import OWNER
from tests.queueing.conftest import inbox_of

if TYPE_CHECKING:
    from gateway.routing.routed_message import RoutedMessage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SESSIONS, CHARS = 200, 4000


def arrival(number: int) -> Arrival:
    chat = str(number % SESSIONS)
    place = ChatAddress(channel="telegram", kind="direct", id=chat)
    inbound = Inbound(
        conversation=place,
        sender=Sender(id=chat),
        text=f"{number} " + "x" * CHARS,
        at=NOON,
        key=f"u:{number}",
        alias=f"m:{number}",
        message_id=str(number),
    )
    route = Route(agent="main", session=f"s{chat}", audience=OWNER)
    payload = encode_message(inbound, Actor(role="owner", person="owner", sender=chat), route)
    return Arrival(
        key=inbound.key,
        alias=inbound.alias,
        conversation=place.address,
        session=route.session,
        sender=chat,
        payload=payload,
        received_at=NOON,
    )


@pytest.mark.parametrize("messages", [2000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_thousands_of_waiting_messages_cost_little_memory_and_keep_their_order(tmp_path: Path, messages: int) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    for first in range(0, messages, 100):
        await ledger.inbox.accept("telegram:default", [arrival(number) for number in range(first, first + 100)])
    done: dict[str, list[int]] = {}

    async def work(ticket: Ticket[QueuedMessage]) -> None:
        (arrived,) = await inbox.read([ticket.item.row])
        await ledger.inbox.settle([arrived.row.id], "answered")
        done.setdefault(ticket.session, []).append(int(arrived.inbound.message_id))

    lanes: Lanes[QueuedMessage] = Lanes(work, limit=32, broken=lambda _ticket, error: (_ for _ in ()).throw(error))

    def submit(arrived: RoutedMessage) -> None:
        inbound = arrived.inbound
        lanes.submit(arrived.route.session, QueuedMessage(arrived.row.id, inbound.conversation, inbound.message_id))

    inbox = inbox_of(ledger, submit)
    tracemalloc.start()
    assert await inbox.replay() == messages
    await lanes.quiet()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, done.values())) == messages
    assert all(numbers == sorted(numbers) for numbers in done.values())
    assert peak < messages * 2048, f"{peak:,} bytes for {messages * CHARS:,} bytes of messages"
    await ledger.close()


@pytest.mark.parametrize("megabytes", [10, pytest.param(50, marks=pytest.mark.long)])
async def test_a_message_of_megabytes_is_kept_whole_and_costs_a_bounded_share_of_memory(tmp_path: Path, megabytes: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("heavy.py")),
        str(tmp_path / "house"),
        str(megabytes),
        stdout=asyncio.subprocess.PIPE,
    )
    found = json.loads((await process.communicate())[0])
    assert found["shown"] == ["well"] * 3
    assert found["kept"] == megabytes * 1_000_000
    assert max(found["heard"]) < 120_000, "the model is given its beginning"
    assert found["most"] - found["before"] < 12 * megabytes, "a dozen times its length at most"
