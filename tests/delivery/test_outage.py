"""A platform that is away for seconds, in each way, on the system clock: what was due is said once it is back, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from channels.messages import PERHAPS, ChatAddress
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from gateway.base.clock import SystemClock
from gateway.ledger.rows import NewOutbound
from gateway.outbound.delivery import Delivery
from tests.delivery.front import WAYS, Front, Way
from tests.ledger.engines import open_at
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.ledger.protocol import Ledger

SECONDS = float(os.environ.get("OUTAGE_SECONDS", "5"))
CHATS = (41, 42, 43)
CAN_ARRIVE: tuple[Way, ...] = ("cut after",)
"""The ways in which something arrives that nobody is told of."""
CLEAN: tuple[Way, ...] = ("refused", "429")
"""The ways in which it is plain that nothing arrived."""


@asynccontextmanager
async def sending(folder: Path, front: Front) -> AsyncIterator[tuple[Ledger, Delivery]]:
    """A ledger and what sends from it, as in a running gateway."""
    clock = SystemClock()
    ledger = await open_at(folder / "ledger.sqlite", clock)
    given = {"botToken": TOKEN, "apiRoot": front.root, "timeoutSeconds": 5, "pacing": False}
    channel = TelegramChannel(TelegramSettings.model_validate(given), "default", clock=clock)
    delivery = Delivery(ledger.outbox, clock, jitter=lambda: 1.0)
    delivery.attach(channel)
    delivery.ready("telegram", "default")
    running = asyncio.create_task(delivery.run())
    try:
        yield ledger, delivery
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await channel.close()
        await ledger.close()


async def said_all(peer: TelegramPeer, words: str) -> None:
    await peer.until(lambda: all(any(words in text for text in peer.chats.said(chat)) for chat in CHATS), seconds=150)


async def outage(folder: Path, way: Way) -> None:
    async with TelegramPeer() as peer, Front(peer.root) as front, sending(folder, front) as (ledger, delivery):
        for chat in CHATS:
            peer.chats.hear(chat, "hi", name=f"Person {chat}")
        places = [ChatAddress(channel="telegram", kind="direct", id=str(chat)) for chat in CHATS]
        await ledger.outbox.enqueue([NewOutbound(conversation=place, text="before") for place in places])
        await said_all(peer, "before")
        await front.fail(way)
        await ledger.outbox.enqueue(
            [NewOutbound(conversation=place, text=text) for place in places for text in ("answer", "and more")]
        )
        await asyncio.sleep(SECONDS)
        await front.hint()
        await said_all(peer, "and more")
        await delivery.settled()
        for chat in CHATS:
            judge(way, peer.chats.said(chat))
        assert await ledger.outbox.latest(["ready", "sending", "ambiguous", "dead"]) == []
        assert way == "refused" or front.failed > 0


def judge(way: Way, said: list[str]) -> None:
    unmarked = [text.removeprefix(PERHAPS) for text in said]
    assert list(dict.fromkeys(unmarked)) == ["before", "answer", "and more"], said
    assert all(said.count(text) == 1 for text in ("before", "and more")), said
    assert not any("restart" in text for text in said), said
    copies = [text for text in said if "answer" in text]
    wanted = ["answer", PERHAPS + "answer"] if way in CAN_ARRIVE else ["answer"] if way in CLEAN else [PERHAPS + "answer"]
    assert copies == wanted, said


async def test_what_is_due_in_an_outage_is_said_when_it_is_over(tmp_path: Path) -> None:
    folders = {way: tmp_path / way.replace(" ", "-") for way in WAYS}
    for folder in folders.values():
        folder.mkdir()
    await asyncio.gather(*(outage(folder, way) for way, folder in folders.items()))
