"""What people send on WhatsApp, as the house reads it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import NotFetched
from channels.whatsapp.account_memory import AccountMemory
from channels.whatsapp.delivery_reports import DeliveryReports
from channels.whatsapp.inbound import QUOTED
from channels.whatsapp.windows import Windows
from tests.peers.door import BookDoor
from tests.peers.whatsapp import OWN_NUMBER
from tests.whatsapp.line import ANNA, BEN, Hours, calm, line, place

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOQ"
TOLD: list[tuple[str, Any, dict[str, Any] | None, str]] = [
    ("location", {"latitude": 52.5, "longitude": 13.4}, None, "[location: 52.50000, 13.40000]"),
    (
        "location",
        {"latitude": 1, "longitude": 2, "name": "Mill]\nLane", "address": "1 Road"},
        None,
        "[forwarded from a map]\n[place: Mill) Lane, 1 Road (1.00000, 2.00000)]",
    ),
    (
        "contacts",
        [{"name": {"formatted_name": "Ben"}, "phones": [{"phone": "+49 30 1"}]}],
        None,
        "[forwarded from a contact]\n[contact: Ben, +49 30 1]",
    ),
    (
        "contacts",
        [{"name": {"formatted_name": "Ben"}}],
        {"frequently_forwarded": True},
        "[forwarded from many chats]\n[contact: Ben]",
    ),
    ("button", {"text": "Tell me", "payload": "p"}, None, "Tell me"),
    ("unsupported", {"type": "poll"}, None, "[something that WhatsApp does not show to programs (poll)]"),
    ("hologram", {"x": 1}, None, "[something that WhatsApp does not show to programs (hologram)]"),
    ("order", {"product_items": [{}, {}]}, None, "[order of 2 products]"),
    ("text", {"body": "a rumour"}, {"forwarded": True}, "[forwarded]\na rumour"),
    ("text", {"body": "a rumour"}, {"frequently_forwarded": True}, "[forwarded from many chats]\na rumour"),
]


async def test_what_is_no_plain_text_is_told_in_words() -> None:
    async with calm() as peer, line(peer) as s:
        for kind, content, context, text in TOLD:
            await peer.tell(ANNA, kind, content, context=context)
            await s.door.until(lambda: bool(s.door.texts))
            assert s.door.messages.pop().text == text


async def test_files_are_handles_and_a_voice_message_that_is_forwarded_is_nobody_speaking() -> None:
    async with calm() as peer, line(peer) as s:
        await peer.attach(ANNA, "image", b"jpeg", "image/jpeg", caption="look")
        await peer.attach(ANNA, "audio", b"ogg", "audio/ogg; codecs=opus", voice=True)
        await peer.attach(ANNA, "audio", b"ogg", "audio/ogg", voice=True, context={"forwarded": True})
        await peer.attach(ANNA, "audio", b"mp3", "audio/mpeg")
        await peer.attach(ANNA, "document", b"pdf", "application/pdf", name="bill.pdf")
        await peer.attach(ANNA, "sticker", b"webp", "image/webp")
        await s.door.until(lambda: len(s.door.messages) == 6)
        found = [(one.text, one.attachments[0]) for one in s.door.messages]
        assert [(text, file.kind, file.name, file.media_type, file.recorded) for text, file in found] == [
            ("look", "image", "", "image/jpeg", False),
            ("", "voice", "", "audio/ogg", True),
            ("[forwarded]\n[audio]", "voice", "", "audio/ogg", False),
            ("", "audio", "", "audio/mpeg", False),
            ("", "document", "bill.pdf", "application/pdf", False),
            ("[sticker]", "image", "", "image/webp", False),
        ]


async def test_a_file_is_downloaded_again_when_its_address_is_over_and_never_from_a_stranger(tmp_path: Path) -> None:
    async with calm() as peer, line(peer) as s:
        await peer.attach(ANNA, "document", b"content", "application/pdf")
        await s.door.until(lambda: bool(s.door.messages))
        [file] = s.door.messages[0].attachments
        peer.fault("download", "status", status=404)
        await s.channel.fetch(file, tmp_path / "one", 100)
        assert (tmp_path / "one").read_bytes() == b"content"
        assert peer.count("file") == 2, "a new address was asked for"
        peer.fault("download", "status", times=2, status=404)
        with pytest.raises(NotFetched) as caught:
            await s.channel.fetch(file, tmp_path / "two", 100)
        assert not caught.value.permanent
        with pytest.raises(NotFetched, match="larger than the limit"):
            await s.channel.fetch(file, tmp_path / "three", 3)
        del peer.home.media[file.handle]
        with pytest.raises(NotFetched) as caught:
            await s.channel.fetch(file, tmp_path / "four", 100)
        assert caught.value.permanent
        assert {path.name for path in await asyncio.to_thread(lambda: list(tmp_path.iterdir()))} == {"one"}


@pytest.mark.parametrize(
    ("address", "fine"),
    [
        ("https://lookaside.fbsbx.com/whatsapp_business/attachments/?mid=1", True),
        ("https://graph.facebook.com/x", True),
        ("http://lookaside.fbsbx.com/x", False),
        ("https://lookaside.fbsbx.com.evil.example/x", False),
        ("https://evilfbsbx.com/x", False),
        ("https://lookaside.fbsbx.com:8443/x", False),
        ("https://127.0.0.1/x", False),
        ("https://[::1/x", False),
        ("", False),
    ],
)
@pytest.mark.sec(44)
def test_the_token_goes_to_meta_alone(address: str, fine: bool) -> None:
    from channels.whatsapp.graph_api import GraphApi
    from channels.whatsapp.settings import WhatsAppSettings

    given = {"phoneNumberId": "12345", "accessToken": "EAA", "appSecret": "a" * 32}
    assert GraphApi(WhatsAppSettings.model_validate(given).account("default"), "default").may_see_token(address) == fine


async def test_a_group_whose_id_is_no_text_is_no_group() -> None:
    async with calm() as peer, line(peer, groups={"*": {"requireMention": False}}) as s:
        await peer.say(ANNA, "to nobody", group=("a", 1))  # type: ignore[arg-type]
        await peer.say(ANNA, "hello")
        await s.heard("hello")
        assert s.door.texts == ["hello"]


async def test_answers_reactions_presses_and_edits_are_events_of_their_message() -> None:
    async with calm() as peer, line(peer) as s:
        first = await peer.say(ANNA, "the first")
        await s.heard("the first")
        sent = await s.send("an answer")
        await peer.tell(ANNA, "text", {"body": "about that"}, context={"from": OWN_NUMBER, "id": sent.platform_id})
        await peer.tell(ANNA, "reaction", {"message_id": sent.platform_id, "emoji": "👍🏽"})
        await peer.tell(ANNA, "reaction", {"message_id": sent.platform_id})
        fresh = {"type": "text", "text": {"body": "the first, mended"}}
        await peer.tell(ANNA, "edit", {"original_message_id": first, "message": fresh})
        await peer.tell(ANNA, "revoke", {"original_message_id": first})
        await s.door.until(lambda: len(s.door.messages) == 4)
        quote, thumb, edit = s.door.messages[1:]
        assert (quote.reply_to, quote.quoted, quote.event) == (sent.platform_id, "an answer", "message")
        assert (thumb.event, thumb.text, thumb.target) == ("reaction", "👍🏽", sent.platform_id)
        assert (edit.event, edit.text, edit.target) == ("edited", "the first, mended", first)
        await peer.say(ANNA, "next")
        await s.heard("next")
        assert len(s.door.messages) == 5, "what was taken off or back says nothing"


async def test_messages_of_one_call_are_ordered_by_their_time_and_one_that_is_damaged_stops_no_other() -> None:
    async with calm() as peer, line(peer) as s:
        import time

        now = time.time()
        first, second = (peer.message(ANNA, "text", {"body": text}, at=now + at) for text, at in (("one", -5), ("two", 0)))
        damaged = {**first, "id": "wamid.D", "text": 7}
        peer.tell_raw(ANNA, second, {"type": "text"}, damaged, first)
        await s.door.until(lambda: len(s.door.messages) == 2)
        assert s.door.texts == ["one", "two"]


async def test_in_a_group_the_agent_is_meant_when_its_number_is_named_or_its_words_are_answered() -> None:
    async with calm() as peer, line(peer, groups={GROUP: {}}) as s:
        await peer.say(ANNA, "hi all", group=GROUP)
        await peer.say(ANNA, f"@{OWN_NUMBER} hi", group=GROUP)
        await s.door.until(lambda: len(s.door.messages) == 2)
        assert [one.mentioned for one in s.door.messages] == [False, True]
        group = s.door.messages[0].conversation
        assert (group.kind, group.id, s.door.messages[0].sender.id) == ("group", GROUP, ANNA)
        await peer.say(BEN, "not here", group="QW5vdGhlciBncm91cA")
        await peer.say(ANNA, "done", group=GROUP)
        await s.heard("done")
        assert "not here" not in s.door.texts


async def test_somebody_without_a_number_is_known_by_metas_id_and_stays_who_they_were() -> None:
    async with calm() as peer:
        door = BookDoor()
        door.admitted = {ANNA}
        async with line(peer, door) as s:
            await peer.say("DE.1349120865530274", "I show no number")
            await s.heard("I show no number")
            assert door.messages[-1].sender.id == "DE.1349120865530274"
            await s.send("hello you", to="DE.1349120865530274")
            assert peer.said("DE.1349120865530274") == ["hello you"]
            assert peer.calls[-1][1]["recipient"] == "DE.1349120865530274"
            peer.home.user_ids[ANNA] = "DE.4711"
            await peer.say(ANNA, "both are shown")
            await s.heard("both are shown")
            peer.home.user_ids[BEN] = "DE.666"
            await peer.say(BEN, "a stranger")
            await s.heard("a stranger")
            assert json.loads(door.cursors["people"]) == {"DE.4711": ANNA}, "strangers fill no list"
        async with line(peer, door) as s:
            await peer.say("DE.4711", "now without")
            await s.heard("now without")
            assert door.messages[-1].sender.id == ANNA
            assert door.messages[-1].conversation == place(ANNA)


async def test_errors_that_meta_reports_are_the_owners_to_see() -> None:
    async with calm() as peer, line(peer) as s:
        assert await s.call(peer.payload({"errors": [{"code": 131000, "title": "Something went wrong"}]})) == 200
        assert s.channel.trouble == "WhatsApp reports: Something went wrong (131000)"


def test_of_a_message_that_may_be_quoted_no_more_is_kept_than_is_quoted() -> None:
    clock = Hours()
    memory = AccountMemory(Windows(clock), DeliveryReports(clock))
    memory.note_text("wamid.1", "a" * 60_000)
    memory.note_text("wamid.2", "short")
    assert (memory.texts.get("wamid.1"), memory.texts.get("wamid.2")) == ("a" * QUOTED, "short")
