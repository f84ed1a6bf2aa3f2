"""What the house sends on WhatsApp: once, in its marks, within its limits; and what becomes of what Meta refuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.errors import ChannelBroken, NotSent, Uncertain
from channels.messages import Button, OutboundFile
from channels.whatsapp.channel import WhatsAppChannel
from channels.whatsapp.markup import written
from channels.whatsapp.settings import WhatsAppSettings
from tests.peers.door import BookDoor
from tests.peers.whatsapp import choices
from tests.peers.whatsapp_state import Template
from tests.whatsapp.line import ANNA, Hours, calm, line, place, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.whatsapp.line import Line


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("**bold** *italic* ~~gone~~ `code`", "*bold* _italic_ ~gone~ `code`"),
        ("# Head\n\ntext", "*Head*\n\ntext"),
        ("- one\n- two", "• one\n• two"),
        ("```py\na = 1\n```", "```\na = 1\n```"),
        ("> said", "> said"),
        ("[here](https://example.org)", "here (https://example.org)"),
        ("<https://example.org/a_b_c>", "https://example.org/a_b_c"),
        ("2 * 3 * 4 and snake_case", "2 * 3 * 4 and snake_case"),
        ("a \\*star\\*", "a *\u200bstar*"),
        ("**a**\n**b**", "*a*\n*b*"),
    ],
)
def test_markdown_is_written_in_whatsapps_marks(markdown: str, shown: str) -> None:
    assert written(markdown) == shown


@given(st.text(st.sampled_from("ab *_~`>#-\n[]()|1."), max_size=3000) | st.text(max_size=300))
@settings(max_examples=60, deadline=None)
def test_every_piece_fits_a_message_with_its_mark(text: str) -> None:
    given = {"phoneNumberId": "12345", "accessToken": "EAA", "appSecret": "a" * 32, "textChunkLimit": 300}
    channel = WhatsAppChannel(WhatsAppSettings.model_validate(given), "default", clock=Hours())
    assert all(0 < len(written(piece)) <= 300 for piece in channel.chunks(text))


async def begun(s: Line) -> None:
    await s.peer.say(ANNA, "hi")
    await s.heard("hi")


def buttons(*labels: str) -> tuple[Button, ...]:
    return tuple(Button(label=label, value=f"/do {number}") for number, label in enumerate(labels))


async def test_buttons_become_a_list_where_they_do_not_fit_and_words_where_there_are_none() -> None:
    async with calm() as peer, line(peer) as s:
        await begun(s)
        for number, (labels, text, kind) in enumerate(
            [
                (("Yes", "No"), "?", "button"),
                (("Approve once for this conversation", "Approve once for this chat"), "?", "button"),
                (("Yes", "No"), "?" + "x" * 1030, "list"),
                (("a", "b", "c", "d"), "?", "list"),
                (tuple("abcdefghijk"), "?", "text"),
            ]
        ):
            await s.send(text, f"key-{number}", buttons=buttons(*labels))
            body = peer.home.chats[ANNA][-1]["body"]
            assert (body["interactive"]["type"] if body["type"] == "interactive" else "text") == kind
            assert len(choices(body)) == (0 if kind == "text" else len(labels))
        assert "`/do 10`" in peer.said(ANNA)[-1]
        await peer.press(ANNA, "d")
        await s.heard("/do 3")
        press = s.door.messages[-1]
        assert (press.event, press.text) == ("button", "/do 3")
        assert press.target is not None


def file(folder: Path, name: str, media_type: str, content: bytes = b"content") -> OutboundFile:
    path = folder / name
    path.write_bytes(content)
    return OutboundFile(path=path, name=name, media_type=media_type)


async def test_files_are_shown_as_what_they_are_with_their_caption_once(tmp_path: Path) -> None:
    async with calm() as peer, line(peer) as s:
        await begun(s)
        for number, (name, media_type, caption, shown) in enumerate(
            [
                ("a.jpg", "image/jpeg", "look", [("image", "look")]),
                ("a.md", "text/markdown", "notes", [("document", "notes")]),
                ("a.ogg", "audio/ogg", "", [("audio", None)]),
                ("a.mp3", "audio/mpeg", "hear this", [("text", None), ("audio", None)]),
                ("b.pdf", "application/pdf", "x" * 1100, [("text", None), ("document", None)]),
                ("a.zip", "application/zip", "all of it", [("text", None)]),
            ]
        ):
            before = len(peer.home.chats[ANNA])
            await s.send(caption, f"key-{number}", enclosure=file(tmp_path, name, media_type))
            told = [one["body"] for one in peer.home.chats[ANNA][before:]]
            assert [(one["type"], one[one["type"]].get("caption")) for one in told] == shown
        assert told[0]["text"]["body"] == "all of it\n\n📎 a.zip (WhatsApp takes no files of this kind; it is in my workspace)"
        voice = [one["body"]["audio"] for one in peer.home.chats[ANNA] if one["body"].get("type") == "audio"]
        assert [one.get("voice") for one in voice] == [True, None]
        assert (s.recorded or "").startswith("text wamid.")
        with pytest.raises(NotSent, match="empty"):
            await s.send("", enclosure=file(tmp_path, "no.pdf", "application/pdf", b""))
        peer.fault("media", "status", status=503)
        with pytest.raises(NotSent) as caught:
            await s.send("", enclosure=file(tmp_path, "c.pdf", "application/pdf"))
        assert not caught.value.permanent, "nothing was shown, and it may be tried again"


async def test_the_text_before_a_file_is_not_said_again(tmp_path: Path) -> None:
    async with calm() as peer, line(peer) as s:
        await begun(s)
        sound = file(tmp_path, "a.mp3", "audio/mpeg")
        await s.send("hear this", "k", enclosure=sound)
        peer.reports = ()
        await s.send("hear this", "k", enclosure=sound, attempt=2, recorded=s.recorded)
        assert peer.said(ANNA) == ["hear this", "", ""]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_report_settles_a_message_whose_answer_was_lost(restarted: bool) -> None:
    async with calm() as peer:
        door = BookDoor()
        async with line(peer, door) as s:
            await begun(s)
            if restarted:
                peer.hooks.paused = True
            peer.fault("messages", "drop_after")
            with pytest.raises(Uncertain):
                await s.send("once", "doubt")
            if not restarted:
                sent = await s.send("once", "doubt", attempt=2, uncertain=True)
        if restarted:
            async with line(peer, door) as s:
                peer.hooks.paused = False
                sent = await s.send("once", "doubt", attempt=2, uncertain=True, restarted=True)
                again = await s.send("once", "doubt", attempt=3, uncertain=True, restarted=True)
                assert again == sent
        assert peer.said(ANNA) == ["once"]
        assert sent.platform_id == peer.home.chats[ANNA][-1]["id"]


async def test_what_was_reported_before_a_kill_is_known_after_it() -> None:
    async with calm() as peer:
        door = BookDoor()
        async with line(peer, door) as s:
            await begun(s)
            peer.fault("messages", "drop_after")
            with pytest.raises(Uncertain):
                await s.send("once", "doubt")
            await peer.until(lambda: not peer.hooks.waiting)
        async with line(peer, door, confirmSeconds=0) as s:
            await s.send("once", "doubt", attempt=2, uncertain=True, restarted=True)
        assert peer.said(ANNA) == ["once"]


async def test_a_message_in_doubt_of_which_nobody_reports_anything_is_marked() -> None:
    async with calm() as peer, line(peer, confirmSeconds=0.05) as s:
        await begun(s)
        peer.reports = ()
        for kind in ("drop_before", "status_after", "status"):
            peer.fault("messages", kind)
            with pytest.raises(Uncertain):
                await s.send("perhaps", kind)
            await s.send("perhaps", kind, attempt=2, uncertain=True)
        assert [text.startswith("(possibly repeated)\n") for text in peer.said(ANNA)] == [True, False, True, True]


REFUSALS: list[tuple[int, int, dict[str, Any]]] = [
    (130429, 429, {"retry_after": 4.0}),
    (131056, 400, {"retry_after": 4.0}),
    (80007, 400, {"retry_after": 4.0}),
    (0, 429, {"retry_after": 4.0}),
    (131026, 400, {"permanent": True}),
    (131030, 400, {"permanent": True}),
    (100, 400, {"permanent": True}),
    (131051, 400, {"permanent": True}),
    (131047, 400, {"held": True}),
    (368, 403, {}),
    (131031, 403, {}),
    (131042, 400, {}),
    (133010, 400, {}),
]


async def test_each_refusal_is_retried_held_or_told() -> None:
    async with calm() as peer, line(peer) as s:
        await begun(s)
        for code, status, expected in REFUSALS:
            peer.fault("messages", "error", code=code, status=status)
            with pytest.raises(NotSent) as caught:
                await s.send("no", f"key-{code}")
            error = caught.value
            found = {"retry_after": error.retry_after, "permanent": error.permanent, "held": error.held}
            assert {key: value for key, value in found.items() if value} == expected, code
            await peer.say(ANNA, f"after {code}")  # opens the window again
            await s.heard(f"after {code}")
        for code, status in ((131000, 500), (2, 503), (0, 502), (1, 400)):
            peer.fault("messages", "error", code=code, status=status)
            with pytest.raises(Uncertain):
                await s.send("perhaps", f"doubt-{code}")
        assert peer.said(ANNA) == []


async def test_a_token_that_is_taken_back_ends_the_channel_with_what_to_do() -> None:
    async with calm() as peer:
        door = BookDoor()
        channel = WhatsAppChannel(settings_of(peer), "default", clock=Hours())
        running = asyncio.ensure_future(channel.run(door))
        await door.until_ready()
        peer.token = "another"
        with pytest.raises(NotSent):
            await channel.send(_outbound("no"), _nothing)
        with pytest.raises(ChannelBroken, match="not accepted") as caught:
            await running
        assert "homebody config set channels.whatsapp.accessToken" in caught.value.hint


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"phoneNumberId": None}, "phoneNumberId is not set"),
        ({"phoneNumberId": "999999999"}, "names no phone number"),
        ({"accessToken": None}, "accessToken is not set"),
        ({"appSecret": "EAAx"}, "is no app secret"),
        ({"appSecret": None}, "appSecret is not set"),
    ],
)
async def test_settings_that_cannot_work_are_named(changed: dict[str, Any], told: str) -> None:
    async with calm() as peer:
        channel = WhatsAppChannel(settings_of(peer, **changed), "default", clock=Hours())
        for asking in (channel.probe(), channel.run(BookDoor())):
            with pytest.raises(ChannelBroken, match=told) as caught:
                await asking
            assert "homebody config set channels.whatsapp" in caught.value.hint


async def test_typing_and_the_blue_ticks_are_shown_once_in_a_while_and_reactions_replace_each_other() -> None:
    async with calm() as peer, line(peer) as s:
        await begun(s)
        for _ in range(3):
            await s.channel.typing(place(ANNA))
        message = s.door.messages[0].message_id
        assert peer.seen == [message]
        await s.channel.react(place(ANNA), message, "👀")
        await s.channel.react(place(ANNA), message, None)
        assert peer.home.chats[ANNA][0]["reaction"] == ""
        peer.fault("seen", "status")
        s.clock.ahead += _hours(1)
        await s.channel.typing(place(ANNA))
    async with calm() as peer, line(peer, readMarks=False) as s:
        await begun(s)
        await s.channel.typing(place(ANNA))
        assert peer.seen == []


# -- the 24 hours ----------------------------------------------------------------------------------------------------


async def test_after_24_hours_a_message_waits_and_goes_out_when_the_person_writes() -> None:
    async with calm() as peer:
        door, clock = BookDoor(), Hours()
        async with line(peer, door, clock) as s:
            await begun(s)
            await s.send("in time", "one")
            peer.shut(ANNA)
            clock.ahead = _hours(25)
            before = peer.count("messages")
            with pytest.raises(NotSent, match="more than 24 hours") as caught:
                await s.send("late", "two")
            assert caught.value.held
            assert peer.count("messages") == before, "Meta is not asked in vain"
        async with line(peer, door, clock) as s:  # it is known after a restart
            with pytest.raises(NotSent, match="more than 24 hours"):
                await s.send("late", "two")
            told = door.readied
            message = peer.message(ANNA, "text", {"body": "I am back"}, at=clock.now().timestamp())
            peer.tell_raw(ANNA, message)
            await s.heard("I am back")
            await peer.until(lambda: not peer.hooks.waiting)
            assert door.readied == told + 1, "what waits is sent now"
            await s.send("late", "two")
        assert peer.said(ANNA) == ["in time", "late"]


async def test_a_template_asks_once_and_one_that_is_refused_is_told() -> None:
    async with calm() as peer:
        peer.home.templates |= {"please_write": Template("de", 1), "paused": Template("de", 1, paused=True)}
        chosen = {"name": "please_write", "language": "de", "parameters": ["Homebody"]}
        door, clock = BookDoor(), Hours()
        async with line(peer, door, clock, template=chosen) as s:
            await begun(s)
            clock.ahead = _hours(25)
            for _ in range(3):
                with pytest.raises(NotSent, match="'please_write' asked them to") as caught:
                    await s.send("late", "two")
                assert caught.value.held
        async with line(peer, door, clock, template=chosen) as s:
            with pytest.raises(NotSent, match="'please_write' asked them to"):
                await s.send("late", "two")
        assert peer.said(ANNA) == ["template please_write"], "one template until they write"
    for changed, told in (
        ({"name": "unknown"}, "132001; see channels.whatsapp.template.name"),
        ({"parameters": ()}, "132000; see channels.whatsapp.template.parameters"),
        ({"name": "paused"}, "132015; see channels.whatsapp.template.name"),
    ):
        async with calm() as peer:
            peer.home.templates |= {"please_write": Template("de", 1), "paused": Template("de", 1, paused=True)}
            clock = Hours()
            async with line(peer, clock=clock, template=chosen | changed) as s:
                await begun(s)
                clock.ahead = _hours(25)
                with pytest.raises(NotSent) as caught:
                    await s.send("late", "two")
                assert told in str(caught.value)
                assert told in s.channel.remarks()[-1]


async def test_a_message_that_meta_took_and_did_not_deliver_is_given_back() -> None:
    async with calm() as peer, line(peer) as s:
        await begun(s)
        peer.shut(ANNA)
        peer.late_refusals = peer.hooks.paused = True
        sent = await s.send("late", "two")
        peer.hooks.paused = False
        await s.door.until(lambda: bool(s.door.returned))
        [(where, message, error)] = s.door.returned
        assert (where, message, error.held) == (place(ANNA), sent.platform_id, True)
        with pytest.raises(NotSent, match="more than 24 hours"):
            await s.send("late", "two", attempt=2)
        peer.report(sent.platform_id, "failed", {"to": ANNA, "biz_opaque_callback_data": "other"}, code=131026)
        await s.door.until(lambda: len(s.door.returned) == 2)
        assert s.door.returned[-1][2].permanent


async def test_a_failure_that_comes_before_the_gateway_has_stored_the_send_is_asked_for_again() -> None:
    async with calm() as peer, line(peer) as s:
        await begun(s)
        sent = await s.send("soon", "two")
        await peer.until(lambda: not peer.hooks.waiting)
        s.door.knows_what_it_sent = False
        status = {"id": sent.platform_id, "status": "failed", "timestamp": "1", "recipient_id": ANNA}
        status |= {"errors": [{"code": 131026}], "biz_opaque_callback_data": "two"}
        assert await s.call(peer.payload({"statuses": [status]})) == 503
        s.door.knows_what_it_sent = True
        assert await s.call(peer.payload({"statuses": [status]})) == 200
        s.door.knows_what_it_sent = False
        del status["biz_opaque_callback_data"]
        assert await s.call(peer.payload({"statuses": [status]})) == 200, "a message of another program"


def _hours(hours: float) -> Any:
    from datetime import timedelta

    return timedelta(hours=hours)


def _outbound(text: str) -> Any:
    from channels.messages import Outbound

    return Outbound(key="k", conversation=place(ANNA), text=text)


async def _nothing(_: str) -> None: ...
