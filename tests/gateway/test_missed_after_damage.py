"""What /missed says in a chat after the ledger lost its end: the replies that may have arrived come, and what was asked is named."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.gateway.test_telegram_house import ANNA, BEN, Home
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer() as peer:
        yield Home(tmp_path, peer)


@pytest.mark.parametrize("damage", ["its log is gone", "all of it is rubbish"])
async def test_missed_brings_replies_in_doubt_with_a_mark_and_names_messages_in_doubt(home: Home, damage: str) -> None:
    async with home.lived_in(allowFrom=[ANNA, BEN]) as house:
        await home.peer.say(BEN, "hello", name="Ben")
        await home.says(1, BEN)
        house.delivery.detach("telegram", "default")
        await home.peer.say(BEN, "two", name="Ben")
        await home.peer.until(lambda: home.peer.unconfirmed == 0)
        while not await house.ledger.outbox.latest(["ready"]):  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.02)
        house.pause.begin("crashes", "I crashed.")
        await home.peer.say(BEN, "water the plants", name="Ben")
        await home.peer.until(lambda: home.peer.unconfirmed == 0)
    ledger = next(home.root.glob("home/**/ledger.sqlite"))
    if damage == "its log is gone":
        ledger.with_name("ledger.sqlite-open").write_text("of-a-log-that-is-gone")
    else:  # the copy that was made when the gateway stopped is left
        ledger.write_bytes(b"rubbish" * 4000)
    async with home.lived_in(allowFrom=[ANNA, BEN]):
        await home.peer.say(BEN, "/missed", name="Ben")
        said = (await home.says(4, BEN))[1:]
        assert any(text.endswith("\nre: two") and text.startswith("(") for text in said), said
        assert any(" that had not reached you, or may not have." in text and "• water the plants" in text for text in said), (
            said
        )
        await home.peer.say(ANNA, "/missed")
        await home.peer.until(lambda: "There are no missed replies here." in home.peer.chats.said(ANNA))
        await home.peer.say(BEN, "/missed", name="Ben")
        assert "water the plants" in (await home.says(5, BEN))[4]
