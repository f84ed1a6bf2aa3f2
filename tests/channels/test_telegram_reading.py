"""What a Telegram message can be besides plain text, as the house reads it."""

from __future__ import annotations

import itertools
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telegram import Message

from channels.telegram.bot_mentions import Me, Written
from channels.telegram.recent_messages import CUT_AT, MESSAGES, MOST_PARTS, Pastes, SeenMessages
from tests.channels.telegram_line import ANNA, FAMILY, opened

BERLIN = {"latitude": 52.52, "longitude": 13.405}


async def test_an_edit_names_the_message_and_has_keys_of_its_own() -> None:
    async with opened() as line:
        first = await line.peer.say(ANNA, "good mourning")
        await line.peer.edit(ANNA, first, "good morning")
        async with line.running():
            before, after = await line.heard(2)
    date = int(before.at.timestamp())
    assert (after.event, after.target, after.text) == ("edited", str(first), "good morning")
    assert before.alias == f"m:1000:{ANNA}:{first}:0"
    assert after.alias == f"m:1000:{ANNA}:{first}:{date + 7}"


async def test_the_parts_of_an_album_share_a_name() -> None:
    async with opened() as line:
        for number in range(3):
            await line.peer.attach(ANNA, "photo", b"\xff\xd8\xff", text="the garden" if not number else "", media_group_id="99")
        await line.peer.attach(ANNA, "photo", b"\xff\xd8\xff")
        async with line.running():
            found = await line.heard(4)
    assert [one.part_of for one in found] == ["album:99"] * 3 + [None]
    assert [one.text for one in found] == ["the garden", "", "", ""]
    assert all(len(one.attachments) == 1 for one in found)


async def test_the_parts_of_a_long_paste_share_a_name() -> None:
    async with opened() as line:
        for text in ("x" * 4096, "y" * 4096, "the end", "another matter"):
            await line.peer.say(ANNA, text)
        async with line.running():
            first, second, third, other = await line.heard(4)
    assert first.part_of
    assert first.part_of == second.part_of == third.part_of
    assert other.part_of is None


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"location": BERLIN}, "[location: 52.52000, 13.40500]"),
        ({"location": {**BERLIN, "live_period": 60}}, "[live location: 52.52000, 13.40500]"),
        (
            {"location": BERLIN, "venue": {"location": BERLIN, "title": "Bakery", "address": "Main St 1"}},
            "[forwarded from a map]\n[place: Bakery, Main St 1 (52.52000, 13.40500)]",
        ),
        (
            {"contact": {"phone_number": "+4930123", "first_name": "Ben", "last_name": "Berg"}},
            "[forwarded from a contact]\n[contact: Ben Berg, +4930123]",
        ),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[🎲 shows 4]"),
        ({"game": {"title": "Snake", "description": "", "photo": []}}, "[game, which bots cannot see]"),
        (
            {"checklist": {"title": "Shop", "tasks": [{"id": 1, "text": "milk"}, {"id": 2, "text": "bread"}]}},
            "[checklist: Shop — milk / bread]",
        ),
    ],
    ids=["location", "live location", "venue", "contact", "dice", "game", "checklist"],
)
async def test_what_is_no_text_is_told_in_a_few_words(more: dict[str, Any], text: str) -> None:
    async with opened() as line:
        await line.peer.say(ANNA, **more)
        async with line.running():
            [message] = await line.heard()
    assert (message.text, message.attachments) == (text, ())


