"""Slash commands and buttons: what Discord waits for an answer to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from channels.discord.interactions import commands, custom_id, pressed
from channels.discord.sending import rows
from channels.messages import Button, ChatAddress
from channels.protocol import MenuEntry
from tests.channels.discord_line import ANNA, BEN, GUILD, Line
from tests.patience import PATIENCE
from tests.peers.discord import DiscordPeer
from tests.peers.discord_state import check_commands, check_components

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.peers.discord_state import Interaction

MENU = (MenuEntry(name="status", help="say how things are"), MenuEntry(name="think", help="how hard", argument="[low|high]"))
WRITE = "PUT applications/*/commands"


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as started:
        yield started


async def answered(made: Interaction) -> dict[str, Any]:
    await asyncio.wait_for(made.taken.wait(), PATIENCE)
    assert made.answer is not None
    return made.answer


async def test_a_command_with_its_argument_arrives_as_it_would_be_typed(peer: DiscordPeer) -> None:
    line = Line(peer)
    await line.channel.menu(MENU)
    async with line.running():
        made = await peer.choose(ANNA, "think", "high")
        answer = await answered(made)
    [message] = line.door.messages
    assert (message.text, message.event, message.mentioned, message.sender.id) == ("/think high", "message", True, ANNA)
    assert (message.key, message.conversation.address) == (f"i:{made.id}", f"discord:default:direct:{ANNA}")
    assert answer["data"]["flags"] == 64, "only they see it"
    assert peer.whispers == ["`/think` is on its way."]
    assert peer.said(peer.dm(ANNA)) == []


async def test_no_emoji_is_tried_under_a_command_which_is_no_message(peer: DiscordPeer) -> None:
    line = Line(peer)
    await line.channel.menu(MENU)
    async with line.running():
        await answered(await peer.choose(ANNA, "status"))
        [message] = line.door.messages
        calls = len(peer.calls)
        await line.channel.react(message.conversation, message.message_id, "👀")
    assert len(peer.calls) == calls


async def test_a_command_in_a_thread_comes_from_that_thread(peer: DiscordPeer) -> None:
    line = Line(peer, guilds={GUILD: {}})
    await line.channel.menu(MENU)
    async with line.running():
        hall = peer.guild_channel(GUILD)
        thread = peer.guild_channel(GUILD, parent=hall.id)
        await answered(await peer.choose(ANNA, "status", channel=thread))
    [message] = line.door.messages
    assert (message.conversation.id, message.conversation.thread, message.conversation.space) == (hall.id, thread.id, GUILD)


async def test_a_channel_that_is_not_read_answers_so_and_hands_nothing_on(peer: DiscordPeer) -> None:
    line = Line(peer)
    await line.channel.menu(MENU)
    async with line.running():
        await answered(await peer.choose(ANNA, "status", channel=peer.guild_channel(GUILD)))
    assert line.door.messages == []
    assert "do not read this channel" in peer.whispers[0]


async def test_nothing_is_acknowledged_that_could_not_be_stored(peer: DiscordPeer) -> None:
    line = Line(peer)
    await line.channel.menu(MENU)
    async with line.running():
        line.door.refuse = OSError("disk full")
        await answered(await peer.choose(ANNA, "status"))
        line.door.refuse = None
        await answered(await peer.choose(ANNA, "status"))
    assert ["could not be stored" in text for text in peer.whispers] == [True, False]
    assert line.door.texts == ["/status"]


class SlowDoor:
    """A house that takes its time."""

    def __init__(self, door: Any) -> None:
        self.door = door
        self.open = asyncio.Event()

    async def accept(self, messages: Any, cursor: Any = None) -> None:
        await self.open.wait()
        await self.door.accept(messages, cursor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.door, name)


async def test_a_slow_house_lets_nobody_look_at_a_hanging_command(peer: DiscordPeer) -> None:
    line = Line(peer)
    await line.channel.menu(MENU)
    slow = line.door = SlowDoor(line.door)  # type: ignore[assignment]
    async with line.running():
        await answered(await peer.choose(ANNA, "status"))
        assert "longer than usual" in peer.whispers[0]
        slow.open.set()  # type: ignore[attr-defined]
        await slow.door.until(lambda: slow.door.texts == ["/status"])  # type: ignore[attr-defined]


async def test_a_command_is_taken_while_many_messages_are_read_on(peer: DiscordPeer) -> None:
    first = Line(peer)
    async with first.running():
        await peer.say(ANNA, "before")
        await first.taken()
    await peer.say(ANNA, "missed")
    peer.fault("GET channels/*/messages", "retry_after", seconds=0.5)
    second = Line(peer, cursors=dict(first.door.cursors))
    await second.channel.menu(MENU)
    task = asyncio.ensure_future(second.channel.run(second.door))
    try:
        await peer.until(lambda: peer.identified == 2)
        await answered(await peer.choose(BEN, "status"))
        assert second.door.texts == ["/status"], "before what was missed, for Discord does not wait"
        await second.door.until(lambda: second.door.texts == ["/status", "missed"])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_answer_that_comes_too_late_changes_nothing(peer: DiscordPeer) -> None:
    line = Line(peer)
    await line.channel.menu(MENU)
    async with line.running():
        line.door.refuse = OSError("disk full")
        made = await peer.choose(ANNA, "status")
        made.late = True
        line.door.refuse = None
        await line.log.until("not acknowledged")


async def test_a_command_that_is_told_twice_is_taken_once(peer: DiscordPeer) -> None:
    line = Line(peer)
    await line.channel.menu(MENU)
    async with line.running():
        await answered(await peer.choose(ANNA, "status"))
        [session] = peer.sessions.sessions.values()
        [event] = [one["d"] for one in session.events if one["t"] == "INTERACTION_CREATE"]
        await peer.sessions.announce("INTERACTION_CREATE", event)
        await line.log.until("not acknowledged")
    assert line.door.texts == ["/status"]


async def test_the_menu_is_written_again_only_when_a_command_changed(peer: DiscordPeer) -> None:
    for entries in (MENU, MENU, (*MENU, MenuEntry(name="stop", help="stop")), MENU[:1]):
        line = Line(peer)
        await line.channel.menu(entries)
        async with line.running():
            pass
        peer.rest.commands.reverse()  # Discord keeps an order of its own
    assert peer.count(WRITE) == 3
    assert [one["name"] for one in peer.rest.commands] == ["status"]


async def test_a_menu_given_while_running_is_offered_at_once(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        await line.channel.menu(MENU)
        assert [one["name"] for one in peer.rest.commands] == ["status", "think"]


async def test_a_menu_that_is_switched_off_is_emptied(peer: DiscordPeer) -> None:
    for native in (True, False):
        line = Line(peer, commands={"native": native})
        await line.channel.menu(MENU)
        async with line.running():
            assert bool(peer.rest.commands) is native


async def test_a_menu_that_is_refused_stops_nothing(peer: DiscordPeer) -> None:
    peer.fault(WRITE, "status", code=400)
    line = Line(peer)
    await line.channel.menu(MENU)
    async with line.running():
        await peer.say(ANNA, "hello")
        await line.taken()
    assert "400" in line.log.told("the menu of commands could not be set")["error"]


names = st.text(min_size=0, max_size=40)


@example([MenuEntry(name="İ", help="")])
@given(st.lists(st.builds(MenuEntry, name=names, help=st.text(max_size=300), argument=st.text(max_size=300)), max_size=130))
def test_discord_takes_whatever_menu_it_is_given(entries: list[MenuEntry]) -> None:
    written = commands(entries)
    assert len(check_commands(written)) == len(written) <= 100


async def test_a_press_tells_the_value_and_takes_the_buttons_off_in_private(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        sent = await line.send("Shall I?", buttons=(Button(label="Yes", value="/yes"), Button(label="No", value="/no")))
        made = await peer.press(ANNA, sent, "No")
        await answered(made)
    [press] = line.door.messages
    assert (press.event, press.text, press.target, press.key) == ("button", "/no", sent, f"i:{made.id}")
    assert peer.buttons(sent) == []
    assert peer.said(peer.dm(ANNA)) == ["Shall I?"]


async def test_a_press_in_a_group_leaves_the_buttons_to_those_who_may(peer: DiscordPeer) -> None:
    hall = peer.guild_channel(GUILD)
    line = Line(peer, guilds={GUILD: {}})
    place = ChatAddress(channel="discord", kind="group", id=hall.id, space=GUILD)
    async with line.running():
        sent = await line.send("Shall I?", to=place, buttons=(Button(label="Yes", value="/yes"),))
        answer = await answered(await peer.press(BEN, sent, "Yes"))
    assert (line.door.messages[0].sender.id, line.door.messages[0].conversation) == (BEN, place)
    assert answer["type"] == 6
    assert peer.buttons(sent) == ["Yes"]


async def test_a_press_that_could_not_be_stored_can_be_repeated(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        sent = await line.send("Shall I?", buttons=(Button(label="Yes", value="/yes"),))
        line.door.refuse = OSError("disk full")
        await answered(await peer.press(ANNA, sent, "Yes"))
        line.door.refuse = None
        await answered(await peer.press(ANNA, sent, "Yes"))
    assert line.door.texts == ["/yes"]


async def test_the_buttons_of_a_slow_answer_stand_under_its_preview(peer: DiscordPeer) -> None:
    line = Line(peer)
    async with line.running():
        for text in ("Let me", "Let me think"):
            await line.channel.draft(ChatAddress(channel="discord", kind="direct", id=ANNA), "t", text)
            await line.clock.sleep(3)
        sent = await line.send("Shall I?", buttons=(Button(label="Yes", value="/yes"),))
    assert peer.said(peer.dm(ANNA)) == ["Shall I?"]
    assert peer.buttons(sent) == ["Yes"]


@given(st.lists(st.builds(Button, label=st.text(max_size=200), value=st.text(max_size=60)), max_size=40))
def test_discord_takes_whatever_buttons_it_is_given(buttons: list[Button]) -> None:
    found = check_components(rows(buttons))
    assert [pressed(one["custom_id"]) for one in found] == [one.value for one in buttons[:25]]


@given(st.integers(0, 24), st.text(max_size=60))
def test_the_value_of_a_button_comes_back_whole(number: int, value: str) -> None:
    assert pressed(custom_id(number, value)) == value


@pytest.mark.parametrize("identity", ["", "other:1", "hb:x", "hbx:1", "hb1"])
def test_the_id_of_a_foreign_button_is_no_value(identity: str) -> None:
    assert pressed(identity) is None
