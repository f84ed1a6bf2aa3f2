"""Slack's side panel for assistants, and channels in which the app is mentioned and that are not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.channels.slack_line import ANNA, DIRECT, ROOM, Line
from tests.peers.slack import BOT, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROMPTS = [{"title": "My day", "message": "What is on today?"}, {"title": "Shopping", "message": "What do we need?"}]


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        yield peer


async def opened(peer: SlackPeer, beside: str = ROOM) -> tuple[str, str]:
    """Let Anna open the side panel; return its channel and thread."""
    channel = peer.home.dm(ANNA)
    thread = peer.home.note(channel, {"user": BOT, "subtype": "assistant_app_thread", "text": "New chat"})["ts"]
    await looked(peer, "assistant_thread_started", channel, thread, beside)
    return channel, thread


async def looked(peer: SlackPeer, kind: str, channel: str, thread: str, beside: str) -> None:
    about: dict[str, Any] = {"user_id": ANNA, "context": {"channel_id": beside}, "channel_id": channel, "thread_ts": thread}
    await peer.emit({"type": kind, "assistant_thread": about, "event_ts": thread})


async def test_the_side_panel_has_suggestions_a_title_and_tells_what_is_looked_at_once(peer: SlackPeer) -> None:
    settings = {"prompts": PROMPTS, "promptsTitle": "What now?", "status": "is thinking…"}
    line = Line(peer, assistant=settings)
    async with line.running():
        _, thread = await opened(peer)
        await peer.until(lambda: bool(peer.home.prompts))
        for text in ("How is the weather?\nIn Rome", "and tomorrow?"):
            await peer.say(ANNA, text, thread=thread)
        await line.door.until(lambda: len(line.door.messages) == 2)
        await peer.until(lambda: bool(peer.home.titles))
        await line.channel.typing(line.door.messages[0].conversation)
    assert peer.home.prompts == [("What now?", ["My day", "Shopping"])]
    assert peer.home.titles == ["How is the weather?"]
    assert peer.home.statuses == ["is thinking…"]
    first, second = line.door.messages
    assert first.conversation == replace(DIRECT, thread=thread, space=first.conversation.space)
    assert (first.context, second.context) == (f"The person has the channel {ROOM} open in Slack.", "")


async def test_a_change_of_what_is_looked_at_comes_with_the_next_message(peer: SlackPeer) -> None:
    line = Line(peer, assistant={"titles": False})
    async with line.running():
        channel, thread = await opened(peer, beside="")
        await looked(peer, "assistant_thread_context_changed", channel, thread, "CGARDEN01")
        await line.quiet()
        await peer.say(ANNA, "what is this about?", thread=thread)
        await line.door.until(lambda: len(line.door.messages) == 1)
    assert line.door.messages[0].context == "The person has the channel CGARDEN01 open in Slack."
    assert (peer.home.titles, peer.home.prompts) == ([], [])


async def test_without_its_scope_the_side_panel_works_and_the_log_says_what_is_missing(peer: SlackPeer) -> None:
    peer.home.scopes.discard("assistant:write")
    line = Line(peer, assistant={"prompts": PROMPTS})
    async with line.running():
        _, thread = await opened(peer)
        await peer.until(lambda: peer.count("assistant.threads.setSuggestedPrompts") == 1)
        await peer.say(ANNA, "hello", thread=thread)
        await line.door.until(lambda: len(line.door.messages) == 1)
        await line.quiet()
    hints = [facts["hint"] for event, facts in line.log.lines if "side panel" in event]
    assert len(hints) == 1
    assert "assistant:write" in hints[0]


async def test_a_channel_that_is_not_read_is_told_once_with_the_command_that_lists_it(peer: SlackPeer) -> None:
    line = Line(peer, channels={"CKNOWN001": {}})
    async with line.running():
        for _ in range(2):
            await peer.say(ANNA, f"<@{BOT}> hello", channel=ROOM)
        await line.quiet()
    hints = [facts["hint"] for event, facts in line.log.lines if "not read" in event]
    assert hints == [f"homebody config set channels.slack.channels.{ROOM}.allow true"]