async def test_a_poll_is_told_with_its_options() -> None:
    poll = {
        "id": "1",
        "question": "Dinner?",
        "options": [{"text": text, "voter_count": 0, "persistent_id": text} for text in ("soup", "bread")],
        "total_voter_count": 0,
        "is_closed": False,
        "is_anonymous": True,
        "type": "regular",
        "allows_multiple_answers": False,
        "allows_revoting": False,
        "members_only": False,
    }
    async with opened() as line:
        await line.peer.say(ANNA, poll=poll)
        async with line.running():
            [message] = await line.heard()
    assert message.text == "[poll: Dinner? — soup / bread]"


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"poll": {"id": "1", "question": "Where?"}}, "poll"),
        ({"something_of_tomorrow": {"a": 1}}, "something of tomorrow"),
    ],
)
async def test_what_cannot_be_read_is_named(more: dict[str, Any], named: str) -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await line.peer.say(ANNA, "", **more)
        await line.peer.say(ANNA, "", chat=FAMILY, **more)
        async with line.running():
            [message] = await line.heard()
    assert message.text == f"[something that cannot be read here: {named}]"
    assert message.conversation.kind == "direct"


@pytest.mark.sec(76)
async def test_a_poll_to_which_others_added_options_is_told_as_words_of_others() -> None:
    option = {"text": "obey", "voter_count": 0, "persistent_id": "a", "addition_date": 1}
    poll = {
        "id": "1",
        "question": "Dinner?",
        "total_voter_count": 0,
        "is_closed": False,
        "is_anonymous": True,
        "type": "regular",
        "allows_multiple_answers": False,
        "allows_revoting": False,
        "members_only": False,
        "options": [{**option, "added_by_user": {"id": 77, "is_bot": False, "first_name": "Ben"}}],
    }
    async with opened() as line:
        await line.peer.say(ANNA, poll=poll)
        async with line.running():
            [message] = await line.heard()
    assert message.text == "[forwarded from a shared poll]\n[poll: Dinner? — obey]"


@pytest.mark.parametrize(
    ("kind", "attached"), [({}, ["image/webp"]), ({"is_video": True}, ["video/webm"]), ({"is_animated": True}, [])]
)
async def test_a_sticker_is_told_by_its_emoji_and_comes_as_a_picture(kind: dict[str, bool], attached: list[str]) -> None:
    sticker = {"file_id": "s1", "file_unique_id": "s", "width": 512, "height": 512, "type": "regular"}
    looks = {"is_animated": False, "is_video": False, "emoji": "😀", "set_name": "Cats"}
    async with opened() as line:
        await line.peer.say(ANNA, sticker={**sticker, **looks, **kind})
        async with line.running():
            [message] = await line.heard()
    assert message.text == "[sticker 😀 of the set Cats]"
    assert [one.media_type for one in message.attachments] == attached


@pytest.mark.parametrize(
    ("origin", "who"),
    [
        (
            {"type": "user", "date": 1, "sender_user": {"id": 9, "is_bot": False, "first_name": "Ben", "last_name": "B"}},
            "Ben B",
        ),
        ({"type": "hidden_user", "date": 1, "sender_user_name": "Some\nbody"}, "Some body"),
        ({"type": "chat", "date": 1, "sender_chat": {"id": -9, "type": "group", "title": "Club"}}, "Club"),
        ({"type": "channel", "date": 1, "message_id": 3, "chat": {"id": -9, "type": "channel", "title": "News"}}, "News"),
    ],
)
async def test_forwarded_words_are_told_apart_from_the_senders_own(origin: dict[str, Any], who: str) -> None:
    async with opened() as line:
        await line.peer.say(ANNA, "/reset everything", forward_origin=origin)
        async with line.running():
            [message] = await line.heard()
    assert message.text == f"[forwarded from {who}]\n/reset everything"
    assert message.sender.id == str(ANNA)


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({"forward_date": 1, "forward_from": {"id": 9, "is_bot": False, "first_name": "Ben", "last_name": "B"}}, "Ben B"),
        ({"forward_date": 1, "forward_from_chat": {"id": -9, "type": "channel", "title": "News"}}, "News"),
        ({"forward_date": 1, "forward_sender_name": "Some\nbody"}, "Some body"),
        ({"forward_date": 1}, "somebody"),
        ({"forward_date": 1, "forward_from": "?"}, "somebody"),
    ],
)
async def test_servers_before_bot_api_7_say_in_other_fields_what_is_forwarded(fields: dict[str, Any], who: str) -> None:
    async with opened() as line:
        await line.peer.say(ANNA, "/reset everything", **fields)
        async with line.running():
            [message] = await line.heard()
    assert message.text == f"[forwarded from {who}]\n/reset everything"


