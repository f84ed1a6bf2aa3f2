"""Bad days of the platforms: calls fail with and without effect, lines are cut, events come twice and in another order."""

from __future__ import annotations

import asyncio

import pytest

from tests.channels import discord_line, slack_line, telegram_line
from tests.channels.bad_day import BAD, COUNT, HEARD, SAID, SEEDS, check_said, deliver
from tests.peers.discord import DiscordPeer
from tests.peers.mood import Mood
from tests.peers.slack import SlackPeer
from tests.peers.telegram import TelegramPeer
from tests.sampling import parametrize_some


@pytest.mark.parametrize("seed", SEEDS)
async def test_telegram_says_and_hears_all_of_it_on_a_bad_day(seed: int) -> None:
    async with TelegramPeer(mood=Mood(f"telegram {seed}", bad=BAD)) as peer:
        line = telegram_line.Line(peer)
        async with line.running():
            for number in range(COUNT):
                await peer.say(telegram_line.ANNA, HEARD[number])
                await deliver(line.channel, telegram_line.PRIVATE, SAID[number], f"k{number}")
            await line.heard(COUNT)
            await peer.until(lambda: peer.unconfirmed == 0)
        await line.channel.close()
    assert line.door.texts == HEARD
    check_said(peer.chats.said(telegram_line.ANNA), may_repeat=True)


@parametrize_some(2, "seed", SEEDS)
@pytest.mark.parametrize("http", [False, True], ids=["socket", "http"])
async def test_slack_says_and_hears_all_of_it_on_a_bad_day(seed: int, http: bool) -> None:
    async with SlackPeer(mood=Mood(f"slack {seed}", bad=BAD)) as peer:
        line = slack_line.Line(peer, http=http)
        async with line.running():
            for number in range(COUNT):
                await peer.say(slack_line.ANNA, HEARD[number])
                await deliver(line.channel, slack_line.DIRECT, SAID[number], f"k{number}")
            await line.heard(lambda: len(line.door.messages) >= COUNT)
            await line.quiet()
        await line.channel.close()
    assert sorted(line.door.texts) == HEARD, "nothing is lost or doubled; Slack promises no order"
    check_said(peer.said(peer.dm(slack_line.ANNA)), may_repeat=False)


@parametrize_some(2, "seed", SEEDS)
async def test_discord_says_and_hears_all_of_it_on_a_bad_day(seed: int) -> None:
    async with DiscordPeer(mood=Mood(f"discord {seed}", bad=BAD)) as peer:
        line = discord_line.Line(peer)
        async with line.running():
            for number in range(COUNT):
                await peer.say(discord_line.ANNA, HEARD[number])
                await deliver(line.channel, discord_line.DIRECT, SAID[number], f"k{number}")
            await line.door.until(lambda: len(line.door.messages) >= COUNT)
            await asyncio.sleep(0.1)  # what comes twice may come late
        await line.channel.close()
    assert sorted(line.door.texts) == HEARD, "nothing is lost or doubled; Discord promises no order"
    check_said(peer.said(peer.dm(discord_line.ANNA)), may_repeat=False)


async def test_no_event_is_lost_while_slack_does_not_say_who_the_app_is() -> None:
    async with SlackPeer() as peer:
        line = slack_line.Line(peer)
        async with line.running():
            peer.fault("auth.test", "status", times=100, code=504)
            await peer.say(slack_line.ANNA, "hello")
            await line.heard(lambda: bool(line.door.messages))
        await line.channel.close()
    assert line.door.texts == ["hello"]
