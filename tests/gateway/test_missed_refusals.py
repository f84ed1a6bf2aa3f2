"""What /missed brings of replies that a platform refused for good: again in their chat, and as text in the owner's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.messages import Failure
from tests.gateway.test_telegram_house import ANNA, BEN, Home
from tests.patience import PATIENCE
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from gateway.app.gateway import Gateway
    from tests.gateway.conftest import Street

BLOCKED = "Forbidden: bot was blocked by the user"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer() as peer:
        yield Home(tmp_path, peer)


async def refused(house: Gateway, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(await house.ledger.outbox.latest(["dead"])) < count:  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.02)


async def test_the_owner_reads_what_was_refused_elsewhere_and_its_chat_gets_it_after_all(home: Home) -> None:
    async with home.lived_in(allowFrom=[ANNA, BEN]) as house:
        await home.peer.say(BEN, "hello", name="Ben")
        await home.says(1, BEN)
        home.peer.fault("sendMessage", "refuse", code=403, text=BLOCKED)
        await home.peer.say(BEN, "two", name="Ben")
        await refused(house, 1)
        await home.peer.say(ANNA, "/missed")
        await home.peer.until(lambda: any(BLOCKED in text and "re: two" in text for text in home.peer.chats.said(ANNA)))
        await home.peer.say(BEN, "/missed", name="Ben")
        said = await home.says(3, BEN)
        assert "re: two" in said
        assert any("1 message" in text for text in said)
        assert not any(BLOCKED in text for text in said)
        await home.peer.say(ANNA, "/missed")
        await home.peer.until(lambda: "There are no missed replies here." in home.peer.chats.said(ANNA))


async def test_what_a_platform_refuses_again_is_in_the_owners_answer(home: Home) -> None:
    async with home.lived_in(allowFrom=[ANNA, BEN]) as house:
        await home.peer.say(ANNA, "hello")
        await home.says(1)
        home.peer.fault("sendMessage", "refuse", code=400, text="Bad Request: something in it")
        await home.peer.say(ANNA, "two")
        await home.peer.until(lambda: any("was rejected" in text for text in home.peer.chats.said(ANNA)))
        place = (await house.ledger.outbox.latest(["dead"]))[0].conversation
        assert await house.ledger.outbox.refused(place.address) == []
        home.peer.fault("sendMessage", "refuse", code=400, text="Bad Request: something in it")
        await house.ledger.outbox.revive_expired(place.address)
        await refused(house, 1)
        await home.peer.say(ANNA, "/missed")
        await home.peer.until(
            lambda: any("Something in it):" in text and "re: two" in text for text in home.peer.chats.said(ANNA))
        )


async def test_a_message_that_no_model_answered_is_listed_with_the_reason(street: Callable[..., Street]) -> None:
    s = street()
    s.model.then(Failure(kind="bad_request", message="the model is not there"))
    async with s.house() as (house, talk):
        await talk.ask("hi")
        (row,) = await house.ledger.inbox.latest(["failed"])
    assert "the model is not there" in row.reason
