"""What Slack refuses, and what its owner is told to do about it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import ChannelBroken, NotSent
from channels.messages import Button, ChatAddress
from channels.platform import ANYBODY
from channels.slack import policy as slack_policy
from channels.slack.block_kit import letter
from channels.slack.reactions import emoji_of, name_of
from channels.slack.settings import SlackSettings
from tests.channels.slack_line import ANNA, DIRECT, POST, ROOM, Line, shown
from tests.patience import PATIENCE
from tests.peers.slack import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackPeer
from tests.peers.slack_state import Workspace
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HERE = ChatAddress(channel="slack", kind="group", id=ROOM)


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as started:
        yield started


@parametrize_some(
    5,
    ("code", "permanent", "told", "hint"),
    [
        ("not_in_channel", True, "not in this channel", "/invite"),
        ("channel_not_found", True, "no such channel", "/invite"),
        ("is_archived", True, "archived", "unarchive"),
        ("restricted_action", True, "only some people", "admin"),
        ("restricted_action_thread_only_channel", True, "threads only", "replyToMode all"),
        ("messages_tab_disabled", True, "in private", "Messages Tab"),
        ("user_disabled", True, "closed", "dm.allowFrom"),
        ("missing_scope", False, "lacks the scope", "Bot Token Scopes"),
        ("token_revoked", False, "taken back", "homebody config set channels.slack.botToken"),
        ("invalid_auth", False, "not known", "homebody config set channels.slack.botToken"),
        ("something_new", True, "something_new", ""),
    ],
)
async def test_a_refusal_says_what_is_wrong_and_what_mends_it(
    peer: SlackPeer, code: str, *, permanent: bool, told: str, hint: str
) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(POST, "error", text=code)
        with pytest.raises(NotSent, match=told) as caught:
            await line.send("hello?")
    assert (caught.value.permanent, hint in caught.value.hint) == (permanent, True)
    assert peer.count(POST) == 1


async def test_what_slack_itself_says_of_channels_is_told_apart(peer: SlackPeer) -> None:
    line = Line(peer)
    peer.messages.update({ROOM: [], "COUT00001": [], "COLD00001": []})
    peer.home.outside.add("COUT00001")
    peer.home.archived.add("COLD00001")
    peer.home.strangers.add("UNOBODY01")
    async with line.running():
        for place, told in (("CNONE0001", "no such channel"), ("COUT00001", "not in this"), ("COLD00001", "archived")):
            with pytest.raises(NotSent, match=told):
                await line.send("hello?", to=ChatAddress(channel="slack", kind="group", id=place))
        with pytest.raises(NotSent, match="no such person"):
            await line.send("hello?", to=ChatAddress(channel="slack", kind="direct", id="UNOBODY01"))
        await line.send("hello!", to=HERE)
    assert peer.said(ROOM) == ["hello!"]


async def test_slack_is_never_asked_again_before_the_wait_is_over(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        peer.messages[ROOM] = []
        peer.fault(POST, "retry_after", seconds=17)
        with pytest.raises(NotSent) as caught:
            await line.send("patience")
        slept = len(line.clock.slept)
        await line.send("elsewhere", to=HERE)
        assert line.clock.slept[slept:] == [], "another channel has a limit of its own"
        await line.send("patience", attempt=2)
        assert line.clock.slept[slept:] == [17]
        peer.fault(POST, "retry_after", seconds=600)
        with pytest.raises(NotSent):
            await line.send("a long time", key="k2")
        calls = peer.count(POST)
        with pytest.raises(NotSent) as later:
            await line.send("a long time", key="k2", attempt=2)
        assert peer.count(POST) == calls
    assert (caught.value.retry_after, later.value.retry_after) == (17, 600)
    assert peer.said(peer.dm(ANNA)) == ["patience"]


async def test_a_token_that_is_taken_back_while_sending_ends_the_channel(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running() as task:
        peer.bot_token = "xoxb-another"
        with pytest.raises(NotSent, match="invalid_auth"):
            await line.send("hello?")
        with pytest.raises(ChannelBroken, match="botToken is not accepted"):
            await asyncio.wait_for(task, PATIENCE)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"type": "app_uninstalled"}, "the app was removed"),
        ({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": ["UBOT00001"]}}, "taken back"),
    ],
)
async def test_slack_telling_that_the_app_is_gone_ends_the_channel(peer: SlackPeer, event: dict[str, Any], told: str) -> None:
    line = Line(peer)
    async with line.running() as task:
        await peer.emit({"type": "tokens_revoked", "tokens": {"oauth": ["U1"], "bot": []}, "event_ts": "1.1"})
        await line.quiet()
        assert not task.done()
        await peer.emit({**event, "event_ts": "1.2"})
        with pytest.raises(ChannelBroken, match=told):
            await asyncio.wait_for(task, PATIENCE)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"botToken": APP_TOKEN, "appToken": BOT_TOKEN}, "are swapped"),
        ({"botToken": "xoxp-1-2"}, "a user token"),
        ({"botToken": "xoxe.xoxb-1"}, "a token that rotates"),
        ({"botToken": "abc"}, "none that is known"),
        ({"appToken": "xoxb-1"}, "appToken is another kind of token .a bot token"),
        ({"appToken": None}, "appToken is not set"),
        ({"mode": "http"}, "signingSecret is not set"),
        ({"mode": "http", "signingSecret": "xapp-12345678901234567890"}, "signingSecret is another kind of token"),
    ],
)
async def test_a_wrong_kind_of_token_is_told_before_anybody_is_asked(
    peer: SlackPeer, settings: dict[str, Any], told: str
) -> None:
    line = Line(peer, **settings)
    for attempt in (line.channel.run(line.door), line.channel.probe()):
        with pytest.raises(ChannelBroken, match=told):
            await attempt
    assert peer.calls == []


async def test_another_program_on_the_same_token_is_told(peer: SlackPeer) -> None:
    alone = Line(peer)
    async with alone.running():
        peer.others = 1  # its own former one, of which Slack does not know yet that it is gone
        await peer.refresh()
        await peer.until(lambda: peer.connections == 2)
        await peer.say(ANNA, "hi")
        await alone.quiet()
    assert not alone.log.told("another connection")
    peer.others = 1
    shared = Line(peer)
    async with shared.running():
        assert shared.log.told("another connection")


@pytest.mark.parametrize("markdown", [True, False])
async def test_a_server_that_knows_no_markdown_is_written_to_in_its_own_notation(peer: SlackPeer, *, markdown: bool) -> None:
    peer.home.markdown = markdown
    line = Line(peer)
    async with line.running():
        await line.send("**bold** <!here>")
        await line.send("**again**", key="k2")
        await line.send("**press**", key="k3", buttons=(Button(label="x", value="1"),))
    expected = ["**bold** <\u200b!here>", "**again**"] if markdown else ["*bold* &lt;!here&gt;", "*again*"]
    assert peer.said(peer.dm(ANNA))[:2] == expected
    assert peer.count(POST) == (3 if markdown else 4), "what it does not know is tried once"
    assert peer.pings == []


async def test_markdown_that_slack_cannot_read_is_said_in_its_own_notation(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(POST, "error", text="invalid_blocks")
        await line.send("**bold**", buttons=(Button(label="x", value="1"),))
        await line.send("**next**", key="k2")
    assert peer.said(peer.dm(ANNA)) == ["*bold*", "**next**"]


async def test_every_length_of_a_reply_is_one_that_slack_takes(peer: SlackPeer) -> None:
    text = "\n\n".join(f"**Part {number}** & `<code>` " + "a long sentence about it. " * 60 for number in range(12))
    line = Line(peer)
    pieces = line.channel.chunks(text)
    home = Workspace()
    for piece in pieces:
        for buttons in ((), (Button(label="y" * 200, value="é" * 30),)):
            for as_markdown in (True, False):
                home.spoken(letter(piece, buttons, as_markdown=as_markdown), 4000)
    assert len(pieces) > 2


@given(st.text(max_size=3000), st.lists(st.text(max_size=100), min_size=1, max_size=30))
def test_any_buttons_are_ones_that_slack_takes(text: str, labels: list[str]) -> None:
    buttons = tuple(Button(label=label, value=str(number)) for number, label in enumerate(labels))
    home = Workspace()
    for as_markdown in (True, False):
        home.spoken(letter(text + "x", buttons, as_markdown=as_markdown))
    assert home.pings == []


async def test_an_emoji_without_a_name_is_left_out_and_one_that_is_there_is_no_trouble(peer: SlackPeer) -> None:
    line = Line(peer)
    async with line.running():
        stamp = await peer.say(ANNA, "hi")
        await line.quiet()
        await line.channel.react(DIRECT, stamp, "🪬")
        assert peer.count("reactions.add") == 0
        await line.channel.react(DIRECT, stamp, "👀")
        await line.channel.react(DIRECT, stamp, "👀")
        await line.channel.react(DIRECT, stamp, ":party-parrot:")
        peer.scopes.discard("reactions:write")
        await line.channel.react(DIRECT, stamp, "✅")
    message = next(one for one in peer.messages[peer.dm(ANNA)] if one["ts"] == stamp)
    assert {name: len(users) for name, users in message["reactions"].items()} == {"eyes": 0, "party-parrot": 1}
    assert line.log.told("a reaction was not shown")
    assert shown(peer) == []


@pytest.mark.parametrize(
    ("name", "emoji"), [("+1", "👍"), ("thumbsup", "👍"), ("heart", "❤"), ("wave::skin-tone-4", "👋"), ("blob", ":blob:")]
)
def test_names_of_emoji_are_read(name: str, emoji: str) -> None:
    assert emoji_of(name) == emoji


@pytest.mark.parametrize(
    ("emoji", "name"),
    [("👍🏿", "+1"), ("❤️", "heart"), ("❤", "heart"), (":blob:", "blob"), ("🤷‍♂️", "man-shrugging"), ("?", None), ("", None)],
)
def test_emoji_are_named(emoji: str, name: str | None) -> None:
    assert name_of(emoji) == name


@pytest.mark.parametrize("emoji", ["👀", "✅", "❌", "⏳", "🤔", "🛑", "🔥", "🎉", "👎", "📝", "✍️", "🙏"])
def test_common_emoji_go_there_and_back(emoji: str) -> None:
    name = name_of(emoji)
    assert name is not None
    assert emoji_of(name) == emoji.replace("\ufe0f", "")


def test_one_channel_that_hears_bots_lets_their_words_to_the_rules_of_who_may_speak() -> None:
    deaf = SlackSettings.model_validate({"channels": {ROOM: {}}})
    one = SlackSettings.model_validate({"channels": {ROOM: {"allowBots": True}}})
    every = SlackSettings.model_validate({"allowBots": True, "channels": {ROOM: {"allowBots": False}}})
    assert [slack_policy(found).bots for found in (deaf, one, every)] == [False, True, True]
    assert [found.hears_bots(ROOM) for found in (deaf, one, every)] == [False, True, False]
    assert slack_policy(one).rules[ANYBODY][ROOM].users is None


def test_the_signing_secret_is_an_accounts_own_and_never_shown() -> None:
    given = {
        "botToken": "xoxb-1",
        "signingSecret": SIGNING_SECRET,
        "mode": "http",
        "accounts": {"work": {"botToken": "xoxb-2"}},
    }
    found = SlackSettings.model_validate(given)
    assert found.account("default").secret("signing_secret") == SIGNING_SECRET
    with pytest.raises(ChannelBroken, match="signingSecret is not set"):
        found.account("work").check()
    assert SIGNING_SECRET not in repr(found)
    assert SlackSettings.model_validate({"signingSecret": SIGNING_SECRET}).names() == ["default"]
