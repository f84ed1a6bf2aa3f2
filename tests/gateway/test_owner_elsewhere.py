"""The owner hears of a platform that takes nothing on another one, on the system clock and with two real bots."""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import SystemClock
from gateway.cli.status import wait_lines
from gateway.outbound import failed_sends
from gateway.supervision import disk_guard
from tests.gateway.test_telegram_house import ANNA, Home
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime
    from pathlib import Path

OTHER = "2000:AAExampleTokenOfTheOtherPeerOnLoopback"


class FastForward(SystemClock):
    """The system's clock, which can be set forward."""

    ahead = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[tuple[Home, TelegramPeer]]:
    async with TelegramPeer() as first, TelegramPeer(token=OTHER) as second:
        yield Home(tmp_path, first), second


async def test_what_could_not_be_delivered_is_told_on_another_account(peers: tuple[Home, TelegramPeer]) -> None:
    home, other = peers
    clock = FastForward()
    async with home.lived_in(clock=clock, accounts={"work": {"botToken": OTHER, "apiRoot": other.root}}) as house:
        await other.say(ANNA, "hello")
        await other.until(lambda: len(other.chats.said(ANNA)) == 1)
        await home.peer.say(ANNA, "hello")
        assert await home.says(1) == ["re: hello"]
        home.peer.fault("sendMessage", "status", times=1000, code=502)
        home.peer.fault("sendChatAction", "status", times=1000, code=502)
        await home.peer.say(ANNA, "are you there?")
        account = "telegram:default"
        while not house.delivery.health.failing(account):  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.02)
        clock.ahead += failed_sends.TOLD_AFTER
        await other.until(lambda: len(other.chats.said(ANNA)) == 2, seconds=60)
        told = other.chats.said(ANNA)[1]
        assert told.startswith(f"⚠️ Nothing could be sent on {account} since ")
        status = next(iter((await house_status(house)).values()))
        assert "Bad Gateway (502)" in status["sending"] or "does not answer" in status["sending"]
        home.peer.faults.clear()
        assert (await home.says(2))[1] == "(possibly repeated)\nre: are you there?"


async def test_a_bot_that_is_to_wait_for_an_hour_says_so_in_the_status(peers: tuple[Home, TelegramPeer]) -> None:
    home, _ = peers
    async with home.lived_in() as house:
        home.peer.fault("sendMessage", "retry_after", times=1, seconds=5000)
        await home.peer.say(ANNA, "are you there?")
        while not await house.ledger.outbox.firm_waits():  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.02)
        facts = (await house.status.status())["channels"]["telegram:default"]
        [wait] = facts["asksToWait"]
        assert wait["replies"] == 1
        assert str(ANNA) in wait["conversation"]
        [line] = wait_lines(facts, lambda moment: f"<{moment}>")
        assert line.startswith(f"it asked to wait: 1 reply to {wait['conversation']} waits, next attempt <{wait['until']}>")


async def test_the_owner_hears_that_the_state_was_removed_under_the_gateway(
    peers: tuple[Home, TelegramPeer], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _ = peers
    monkeypatch.setattr(disk_guard, "CHECK_EVERY", 0.2)
    async with home.lived_in() as house:
        await home.peer.say(ANNA, "hello")
        assert await home.says(1) == ["re: hello"]
        await asyncio.sleep(0.5)
        shutil.rmtree(home.root / "home/state")
        told = (await home.says(2))[1]
        assert "ledger.sqlite was removed while I run" in told
        assert "homebody backup list" in told
        assert any("was removed while I run" in notice for notice in (await house.status.status())["notices"])


async def house_status(house: object) -> dict[str, dict[str, str]]:
    found = (await house.status.status())["channels"]  # type: ignore[arg-type]
    return {name: one for name, one in found.items() if "sending" in one}
