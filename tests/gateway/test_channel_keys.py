"""What is said of a channel holds for all its accounts, what is said of an account for it alone, and both before the house's own word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from channels.common.chunking import cut
from channels.discord.channel import DiscordChannel
from channels.discord.settings import DiscordSettings
from channels.messages import ChatAddress
from channels.slack.channel import SlackChannel
from channels.slack.settings import SlackSettings
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from channels.testing.harness import FastClock
from gateway.inbound.authorise import history_limit
from gateway.settings.block_streaming import Manner, manner_of
from gateway.settings.message_settings import MB, largest_file
from gateway.settings.root import Settings
from tests.peers.phone import Village

if TYPE_CHECKING:
    from pathlib import Path

PLATFORMS = ("telegram", "discord", "slack")
VALUES = st.none() | st.integers(1, 40)


def place(channel: str, account: str) -> ChatAddress:
    return ChatAddress(channel=channel, account=account, kind="group", id="1")


def given_to(key: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {key: value}


def nearest(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


@given(st.sampled_from(PLATFORMS), VALUES, VALUES, st.integers(1, 40))
def test_what_is_said_nearest_holds_of_files_and_histories(
    channel: str, of_account: int | None, of_channel: int | None, of_house: int
) -> None:
    section = {**given_to("historyLimit", of_channel), **given_to("mediaMaxMb", of_channel)}
    own = {**given_to("historyLimit", of_account), **given_to("mediaMaxMb", of_account)}
    settings = Settings.model_validate(
        {"channels": {channel: {**section, "accounts": {"second": own}}}, "messages": {"groupChat": {"historyLimit": of_house}}}
    )
    assert history_limit(settings, place(channel, "second")) == nearest(of_account, of_channel, of_house)
    assert history_limit(settings, place(channel, "default")) == nearest(of_channel, of_house)
    assert history_limit(settings, place("terminal", "default")) == of_house
    expected = nearest(of_account, of_channel)
    assert largest_file(settings.channels, place(channel, "second")) == (None if expected is None else expected * MB)


def manner(channel: str, account: str = "default", **given: Any) -> Manner:
    settings = Settings.model_validate(given)
    return manner_of(
        settings.messages.block_streaming, settings.channels, settings.agent(settings.default_agent).blocks, channel, account
    )


def sent(channel: str, account: str = "default", **given: Any) -> str:
    return manner(channel, account, **given).sent


def defaults(**agent: Any) -> dict[str, Any]:
    return {"agents": {"defaults": agent}}


def test_blocks_are_off_until_somebody_asks_for_them() -> None:
    assert sent("telegram") == "whole"
    assert sent("telegram", **defaults(blockStreamingDefault="on")) == "written"
    assert sent("terminal", **defaults(blockStreamingDefault="on")) == "whole"
    assert sent("telegram", **defaults(blockStreamingDefault="on"), channels={"telegram": {"blockStreaming": False}}) == "whole"
    assert sent("slack", **defaults(blockStreamingDefault="on", blockStreamingBreak="message_end")) == "finished"


def test_an_account_may_differ_from_its_channel_in_blocks() -> None:
    channels = {"telegram": {"blockStreaming": True, "accounts": {"second": {"blockStreaming": False}, "third": {}}}}
    assert [sent("telegram", name, channels=channels) for name in ("default", "second", "third")] == [
        "written",
        "whole",
        "written",
    ]


def test_the_older_keys_still_ask_for_finished_answers() -> None:
    assert sent("telegram", messages={"blockStreaming": {"enabled": True}}) == "finished"
    assert sent("slack", messages={"blockStreaming": {"enabled": True, "byChannel": {"slack": False}}}) == "whole"
    assert sent("phone", messages={"blockStreaming": {"byChannel": {"phone": True}}}) == "finished"
    both = {"messages": {"blockStreaming": {"byChannel": {"slack": False}}}, "channels": {"slack": {"blockStreaming": True}}}
    assert sent("slack", **both) == "written"
    assert manner("slack", messages={"blockStreaming": {"enabled": True, "minChars": 7}}).least == 7
    asked = defaults(blockStreamingBreak="text_end")
    assert sent("slack", **asked, messages={"blockStreaming": {"enabled": True}}) == "written"


def test_blocks_are_as_long_as_the_settings_say_and_never_longer_than_a_message() -> None:
    on = {"blockStreamingDefault": "on"}
    usual = manner("telegram", **defaults(**on))
    assert (usual.limits.least, usual.limits.most, usual.resting, usual.idle) == (800, 1200, 800, 1.0)
    on_slack = manner("slack", **defaults(**on))
    assert (on_slack.limits.least, on_slack.limits.most) == (1500, 2000)
    own = manner(
        "slack", **defaults(**on, blockStreamingChunk={"minChars": 100, "maxChars": 300, "breakPreference": "sentence"})
    )
    assert (own.limits.least, own.limits.most, own.limits.prefer) == (100, 300, "sentence")
    short = manner("telegram", **defaults(**on), channels={"telegram": {"textChunkLimit": 400}})
    assert (short.limits.least, short.limits.most) == (300, 400)
    gathered = {"telegram": {"blockStreamingCoalesce": {"minChars": 50, "idleMs": 300}}}
    quick = manner("telegram", **defaults(**on, blockStreamingCoalesce={"minChars": 600}), channels=gathered)
    assert (quick.limits.least, quick.resting, quick.idle) == (800, 50, 0.3)


def test_an_agent_may_differ_from_the_others_in_blocks() -> None:
    agents = {"defaults": {"blockStreamingDefault": "on"}, "list": [{"id": "quiet", "blockStreamingDefault": "off"}]}
    assert sent("telegram", agents=agents) == "whole"


# -- each paragraph a message -----------------------------------------------------------------------------------------------

REPLY = "# Head\n\nOne.\n\nTwo.\n\n- a\n- b\n\n```\nx\n\ny\n```\n"
APART = ["# Head\n\nOne.", "Two.", "- a\n- b", "```\nx\n\ny\n```"]


def test_with_newline_each_paragraph_is_a_message_of_its_own() -> None:
    clock = FastClock()
    own = {"chunkMode": "newline", "accounts": {"second": {"chunkMode": "length"}}}
    telegram = TelegramSettings.model_validate({"botToken": "1:x", **own})
    discord = DiscordSettings.model_validate({"token": "x", **own})
    slack = SlackSettings.model_validate({"botToken": "xoxb-x", **own})
    for channel in (
        TelegramChannel(telegram, "default", clock=clock),
        DiscordChannel(discord, "default", clock=clock),
        SlackChannel(slack, "default", clock=clock),
    ):
        assert channel.chunks(REPLY) == APART
    assert len(TelegramChannel(telegram, "second", clock=clock).chunks(REPLY)) == 1


@given(
    st.lists(st.sampled_from(("# H", "One.", "- a\n- b", "```\nx\n\ny\n```", "| a |\n|---|\n| b |", "> q", "[a]: http://b")))
)
def test_paragraphs_apart_are_all_there_and_in_their_order(parts: list[str]) -> None:
    reply = "\n\n".join(parts)
    together, apart = cut(reply, 4000), cut(reply, 4000, apart=True)
    assert "".join("".join(apart).split()).replace("[a]:http://b", "") == "".join("".join(together).split()).replace(
        "[a]:http://b", ""
    )


# -- over the whole house ---------------------------------------------------------------------------------------------------


async def test_a_file_larger_than_the_channel_takes_is_neither_taken_nor_sent(tmp_path: Path) -> None:
    v = Village(tmp_path, channels={"plugins": {"phone": {"enabled": False, "mediaMaxMb": 0.001}}})
    from agent.messages import ToolCall

    v.model.then([ToolCall(id="c", name="send_file", arguments={"path": "large.txt"})], "Done.")
    async with v.house() as (house, phone):
        (v.workspace / "large.txt").write_bytes(b"x" * 2000)
        await phone.say("look", attachments=(phone.attach(b"y" * 2000, "their.txt"),))
        await phone.until(lambda: "Done." in phone.texts())
        await house.delivery.settled()
        assert "could not be downloaded" in v.seen()
        assert "large" in v.seen()
        assert phone.enclosed == {}


async def test_a_group_keeps_as_many_messages_as_its_channel_says(tmp_path: Path) -> None:
    v = Village(tmp_path, channels={"plugins": {"phone": {"enabled": False, "historyLimit": 1}}})
    v.model.then("Yes.")
    async with v.house() as (_, phone):
        for text in ("the first", "the second"):
            await phone.say(text, group="g", mentioned=False)
        await phone.say("go", group="g")
        await phone.until(lambda: "Yes." in phone.texts())
        assert "the second" in v.seen()
        assert "the first" not in v.seen()
