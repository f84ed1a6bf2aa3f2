"""Very many messages from one chat: in memory are ids, on the disk is everything, and all of it is answered."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock
from gateway.ledger.rows import Arrival
from gateway.ledger.sqlite import SqliteLedger
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.message_queue import MessageQueue, QueuedMessage
from gateway.routing.access import Actor
from gateway.routing.routed_message import encode_message
from gateway.routing.router import Route
from gateway.settings.root import Settings, SettingsStore
from memory.audience import OWNER
from tests.peers.wire import NOON, Wire
from tests.queueing.conftest import Slow, inbox_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.queueing.conftest import Town

    Make = Callable[..., Town]

CHARS = 200
SESSION = "agent:main:main"


@pytest.mark.parametrize("many", [2000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_thousands_of_messages_of_one_chat_wait_on_disk_and_cost_little_memory(tmp_path: Path, many: int) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    route, actor = Route(agent="main", session=SESSION, audience=OWNER), Actor(role="owner", person="anna", sender="anna")
    wire = Wire()

    def arrival(number: int) -> Arrival:
        inbound = wire.message(f"{number} " + "x" * CHARS)
        return Arrival(
            key=inbound.key,
            alias=inbound.alias,
            conversation=inbound.conversation.address,
            session=SESSION,
            sender="anna",
            payload=encode_message(inbound, actor, route),
            received_at=NOON,
        )

    for first in range(0, many, 2000):
        await ledger.inbox.accept("wire:default", [arrival(number) for number in range(first, first + 2000)])
    turns: list[int] = []

    async def work(ticket: Ticket[QueuedMessage]) -> None:
        group = line.gather(ticket.session, ticket.item)
        turns.append(len(group))

    async def hold(session: str) -> None:
        await line.hold(session)

    settings = Settings.model_validate({"messages": {"queue": {"debounceMs": 0}}})
    lanes: Lanes[Any] = Lanes(work, broken=lambda _ticket, error: (_ for _ in ()).throw(error), hold=hold)
    line = MessageQueue(lanes, SettingsStore(settings), {}, ManualClock(NOON))

    inbox = inbox_of(ledger, line.join)
    lanes.pause()
    tracemalloc.start(1)
    assert await inbox.replay() == many
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lanes.queued(SESSION) == many
    assert len(lanes.waiting(SESSION)) == 100, "nobody looks at more than the front of the line"
    lanes.resume()
    await lanes.quiet()
    assert turns == [20] * (many // 20)
    assert (await ledger.tally()).waiting == many, "a line that is gone is made anew from the ledger"
    await ledger.close()
    assert peak < many * 838, f"{peak:,} bytes for {many} messages"


async def test_a_flood_is_answered_whole_in_few_turns(town: Make) -> None:
    t = town()
    slow, wire = Slow(t), t.wire()
    async with t.house(wire) as house:
        await wire.say("0")
        await slow.began.wait()
        await wire.deliver(*(wire.message(str(number)) for number in range(1, 301)))
        slow.gate.set()
        await house.lanes.quiet()
        assert (await house.ledger.tally()).waiting == 0
        answers = 1 + 300 // 20
        await wire.until(lambda: sum(text.startswith("re: ") for text in wire.said()) == answers)
    heard = Counter(word for text in wire.said() if text.startswith("re: ") for word in text[4:].split(" | "))
    assert heard == Counter(str(number) for number in range(301))
    notices = [text for text in wire.said() if "Queued" in text]
    assert [int(text.split()[2].rstrip(",")) for text in notices] == [5, 10, 20, 40, 80, 160], "told seldom"
