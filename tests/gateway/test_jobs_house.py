"""Reminders in a whole gateway: the notebook sets them, people press buttons, the owner decides, the command line looks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests import programs
from tests.peers import discord, slack
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

ANNA, BEN = 42, 43
FAMILY = -1001234567890
BOT = "@homebody_test_bot"


class Home:
    """A house without a model on Telegram: Anna is its owner, Ben may speak in the group."""

    def __init__(self, root: Path, peer: TelegramPeer) -> None:
        self.root = root
        self.peer = peer

    @contextlib.asynccontextmanager
    async def lived_in(self) -> AsyncIterator[Gateway]:
        telegram = {"botToken": TOKEN, "apiRoot": self.peer.root, "pollTimeoutSeconds": 2, "pacing": False, "allowFrom": [ANNA]}
        given = {
            "agents": {"defaults": {"workspace": str(self.root / "workspace"), "userTimezone": "Europe/Berlin"}},
            "channels": {"telegram": telegram | {"groups": {FAMILY: {"allowFrom": [ANNA, BEN]}}}},
            "gateway": {"port": 0},
        }
        (self.root / "home").mkdir(exist_ok=True)
        (self.root / "home" / "homebody.json").write_text(json.dumps(given))
        opened = await Gateway.open(
            Dependencies(
                settings=Settings.model_validate(given),
                paths=Paths(self.root / "home"),
                env={},
                clock=SystemClock(),
                serving=True,
            )
        )
        running = asyncio.ensure_future(opened.run())
        try:
            yield opened
        finally:
            opened.stop()
            await running
            await opened.close()

    async def says(self, count: int, chat: int = ANNA) -> list[str]:
        await self.peer.until(lambda: len(self.peer.chats.said(chat)) >= count)
        return self.peer.chats.said(chat)

    def labels(self, chat: int = ANNA) -> list[str]:
        markup = self.peer.chats.messages[chat][-1].get("reply_markup") or {"inline_keyboard": []}
        return [button["text"] for row in markup["inline_keyboard"] for button in row]

    async def press(self, label: str, who: int = ANNA, chat: int = ANNA) -> str:
        """Press a button of the newest message, and return the answer."""
        before = len(self.peer.chats.said(chat))
        await self.peer.press(who, chat, label)
        return (await self.says(before + 1, chat))[-1]

    async def cron(self, *arguments: str) -> Any:
        """Run ``homebody cron`` and return its JSON."""
        command = [sys.executable, "-m", "gateway", "--home", self.root / "home", "cron", *arguments, "--json"]
        ran = await asyncio.to_thread(programs.run, command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer(local=True) as peer:
        peer.chats.group(FAMILY)
        yield Home(tmp_path, peer)


async def test_a_reminder_is_set_in_a_chat_and_comes_at_its_time_by_the_system_clock(home: Home) -> None:
    async with home.lived_in():
        await home.peer.say(ANNA, "remind me in 3 seconds to take the bread out")
        told = await home.says(1)
        assert told[0].startswith("⏰ Reminder “Take the bread out” (")
        assert (await home.says(2))[1] == "⏰ Take the bread out"


async def test_jobs_are_looked_at_and_changed_with_buttons(home: Home) -> None:
    async with home.lived_in():
        await home.peer.say(ANNA, "/jobs")
        assert (await home.says(1))[0].startswith("There are no jobs.")
        await home.peer.say(ANNA, "every weekday at 8 remind me to take the pills")
        await home.says(2)
        await home.peer.say(ANNA, "/jobs")
        listed = (await home.says(3))[-1]
        assert "“Take the pills” (reminder): At 08:00 on Monday through Friday, next" in listed
        assert home.labels() == ["1. Take the pills"]
        shown = await home.press("1. Take the pills")
        assert "Take the pills" in shown
        assert "It goes to your latest chat." in shown
        assert home.labels() == ["▶️ Run now", "⏸ Pause", "🗑 Remove"]
        assert "It is paused." in await home.press("⏸ Pause")
        assert home.labels() == ["▶️ Run now", "⏯ Resume", "🗑 Remove"]
        assert "It is paused." not in await home.press("⏯ Resume")
        before = len(home.peer.chats.said(ANNA))
        await home.press("▶️ Run now")
        assert "⏰ Take the pills" in (await home.says(before + 2))[before:]
        await home.peer.say(ANNA, "/jobs 1")
        await home.says(before + 3)
        assert "It cannot be brought back." in await home.press("🗑 Remove")
        assert home.labels() == ["🗑 Yes, remove it", "Keep it"]
        assert "is removed" in await home.press("🗑 Yes, remove it")
        assert await home.cron("list") == []


async def test_a_groups_reminder_needs_the_owners_yes_and_comes_into_the_group(home: Home) -> None:
    async with home.lived_in():
        await home.peer.say(ANNA, "remember that the present is hidden in the cellar")
        await home.says(1)
        await home.peer.say(ANNA, "remind me tomorrow at 9 of the present")
        await home.says(2)
        await home.peer.say(BEN, f"{BOT} remind me in 2 hours of the cake", name="Ben", chat=FAMILY)
        question = (await home.says(3))[-1]
        assert "set up the reminder “The cake”" in question
        assert "The cake" in question
        assert "asks for it" in question
        assert "✅ Once" in home.labels()
        assert "approval" in (await home.says(1, FAMILY))[-1]
        await home.press("✅ Once")
        await home.peer.until(lambda: any("Reminder “The cake”" in one for one in home.peer.chats.said(FAMILY)))
        await home.peer.say(BEN, f"/jobs{BOT}", name="Ben", chat=FAMILY)
        await home.peer.until(lambda: any("🗓 Jobs" in one for one in home.peer.chats.said(FAMILY)))
        listed = next(one for one in home.peer.chats.said(FAMILY) if "🗓 Jobs" in one)
        assert "The cake" in listed
        assert "present" not in listed
        assert home.labels(FAMILY) == [], "who may not use /jobs ID here has no buttons for it"
        (cake, present) = await home.cron("list")
        assert cake["to"] == f"telegram:default:group:{FAMILY}"
        assert cake["audience"].startswith("group ")
        assert present["to"] == "owner"
        before = len(home.peer.chats.said(FAMILY))
        await home.peer.say(BEN, f"/jobs{BOT} remove {cake['id']} yes", name="Ben", chat=FAMILY)
        assert "only my owner" in (await home.says(before + 1, FAMILY))[-1]
        await home.peer.say(ANNA, f"/jobs{BOT} {present['id']}", chat=FAMILY)
        assert "There is no job" in (await home.says(before + 2, FAMILY))[-1]
        await home.peer.say(ANNA, f"/jobs{BOT}", chat=FAMILY)
        await home.says(before + 3, FAMILY)
        assert home.labels(FAMILY) == ["1. The cake"]
        await home.peer.say(BEN, f"/new{BOT}", name="Ben", chat=FAMILY)
        assert "only my owner" in (await home.says(before + 4, FAMILY))[-1]
        assert home.labels(FAMILY) == [], "nothing was done that could be undone"
        await home.peer.say(ANNA, f"/new{BOT}", chat=FAMILY)
        await home.says(before + 5, FAMILY)
        assert home.labels(FAMILY) == ["↩️ Undo"]


async def test_the_command_line_and_the_chat_see_the_same_jobs(home: Home) -> None:
    added = await home.cron("add", "tomorrow at 9", "Water the plants", "--name", "plants")
    async with home.lived_in():
        await home.peer.say(ANNA, "my reminders")
        assert "“plants” (reminder): Once, on" in (await home.says(1))[0]
        assert (await home.cron("run", "plants"))["run"]["byHand"] is True
        assert (await home.says(2))[1] == "⏰ Water the plants"
        assert (await home.cron("log", "plants"))["runs"][0]["result"] == "done"
        changed = await home.cron("change", added["job"]["id"], "--when", "every day at 10", "--text", "Water them")
        assert changed["job"]["words"] == "At 10:00 every day"
        await home.cron("remove", "plants")
        assert await home.cron("list", "--all") == []


@contextlib.asynccontextmanager
async def lives(root: Path, channels: dict[str, Any]) -> AsyncIterator[Gateway]:
    """A house without a model on other platforms."""
    given = {"agents": {"defaults": {"workspace": str(root / "workspace")}}, "channels": channels, "gateway": {"port": 0}}
    opened = await Gateway.open(
        Dependencies(settings=Settings.model_validate(given), paths=Paths(root / "home"), env={}, serving=True)
    )
    running = asyncio.ensure_future(opened.run())
    try:
        yield opened
    finally:
        opened.stop()
        await running
        await opened.close()


async def goes_through_the_buttons(
    peer: discord.DiscordPeer | slack.SlackPeer, anna: str, confirmed: str, press: Callable[[str], Awaitable[object]]
) -> None:
    """Make a reminder, list it, and pause and remove it by buttons; ``confirmed`` is how the reminder is confirmed."""

    async def says(count: int) -> str:
        await peer.until(lambda: len(peer.said(peer.dm(anna))) == count)
        return str(peer.said(peer.dm(anna))[-1])

    async def pressed(label: str, count: int) -> str:
        await press(label)
        return await says(count)

    await peer.say(anna, "remind me tomorrow at 9 to water the plants")
    assert confirmed in await says(1)
    await peer.say(anna, "/jobs")
    assert "Water the plants" in await says(2)
    assert "It goes to your latest chat." in await pressed("1. Water the plants", 3)
    assert "It is paused." in await pressed("⏸ Pause", 4)
    assert "It cannot be brought back." in await pressed("🗑 Remove", 5)
    assert "is removed" in await pressed("🗑 Yes, remove it", 6)


async def test_jobs_have_buttons_on_discord(tmp_path: Path) -> None:
    anna = "700000000000000042"
    async with discord.DiscordPeer() as peer:
        settings = {"token": peer.token, "apiRoot": peer.root, "gatewayUrl": peer.gateway, "dm": {"allowFrom": [anna]}}
        async with lives(tmp_path, {"discord": settings}):
            await peer.until(lambda: peer.identified == 1)

            await goes_through_the_buttons(
                peer,
                anna,
                "⏰ Reminder “Water the plants”",
                lambda label: peer.press(anna, peer.dm(anna).messages[-1]["id"], label),
            )


async def test_jobs_have_buttons_on_slack(tmp_path: Path) -> None:
    anna = "UANNA0001"
    async with slack.SlackPeer() as peer:
        tokens = {"botToken": peer.bot_token, "appToken": peer.app_token, "signingSecret": peer.signing_secret}
        settings = {**tokens, "apiRoot": peer.root, "dm": {"allowFrom": [anna]}}
        async with lives(tmp_path, {"slack": settings}):
            await peer.until(lambda: peer.connections == 1)

            await goes_through_the_buttons(peer, anna, "Reminder “Water the plants”", lambda label: peer.press(anna, label))