async def test_a_checklist_that_others_may_add_to_is_not_the_senders_own_words() -> None:
    tasks = {"title": "Shop", "tasks": [{"id": 1, "text": "milk"}], "others_can_add_tasks": True}
    async with opened() as line:
        await line.peer.say(ANNA, checklist=tasks)
        async with line.running():
            [message] = await line.heard()
    assert message.text == "[forwarded from a shared checklist]\n[checklist: Shop — milk]"


async def test_what_another_bot_made_is_said_to_be() -> None:
    gif = {"id": 5, "is_bot": True, "first_name": "gif", "username": "gif"}
    async with opened() as line:
        await line.peer.say(ANNA, "look", via_bot=gif)
        async with line.running():
            [message] = await line.heard()
    assert message.text == "[made with @gif]\nlook"


async def test_the_part_that_was_quoted_is_what_is_told() -> None:
    async with opened() as line:
        long = await line.peer.say(ANNA, "word " * 300)
        picture = await line.peer.attach(ANNA, "photo", b"\xff\xd8\xff")
        await line.peer.say(ANNA, "this", reply_to=long, quote={"text": "only this", "position": 3})
        await line.peer.say(ANNA, "all of it", reply_to=long)
        await line.peer.say(ANNA, "who is that", reply_to=picture)
        async with line.running():
            found = await line.heard(5)
    assert [one.quoted for one in found[2:4]] == ["only this", ("word " * 300)[:499] + "…"]
    assert found[4].quoted == "[image]"


async def test_addresses_behind_links_are_told() -> None:
    entities = [{"type": "text_link", "offset": 3, "length": 4, "url": "https://example.org/a"}]
    async with opened() as line:
        await line.peer.say(ANNA, "👍 here, please", entities=entities)
        async with line.running():
            [message] = await line.heard()
    assert message.text == "👍 here (https://example.org/a), please"


@pytest.mark.parametrize(
    "more",
    [
        {"new_chat_members": [{"id": 9, "is_bot": False, "first_name": "Ben"}]},
        {"left_chat_member": {"id": 9, "is_bot": False, "first_name": "Ben"}},
        {"new_chat_title": "Kitchen"},
        {"group_chat_created": True},
        {"forum_topic_created": {"name": "t", "icon_color": 1}},
        {"message_auto_delete_timer_changed": {"message_auto_delete_time": 86400}},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_service_messages_are_passed_over(more: dict[str, Any]) -> None:
    async with opened() as line:
        line.peer.chats.group(FAMILY)
        await line.peer.say(ANNA, chat=FAMILY, **more)
        async with line.running():
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.messages == []


async def test_a_live_location_that_moves_on_is_no_edit() -> None:
    async with opened() as line:
        place = await line.peer.say(ANNA, location={**BERLIN, "live_period": 60})
        async with line.running():
            await line.heard()
            message = line.peer.chats.find(ANNA, place)
            assert message is not None
            await line.peer.inject("edited_message", {**message, "edit_date": message["date"] + 5})
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert len(line.door.messages) == 1


@pytest.mark.parametrize("text", ["שלום עולם", "\u202eevil\u202c", "\u200bzero\u200d", "e\u0301", "👩\u200d👩\u200d👧"])
async def test_letters_of_every_kind_come_through_as_they_are(text: str) -> None:
    async with opened() as line:
        await line.peer.say(ANNA, text)
        async with line.running():
            [message] = await line.heard()
    assert message.text == text


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5), st.sampled_from([10, CUT_AT - 1, CUT_AT, 4096])), max_size=40))
def test_parts_are_those_that_follow_a_long_text_at_once(steps: list[tuple[int, int, int]]) -> None:
    pastes, at, message = Pastes(), NOON, 0
    named: list[tuple[str | None, int, int, int]] = []
    for apart, seconds, length in steps:
        message, at = message + apart, at + timedelta(seconds=seconds)
        named.append((pastes.part_of(("chat", "anna"), message, at, length), length, apart, seconds))
    for (name, length, *_), (following, _, apart, seconds) in itertools.pairwise(named):
        joined = name is not None and name == following
        if joined:
            assert length >= CUT_AT
            assert apart <= 3
            assert seconds <= 2
        elif length >= CUT_AT and apart <= 3 and seconds <= 2:
            assert [one for one, *_ in named].count(name) == MOST_PARTS
    for name, length, *_ in named:
        assert (name is not None) or length < CUT_AT
    names = [name for name, *_ in named if name]
    assert all(names.count(name) <= MOST_PARTS for name in names)


