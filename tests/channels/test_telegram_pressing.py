"""What people do without writing: pressing buttons, putting emoji under messages, choosing from the menu."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from telegram.constants import ReactionEmoji

from channels.messages import Button
from channels.protocol import MenuEntry
from channels.telegram.bot_actions import taken
from channels.telegram.update_loop import named
from tests.channels.telegram_line import ANNA, BEN, FAMILY, GROUP, PRIVATE, opened
from tests.peers.telegram_methods import REACTIONS

YES_NO = (Button(label="Yes", value="/yes"), Button(label="No", value="/no"))
STATUS = (MenuEntry(name="status", help="say how things are"),)


def buttons_under(message: dict[str, Any] | None) -> list[list[str]]:
    assert message is not None
    return [[button["text"] for button in row] for row in message.get("reply_markup", {}).get("inline_keyboard", [])]


async def test_a_press_is_taken_before_the_person_is_told_so_and_the_buttons_go() -> None:
    async with opened() as line:
        asked = await line.send("Shall I?", buttons=YES_NO)
        line.door.refuse = OSError("disk full")
        async with line.running():
            await line.peer.press(ANNA, ANNA, "No", wait=False)
            await line.door.until(lambda: line.door.refused == 2)
            assert line.peer.count("answerCallbackQuery") == 0
            line.door.refuse = None
            [press] = await line.heard()
            await line.peer.until(lambda: line.peer.count("editMessageReplyMarkup") == 1)
    assert (press.event, press.text, press.target, press.conversation) == ("button", "/no", asked, PRIVATE)
    assert (press.sender.id, press.mentioned, press.alias) == (str(ANNA), True, "b:1000:1")
    assert press.message_id == asked
    assert press.at.tzinfo is not None
    assert buttons_under(line.peer.chats.find(ANNA, int(asked))) == []


async def test_in_a_private_chat_nobody_else_presses_writes_or_reacts() -> None:
    async with opened() as line:
        asked = int(await line.send("Shall I?", buttons=YES_NO))
        async with line.listening():
            ben = {"id": BEN, "is_bot": False, "first_name": "Ben"}
            chat = {"id": ANNA, "type": "private", "first_name": "Anna"}
            message = {"message_id": 900, "date": 1_790_000_000, "chat": chat, "from": ben, "text": "/think high"}
            under = {**message, "message_id": asked, "from": {"id": 1000, "is_bot": True, "first_name": "Homebody"}}
            await line.peer.inject(
                "callback_query", {"id": "1", "from": ben, "chat_instance": "1", "data": "/yes", "message": under}
            )
            await line.peer.inject("message", message)
            put = {"old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}]}
            await line.peer.inject(
                "message_reaction", {"chat": chat, "message_id": asked, "user": ben, "date": 1_790_000_000, **put}
            )
            await line.peer.say(ANNA, "mine")
            assert [one.text for one in await line.heard()] == ["mine"]
        assert line.peer.count("editMessageReplyMarkup") == 0


@pytest.mark.parametrize(("presser", "left"), [(ANNA, []), (BEN, [["Yes", "No"]])])
async def test_in_a_group_only_those_who_may_speak_take_the_buttons_off(presser: int, left: list[list[str]]) -> None:
    async with opened(groups={FAMILY: {"allowFrom": [ANNA], "topics": {7: {}}}}) as line:
        line.peer.chats.group(FAMILY, topics=(7,))
        place = replace(GROUP, thread="7")
        asked = await line.send("Shall I?", place, buttons=YES_NO)
        async with line.running():
            await line.peer.press(presser, FAMILY, "Yes")
            [press] = await line.heard()
            if not left:
                await line.peer.until(lambda: line.peer.count("editMessageReplyMarkup") == 1)
            await line.peer.say(ANNA, "next", chat=FAMILY)
            await line.heard(2)
    assert (press.conversation, press.sender.id) == (place, str(presser))
    assert buttons_under(line.peer.chats.find(FAMILY, int(asked))) == left


async def test_trouble_with_the_courtesies_is_nobodys() -> None:
    async with opened() as line:
        await line.send("Shall I?", buttons=YES_NO)
        line.peer.fault("answerCallbackQuery", "refuse", code=400, text="Bad Request: query is too old")
        async with line.running():
            await line.peer.press(ANNA, ANNA, "Yes", wait=False)
            await line.heard()
            await line.peer.until(lambda: line.peer.count("answerCallbackQuery") == 1)
            await line.peer.say(ANNA, "still there?")
            await line.heard(2)


async def test_short_labels_stand_beside_each_other_and_long_ones_below() -> None:
    long = Button(label="A label that needs its room", value="/long")
    async with opened() as line:
        first = await line.send("one", buttons=(*YES_NO, *YES_NO))
        second = await line.send("two", buttons=(*YES_NO, long))
        third = await line.send(
            "three", buttons=(Button(label="Fits", value="x" * 64), Button(label="Does not", value="x" * 65))
        )
    found = [buttons_under(line.peer.chats.find(ANNA, int(one))) for one in (first, second, third)]
    assert found[0] == [["Yes", "No", "Yes"], ["No"]]
    assert found[1] == [["Yes"], ["No"], ["A label that needs its room"]]
    assert found[2] == [["Fits"]]


async def test_buttons_come_with_the_last_edit_of_an_answer() -> None:
    async with opened(delivery="edit") as line:
        asked = await line.send("Shall I?", buttons=YES_NO)
    assert buttons_under(line.peer.chats.find(ANNA, int(asked))) == [["Yes", "No"]]


@pytest.mark.parametrize(("wanted", "heard"), [("off", []), ("own", ["👍"]), ("all", ["👍", "🔥"])])
async def test_reactions_in_a_group_are_heard_as_the_settings_say(wanted: str, heard: list[str]) -> None:
    async with opened(reactionNotifications=wanted) as line:
        line.peer.chats.group(FAMILY)
        mine = await line.send("done", GROUP)
        async with line.listening():
            theirs = await line.peer.say(BEN, "nice", chat=FAMILY, name="Ben")
            await line.heard()
            await line.peer.react(ANNA, FAMILY, int(mine), "👍")
            await line.peer.react(ANNA, FAMILY, theirs, "🔥")
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    reactions = [one for one in line.door.messages if one.event == "reaction"]
    assert [one.text for one in reactions] == heard
    assert [one.mentioned for one in reactions] == [True, False][: len(heard)]
    assert all(one.message_id == one.target for one in reactions)


@pytest.mark.parametrize(
    ("before", "after", "heard"),
    [
        ((), ("👍",), [("👍", "")]),
        (("👍",), ("🔥",), [("🔥", "👍")]),
        (("👍",), (), [("", "👍")]),
        (("👍",), ("👍", "🎉"), [("🎉", "")]),
        (("👍",), ("👍",), []),
    ],
)
async def test_what_was_put_there_and_taken_away_is_told(
    before: tuple[str, ...], after: tuple[str, ...], heard: list[tuple[str, str]]
) -> None:
    async with opened() as line:
        mine = await line.send("done")
        async with line.listening():
            await line.peer.react(ANNA, ANNA, int(mine), *after, before=before)
            await line.peer.say(ANNA, "that was it")
            await line.door.until(lambda: "that was it" in line.door.texts)
    assert [(one.text, one.former) for one in line.door.messages] == [*heard, ("that was it", "")]


@pytest.mark.parametrize(("allowed", "heard"), [(False, []), (True, ["👍"])])
async def test_bots_reactions_are_heard_only_where_the_settings_allow_it(allowed: bool, heard: list[str]) -> None:
    async with opened(allowBots=allowed) as line:
        line.peer.chats.group(FAMILY)
        mine = await line.send("done", GROUP)
        async with line.listening():
            await line.peer.react(77, FAMILY, int(mine), "👍", bot=True)
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.texts == heard
    assert all(one.from_bot for one in line.door.messages)


async def test_a_reaction_is_told_in_the_topic_of_its_message() -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY, topics=(7,))
        mine = await line.send("done", replace(GROUP, thread="7"))
        async with line.listening():
            await line.peer.react(ANNA, FAMILY, int(mine), "👍")
            await line.peer.react(ANNA, FAMILY, 99999, "👎")
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert [(one.text, one.conversation.thread) for one in line.door.messages] == [("👍", "7")]


def test_every_emoji_becomes_one_that_telegram_takes() -> None:
    for emoji in [*map(str, ReactionEmoji), "✅", "❌", "⏳", "⚠️", "❤️", "🦊", "", "x", "👍🏽"]:
        assert taken(emoji).replace("\ufe0f", "") in REACTIONS
    assert [taken(one) for one in ("👍", "✅", "🦊", "❤️")] == ["👍", "👌", "👀", "❤"]


async def test_a_group_that_allows_no_reactions_shows_none() -> None:
    async with opened() as line:
        message = await line.peer.say(ANNA, "hi")
        line.peer.fault("setMessageReaction", "refuse", code=400, text="Bad Request: REACTION_INVALID")
        await line.channel.react(PRIVATE, str(message), "👀")
        line.peer.fault("setMessageReaction", "status")
        await line.channel.react(PRIVATE, str(message), "👀")
        await line.channel.react(PRIVATE, str(message), "👀")
        assert line.peer.chats.reactions[ANNA, message] == ["👀"]
        await line.channel.react(replace(PRIVATE, id="abc"), "x", "👀")


def test_names_are_made_into_what_telegram_takes() -> None:
    entries = [MenuEntry(name=name, help="h") for name in ("Status", "new-session", "new_session", "/undo", "…", "x" * 40)]
    assert list(named(entries)) == ["status", "new_session", "undo", "x" * 32]
    assert len(named([MenuEntry(name=f"c{number}", help="h") for number in range(150)])) == 100


async def test_a_command_with_a_changed_name_arrives_under_its_own() -> None:
    async with opened() as line:
        await line.channel.menu([MenuEntry(name="new-session", help="begin anew", argument="[model]")])
        async with line.running():
            await line.peer.until(lambda: line.peer.count("setMyCommands") == 2)
            await line.peer.say(ANNA, "/new_session opus")
            await line.peer.say(ANNA, "/newer_session opus")
            await line.heard(2)
    assert line.door.texts == ["/new-session opus", "/newer_session opus"]
    assert line.peer.chats.menus["all_group_chats"] == [{"command": "new_session", "description": "begin anew [model]"}]


OWN = [
    {"command": "/Backup", "description": "Back everything up", "text": "Run the backup and say how it went."},
    {"command": "trip", "description": "Plan a trip", "skill": "travel"},
    {"command": "stats", "description": "Say how the week was"},
    {"command": "status", "description": "Not this one"},
]


async def test_commands_of_the_owners_own_are_in_the_menu_and_say_what_the_settings_say() -> None:
    async with opened(customCommands=OWN) as line:
        line.peer.chats.group(FAMILY)
        await line.channel.menu(STATUS)
        async with line.running():
            await line.peer.until(lambda: line.peer.count("setMyCommands") == 2)
            for said in ("/backup", "/trip to Rome", "/stats@homebody_test_bot of May", "/status", "/stat"):
                await line.peer.say(ANNA, said)
            await line.peer.say(ANNA, "/backup now", chat=FAMILY)
            await line.heard(6)
    assert line.door.texts == [
        "Run the backup and say how it went.",
        "Use the skill travel.\nto Rome",
        "Say how the week was\nof May",
        "/status",
        "/stat",
        "Run the backup and say how it went.\nnow",
    ]
    assert all(one.mentioned for one in line.door.messages)
    shown = [one["command"] for one in line.peer.chats.menus["all_private_chats"]]
    assert shown == ["status", "backup", "trip", "stats"]
    assert [one for one in line.log.events if "left out" in one] == [
        "a command of the settings was left out {'command': 'status', 'why': 'its name is taken', 'account': 'default'}"
    ]


async def test_a_changed_menu_is_set_and_an_unchanged_one_is_not() -> None:
    async with opened() as line:
        for entries, changes in ((STATUS, 2), (STATUS, 2), ((*STATUS, MenuEntry(name="undo", help="go back")), 4)):
            await line.channel.menu(entries)
            asked = line.peer.count("getMyCommands")
            async with line.running():
                await line.peer.until(lambda asked=asked: line.peer.count("getMyCommands") == asked + 2)
                await line.peer.until(lambda changes=changes: line.peer.count("setMyCommands") >= changes)
            assert line.peer.count("setMyCommands") == changes


@pytest.mark.parametrize("kind", ["status", "retry_after", "drop_before"])
async def test_without_its_menu_the_bot_works_all_the_same(kind: str) -> None:
    async with opened() as line:
        await line.channel.menu(STATUS)
        line.peer.fault("getMyCommands", kind, seconds=480)
        async with line.running():
            await line.peer.say(ANNA, "/status")
            await line.heard()
            await line.peer.until(lambda: line.peer.count("getMyCommands") == 1)
    assert line.door.texts == ["/status"]
    assert line.peer.count("setMyCommands") == 0
