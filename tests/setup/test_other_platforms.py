"""homebody setup for Discord and Slack, as a person sees it, against strict peers: from the command to the first answer."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.peers import discord, slack
from tests.peers.slack import APP_TOKEN, BOT_TOKEN
from tests.setup.person import Home, answered

if TYPE_CHECKING:
    from tests.stories.terminal import Terminal

DISCORD_USER, SLACK_USER = "4242", "U0ADA"
MOST_STEPS = 6
CODE = re.compile(r"Send this code to your bot on .*?:\s+([A-Z0-9]{8,})")


def settle(home: Home, channel: str) -> None:
    home.state.mkdir(mode=0o700)
    (home.state / "homebody.yaml").write_text(f"gateway: {{port: 0}}\nchannels: {{{channel}}}\n")


async def code_of(window: Terminal) -> str:
    """Return the code that the person is asked to send."""
    assert await window.until("It is good once, for 1 hour."), window.shown[-1500:]
    found = CODE.search(window.shown)
    assert found, window.shown[-1500:]
    return found[1]


async def owners(home: Home, channel: str) -> list[tuple[str, str]]:
    code, out, _ = await home.run("pairing", "list", "--json")
    assert code == 0
    return [(one["sender"], one["role"]) for one in json.loads(out)["approved"] if one["channel"] == channel]


@pytest.mark.long
async def test_from_the_command_to_the_first_answer_on_discord(home: Home, window: Terminal) -> None:
    async with discord.DiscordPeer() as peer:
        settle(home, f"discord: {{apiRoot: '{peer.root}', gatewayUrl: '{peer.gateway}'}}")
        assert (await home.run("start"))[0] == 0
        steps = ["homebody setup discord"]
        await window.open(home, "setup", "discord")
        at = await answered(window, "Token of the bot", discord.TOKEN + "x")
        assert await window.until("is not accepted", since=at), window.shown[-1500:]
        at = await answered(window, "empty goes back", discord.TOKEN, since=window.shown.index("is not accepted"))
        steps.append("paste the token")
        assert await window.until("The bot is", since=at), window.shown[-1500:]
        await answered(window, "Do it?", "", since=at)
        steps.append("agree")
        code = await code_of(window)
        await peer.say("99", "WRONGCODEWRONGCO", name="Eve")
        await peer.until(lambda: bool(peer.said(peer.dm("99"))))
        assert "pairing code" in peer.said(peer.dm("99"))[0]
        await peer.say(DISCORD_USER, code, name="Ada")
        steps.append("send the code")
        assert await window.until("is the owner", since=at), window.shown[-1500:]
        assert await window.until_ended(60) == 0
        before = len(peer.said(peer.dm(DISCORD_USER)))
        await peer.say(DISCORD_USER, "remember that the spare key is under the blue pot", name="Ada")
        steps.append("write")
        await peer.until(lambda: len(peer.said(peer.dm(DISCORD_USER))) > before)
        assert "Noted in" in peer.said(peer.dm(DISCORD_USER))[-1]
        assert discord.TOKEN not in window.shown
        assert await owners(home, "discord") == [(DISCORD_USER, "owner")]
        assert len(steps) <= MOST_STEPS
        assert (await home.run("stop"))[0] == 0


async def test_a_missing_intent_of_discord_is_told_with_what_to_switch_on(home: Home, window: Terminal) -> None:
    async with discord.DiscordPeer(message_content_allowed=False) as peer:
        settle(home, f"discord: {{apiRoot: '{peer.root}', gatewayUrl: '{peer.gateway}'}}")
        await window.open(home, "setup", "discord")
        at = await answered(window, "Token of the bot", discord.TOKEN)
        assert await window.until("Message Content Intent", since=at), window.shown[-1500:]


async def test_from_the_command_to_the_first_answer_on_slack(home: Home, window: Terminal) -> None:
    async with slack.SlackPeer() as peer:
        settle(home, f"slack: {{apiRoot: '{peer.root}'}}")
        assert (await home.run("start"))[0] == 0
        steps = ["homebody setup slack"]
        await window.open(home, "setup", "slack")
        at = await answered(window, "Bot token", BOT_TOKEN)
        steps.append("paste the bot token")
        at = await answered(window, "App-level token", APP_TOKEN, since=at)
        steps.append("paste the app token")
        assert await window.until("The bot is", since=at), window.shown[-1500:]
        await answered(window, "Do it?", "", since=at)
        steps.append("agree")
        code = await code_of(window)
        await peer.say(SLACK_USER, code)
        steps.append("send the code")
        assert await window.until("is the owner", since=at), window.shown[-1500:]
        assert await window.until_ended(60) == 0
        before = len(peer.said(peer.dm(SLACK_USER)))
        await peer.say(SLACK_USER, "remember that the spare key is under the blue pot")
        steps.append("write")
        await peer.until(lambda: len(peer.said(peer.dm(SLACK_USER))) > before)
        assert "Noted in" in peer.said(peer.dm(SLACK_USER))[-1]
        assert BOT_TOKEN not in window.shown
        assert APP_TOKEN not in window.shown
        assert await owners(home, "slack") == [(SLACK_USER, "owner")]
        assert len(steps) <= MOST_STEPS
        assert (await home.run("stop"))[0] == 0