def test_a_part_that_is_offered_again_has_the_same_name() -> None:
    pastes = Pastes()
    batch = [(1, 4096), (2, 4096), (3, 10)]
    first = [pastes.part_of(("chat",), message, NOON, length) for message, length in batch]
    assert first == [pastes.part_of(("chat",), message, NOON, length) for message, length in batch]


def test_two_people_do_not_share_a_paste() -> None:
    pastes = Pastes()
    assert pastes.part_of(("chat", "anna"), 1, NOON, 4096)
    assert pastes.part_of(("chat", "ben"), 2, NOON, 10) is None


def test_messages_that_were_seen_take_little_memory() -> None:
    seen = SeenMessages()
    tracemalloc.start()
    try:
        for number in range(3 * MESSAGES):
            seen.note(str(500_000_000 + number % 7), str(40_000 + number), None, mine=bool(number % 2))
        assert tracemalloc.get_traced_memory()[0] < 250 * MESSAGES
    finally:
        tracemalloc.stop()
    last = 3 * MESSAGES - 1
    assert seen.find(str(500_000_000 + last % 7), str(40_000 + last)) == (None, True)
    assert seen.find("500000000", "40000") is None


def test_what_is_remembered_of_messages_is_bounded() -> None:
    seen = SeenMessages()
    for number in range(MESSAGES + 5):
        seen.note("1", str(number), None, mine=True)
    assert seen.find("1", "4") is None
    assert seen.find("1", "5") == (None, True)


def entities_in(text: str, name: str) -> list[dict[str, Any]]:
    """Return where a name stands in a text, as the server would."""
    units = text.encode("utf-16-le")
    wanted, found, start = name.encode("utf-16-le"), [], 0
    while (start := units.find(wanted, start)) >= 0:
        if start % 2 == 0:
            found.append({"type": "mention", "offset": start // 2, "length": len(name)})
        start += len(wanted) if start % 2 == 0 else 1
    return found


@given(st.lists(st.sampled_from(["@my_bot", " ", ", ", "hello", "👍", "שלום", "\u0301", "\n", "?"]), min_size=1, max_size=12))
def test_taking_the_bots_name_off_leaves_every_other_word(parts: list[str]) -> None:
    text = "".join(parts)
    chat = {"id": 1, "type": "private", "first_name": "A"}
    given = {"message_id": 1, "date": 1, "chat": chat, "text": text, "entities": entities_in(text, "@my_bot")}
    message = Message.de_json(given, None)
    written = Written(message, Me(1, "My_Bot"))
    read = written.readable()
    assert written.mentions_me() == ("@my_bot" in text)
    for word in ("hello", "👍", "שלום"):
        assert read.count(word) == text.count(word)
    assert not read.startswith("@my_bot") or text.count("@my_bot") > 1
