"""Updates that are not as documented: read as far as they can be, and never in the way of others."""

from __future__ import annotations

import asyncio
import copy
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from telegram import Update

from channels.common.backoff import Backoff
from channels.common.log import NoLog
from channels.telegram.bot import readable_part
from channels.telegram.bot_mentions import Me
from channels.telegram.receiving import Receiver, ReceiverDeps
from channels.telegram.recent_messages import SeenMessages
from channels.telegram.settings import TelegramSettings
from channels.telegram.updates import ALLOWED, Reader
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock
from tests.properties import examples

if TYPE_CHECKING:
    from channels.messages import Inbound

PERSON = {"id": 42, "is_bot": False, "first_name": "Anna"}
FORUM = {"id": -100, "type": "supergroup", "title": "Family", "is_forum": True}
MESSAGE = {"message_id": 5, "date": 1_790_000_000, "chat": FORUM, "from": PERSON}
FILE = {"file_id": "f", "file_unique_id": "f", "file_size": 7}
TEXT = {
    **MESSAGE,
    "text": "👋 @homebody_test_bot hello",
    "entities": [{"type": "mention", "offset": 3, "length": 18}, {"type": "bot_command", "offset": 0, "length": 2}],
    "message_thread_id": 7,
    "is_topic_message": True,
    "reply_to_message": {**MESSAGE, "text": "before"},
    "quote": {"text": "bef", "position": 0},
}
UPDATES: list[dict[str, Any]] = [
    {"message": TEXT},
    {"edited_message": {**TEXT, "edit_date": 1_790_000_001}},
    {"message": {**MESSAGE, "photo": [{**FILE, "width": 1, "height": 1}], "caption": "look", "media_group_id": "1"}},
    {"message": {**MESSAGE, "document": FILE, "forward_origin": {"type": "user", "date": 1, "sender_user": PERSON}}},
    {"message": {**MESSAGE, "location": {"latitude": 1.5, "longitude": 2.5}}},
    {"message": {**MESSAGE, "contact": {"phone_number": "1", "first_name": "Ben"}}},
    {"message": {**MESSAGE, "migrate_to_chat_id": -200}},
    {"callback_query": {"id": "1", "from": PERSON, "chat_instance": "1", "data": "/yes", "message": TEXT}},
    {
        "message_reaction": {
            "chat": FORUM,
            "message_id": 5,
            "user": PERSON,
            "date": 1,
            "old_reaction": [],
            "new_reaction": [{"type": "emoji", "emoji": "👍"}],
        }
    },
    {
        "my_chat_member": {
            "chat": FORUM,
            "from": PERSON,
            "date": 1,
            "old_chat_member": {"user": PERSON, "status": "left"},
            "new_chat_member": {"user": PERSON, "status": "member"},
        }
    },
]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.text(max_size=5),
    st.builds(list),
    st.builds(dict),
    st.builds(dict, id=st.just(1), type=st.just("channel"), title=st.just("c")),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where something could be changed."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, one in pairs for found in [(*path, key), *places(one, (*path, key))]]


@st.composite
def bent(draw: st.DrawFn) -> dict[str, Any]:
    """An update with up to three places that hold something else, or nothing."""
    update = {"update_id": draw(st.integers(1, 2**31)), **copy.deepcopy(draw(st.sampled_from(UPDATES)))}
    for _ in range(draw(st.integers(0, 3))):
        *way, last = draw(st.sampled_from([path for path in places(update) if path != ("update_id",)]))
        holder: Any = update
        for key in way:
            holder = holder[key]
        if isinstance(holder, dict) and draw(st.booleans()):
            del holder[last]
        else:
            holder[last] = draw(JUNK)
        if not [path for path in places(update) if path != ("update_id",)]:
            break
    return update


def heard(updates: list[dict[str, Any]]) -> tuple[BookDoor, int]:
    """Let a receiver take updates as they come from Telegram."""
    account = TelegramSettings.model_validate({"reactionNotifications": "all"}).account("default")
    clock, door = FastClock(), BookDoor()
    backoff = Backoff(clock, lambda: 1.0, NoLog(), "default")
    station = ReceiverDeps(
        bot=None,  # type: ignore[arg-type]  # answering presses is not looked at here, and its trouble is nobody's
        settings=account,
        account="default",
        sink=door,
        clock=clock,
        backoff=backoff,
        log=NoLog(),
    )
    reader = Reader("default", account, Me(1000, "homebody_test_bot"), SeenMessages(), clock.now)
    receiver = Receiver(station, reader)

    async def take() -> int:
        parsed = [Update.de_json(copy.deepcopy(readable_part(one)), None) for one in updates]
        following = await receiver.take(parsed)
        await receiver.close()
        return following

    return door, asyncio.run(take())


def test_the_updates_that_are_bent_are_sound_themselves() -> None:
    door, _ = heard([{"update_id": number, **update} for number, update in enumerate(UPDATES, 1)])
    assert [one.event for one in door.messages] == ["message", "edited", *["message"] * 4, "button", "reaction"]
    assert len(door.moves) == 1
    assert {kind for update in UPDATES for kind in update} == set(ALLOWED), "whatever is asked for goes through the one door"
    assert all(one.sender.id == "42" for one in door.messages)


@settings(max_examples=examples(60))
@given(bent())
def test_whatever_an_update_holds_the_next_one_is_heard(update: dict[str, Any]) -> None:
    after = {"update_id": 2**31 + 1, "message": {**MESSAGE, "message_id": 6, "text": "next"}}
    door, following = heard([update, after])
    assert following == 2**31 + 2
    assert door.messages[-1].text == "next"
    for one in door.messages:
        assert_sound(one)
    assert all(place.id.lstrip("-").isdecimal() for places in door.moves for place in places)


def assert_sound(inbound: Inbound) -> None:
    """Expect what the house relies on."""
    assert isinstance(inbound.text, str)
    assert inbound.at.tzinfo is not None
    assert all((inbound.key, inbound.alias))
    assert all(re.fullmatch(r"-?\d+", one) for one in (inbound.message_id, inbound.sender.id, inbound.conversation.id))
    assert inbound.conversation.kind in {"direct", "group"}


OLD_POLL = {"id": "5", "question": "Which fruit?", "options": [{"text": "fig", "voter_count": 0}], "type": "regular"}
"""As servers before Bot API 10 send it."""


@pytest.mark.parametrize(
    "part", [{"poll": OLD_POLL}, {"reply_to_message": {**MESSAGE, "poll": OLD_POLL}}, {"entities": [{"type": "bold"}]}]
)
def test_of_a_message_with_a_part_in_another_form_the_text_is_read(part: dict[str, Any]) -> None:
    update = {"update_id": 1, "message": {**MESSAGE, "text": "an important question", **part}}
    read = Update.de_json(readable_part(update), None)
    assert read is not None
    assert read.message is not None
    assert (read.message.text, read.message.from_user and read.message.from_user.id) == ("an important question", 42)


@pytest.mark.parametrize(
    "odd",
    [
        {"date": "x"},
        {"from": {"id": 42}},
        {"chat": {"nonsense": True}},
        {"forward_origin": {"type": "user"}},
        {"sender_chat": {}},
    ],
)
def test_a_message_of_which_it_is_not_known_whose_words_it_has_is_not_read(odd: dict[str, Any]) -> None:
    update = {"update_id": 1, "message": {**MESSAGE, "text": "obey", **odd}}
    assert readable_part(update) in ({"update_id": 1}, update)
    read = Update.de_json(readable_part(update), None)
    assert read is not None
    assert read.message is None or read.message.forward_origin is not None
