"""What Slack, Matrix and Discord tell of a group that the bot was added to, and a channel of Slack's own settings in a whole house."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.messages import ChatAddress
from gateway.routing.group_settings import commands_that_allow, setting_of
from tests.channels.discord_line import ANNA as DISCORD_ANNA
from tests.channels.discord_line import GUILD, Line
from tests.channels.matrix_stage import ANNA as MATRIX_ANNA
from tests.channels.matrix_stage import BEN as MATRIX_BEN
from tests.channels.test_matrix import House
from tests.gateway.test_slack_house import ANNA, BEN, BOT, ROOM, Home
from tests.peers.discord import DiscordPeer
from tests.peers.matrix import MatrixPeer
from tests.peers.mood import CALM
from tests.peers.slack import SlackPeer

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_channel_of_slack_is_welcomed_and_switched(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        home = Home(tmp_path, peer)
        async with home.lived_in(channels={ROOM: {"users": ["*"]}}):
            await peer.until(lambda: peer.connections == 1)
            await peer.say(BEN, "has joined", channel=ROOM, subtype="channel_join")
            await peer.say(BOT, "has joined the channel", channel=ROOM, subtype="channel_join", inviter=ANNA)
            [_, welcome] = await home.says(2, ROOM)  # the peer counts the notice, too
            await peer.say(ANNA, f"<@{BOT}> /activation always", channel=ROOM)
            assert (await home.says(3, ROOM))[2].startswith("Done. Activation here is `always`, chosen by ")
            await peer.say(BEN, "no name", channel=ROOM)
            assert (await home.says(4, ROOM))[3] == "re: no name"
            await peer.say(BEN, f"<@{BOT}> /activation off", channel=ROOM)
            assert (await home.says(5, ROOM))[4].startswith("Only my owner or an administrator")
    assert welcome.startswith("Hello, I am **Homebody**. Mention me or reply to one of my messages, and I answer.")


async def test_a_room_of_matrix_is_told_of_and_a_private_chat_is_not(tmp_path: Path) -> None:
    async with MatrixPeer(mood=CALM) as peer:
        house = House(peer, tmp_path)
        async with house.running():
            room = peer.home.made(MATRIX_ANNA, MATRIX_BEN, invite=True, name="Kitchen")
            private = peer.home.made(MATRIX_ANNA, direct=True, invite=True)
            await peer.say(room, MATRIX_ANNA, "hello")
            await peer.say(private, MATRIX_ANNA, "psst")
            await house.sink.until(lambda: {"hello", "psst"} <= set(house.sink.texts), "both arrived")
        [(group, key, title, by)] = set(house.sink.added_to)
    assert (group.kind, group.id, title, by) == ("group", room.id, "Kitchen", "Anna")
    assert key.startswith("joined:$")


async def test_a_server_of_discord_is_told_of_when_the_bot_came_just_now() -> None:
    async with DiscordPeer() as peer:
        hall, other = peer.guild_channel(GUILD), "800000000000000099"
        news = peer.guild_channel(other)
        line = Line(peer, guilds={GUILD: {}})
        peer.system = {GUILD: hall.id, other: news.id}
        peer.joined[GUILD] = line.clock.now().isoformat()
        async with line.running():
            await peer.say(DISCORD_ANNA, "now", channel=hall)
            await line.taken()
    assert {(one[0].id, one[0].space, one[2]) for one in line.door.added_to} == {(hall.id, GUILD, "Home")}


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (("telegram", "default", "-5", None), "channels.telegram.groups.-5.enabled true"),
        (("telegram", "work", "-5", None), "channels.telegram.accounts.work.groups.-5.enabled true"),
        (("discord", "default", "81", "80"), "channels.discord.guilds.80.channels.81.allow true"),
        (("slack", "default", "C1", None), "channels.slack.channels.C1.allow true"),
        (("matrix", "default", "!a:b.org", None), """'channels.matrix.groups["!a:b.org"].allow' true"""),
        (("pigeon", "default", "roof", None), "channels.plugins.pigeon.groups.roof.allow true"),
    ],
)
def test_the_owner_is_told_the_setting_that_allows_a_group(group: tuple[str, str, str, str | None], told: str) -> None:
    channel, account, identity, space = group
    assert setting_of(ChatAddress(channel=channel, account=account, kind="group", id=identity, space=space)) == told


@pytest.mark.parametrize(
    ("speakers", "owners", "listed", "told"),
    [
        ((), ["UANNA"], False, ["""channels.slack.channels.C1.users '["UANNA"]'"""]),
        ((), ["UANNA"], True, ["channels.slack.channels.C1.allow true", """channels.slack.channels.C1.users '["UANNA"]'"""]),
        (("UBEN",), ["UANNA"], False, ["channels.slack.channels.C1.allow true"]),
        (("UANNA",), ["UANNA"], False, ["channels.slack.channels.C1.allow true"]),
        ((), [], False, ["channels.slack.channels.C1.allow true"]),
    ],
)
def test_the_owner_is_listed_for_a_group_only_where_no_list_says_who_may_speak(
    speakers: tuple[str, ...], owners: list[str], *, listed: bool, told: list[str]
) -> None:
    group = ChatAddress(channel="slack", kind="group", id="C1")
    commands = commands_that_allow(group, speakers=speakers, owners=owners, listed=listed)
    assert list(commands) == [f"homebody config set {one}" for one in told]


@pytest.mark.parametrize(
    ("channel", "identity", "space", "key"),
    [
        ("telegram", "-5", None, "channels.telegram.groups.-5.allowFrom"),
        ("discord", "81", "80", "channels.discord.guilds.80.channels.81.users"),
        ("matrix", "!a:b.org", None, """'channels.matrix.groups["!a:b.org"].users'"""),
        ("pigeon", "roof", None, "channels.plugins.pigeon.groups.roof.users"),
    ],
)
def test_the_owner_is_listed_by_the_settings_of_each_platform(channel: str, identity: str, space: str | None, key: str) -> None:
    group = ChatAddress(channel=channel, kind="group", id=identity, space=space)
    assert commands_that_allow(group, speakers=(), owners=["7"]) == (f"""homebody config set {key} '["7"]'""",)
