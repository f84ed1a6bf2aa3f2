"""Files that come with messages, and files that the bot sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from channels.errors import NotFetched, NotSent, Uncertain
from channels.messages import Attachment, Button, OutboundFile
from channels.telegram.file_forms import album_kind, form_of
from channels.telegram.file_sending import captioned
from channels.telegram.settings import OFFICIAL
from tests.channels.telegram_line import ANNA, GROUP, PRIVATE, Line, opened
from tests.peers.telegram import TelegramPeer

JPEG = b"\xff\xd8\xff\xe0 a picture"
BYTES = bytes(range(256)) * 800


async def received(line: Line, kind: str, content: bytes, **more: Any) -> Attachment:
    await line.peer.attach(ANNA, kind, content, **more)
    async with line.running():
        [message] = await line.heard()
    [attachment] = message.attachments
    return attachment


def copied(folder: Path) -> bool:
    return (folder / "copy").exists()


def enclosed(tmp_path: Path, content: bytes, media_type: str, name: str = "given.bin") -> OutboundFile:
    path = tmp_path / "0001"
    path.write_bytes(content)
    return OutboundFile(path=path, name=name, media_type=media_type)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("voice", ("", "audio/ogg"), ("voice", "", "audio/ogg")),
        ("audio", ("song.mp3", "audio/mpeg"), ("audio", "song.mp3", "audio/mpeg")),
        ("photo", ("", ""), ("image", "", "image/jpeg")),
        ("video", ("film.mp4", "video/mp4"), ("video", "film.mp4", "video/mp4")),
        ("video_note", ("", ""), ("video", "", "video/mp4")),
        ("document", ("../../etc/passwd", "text/plain"), ("document", "../../etc/passwd", "text/plain")),
    ],
)
async def test_every_kind_of_file_comes_with_its_facts_and_can_be_fetched(
    tmp_path: Path, kind: str, given: tuple[str, str], expected: tuple[str, str, str]
) -> None:
    async with opened() as line:
        attachment = await received(line, kind, BYTES, name=given[0], media_type=given[1])
        assert (attachment.kind, attachment.name, attachment.media_type) == expected
        assert attachment.size == len(BYTES)
        await line.channel.fetch(attachment, tmp_path / "copy", len(BYTES))
    assert (tmp_path / "copy").read_bytes() == BYTES


async def test_a_moving_picture_is_one_file_though_it_is_named_twice(tmp_path: Path) -> None:
    async with opened() as line:
        document = {"file_id": "d", "file_unique_id": "d", "file_name": "x.mp4"}
        attachment = await received(line, "animation", BYTES, name="x.mp4", media_type="video/mp4", document=document)
    assert attachment.kind == "video"


async def test_a_file_is_counted_while_it_comes_whatever_was_said_of_its_size(tmp_path: Path) -> None:
    async with opened() as line:
        attachment = await received(line, "document", BYTES)
        lied = Attachment(kind="document", handle=attachment.handle, size=1)
        for one in (attachment, lied):
            with pytest.raises(NotFetched, match="larger than") as caught:
                await line.channel.fetch(one, tmp_path / "copy", len(BYTES) - 1)
            assert caught.value.permanent
        assert not copied(tmp_path)
        await line.channel.fetch(lied, tmp_path / "copy", len(BYTES))
    assert (tmp_path / "copy").read_bytes() == BYTES


async def test_a_file_that_telegram_calls_too_big_is_explained(tmp_path: Path) -> None:
    async with opened() as line:
        attachment = await received(line, "document", BYTES)
        line.peer.chats.download_limit = len(BYTES) - 1
        with pytest.raises(NotFetched, match="too big") as caught:
            await line.channel.fetch(attachment, tmp_path / "copy", 10**9)
    assert caught.value.permanent
    assert "channels.telegram.apiRoot" in caught.value.hint


async def test_telegrams_own_limit_is_told_without_asking(tmp_path: Path) -> None:
    async with TelegramPeer() as peer:
        line = Line(peer, apiRoot=OFFICIAL)
        huge = Attachment(kind="video", handle="h", size=21_000_000)
        with pytest.raises(NotFetched, match="at most 20 MB"):
            await line.channel.fetch(huge, tmp_path / "copy", 10**9)
        await line.channel.close()


async def test_a_download_that_breaks_off_leaves_nothing_and_may_be_tried_again(tmp_path: Path) -> None:
    async with opened() as line:
        attachment = await received(line, "document", BYTES)
        line.peer.chats.files[attachment.handle].cut_after = 65_536
        with pytest.raises(NotFetched, match="connection was lost") as caught:
            await line.channel.fetch(attachment, tmp_path / "copy", 10**9)
        assert not caught.value.permanent
        assert line.peer.token not in str(caught.value)
        assert not copied(tmp_path)
        line.peer.chats.files[attachment.handle].cut_after = None
        await line.channel.fetch(attachment, tmp_path / "copy", 10**9)
    assert (tmp_path / "copy").read_bytes() == BYTES


async def test_a_file_that_is_gone_is_gone_for_good(tmp_path: Path) -> None:
    async with opened() as line:
        attachment = await received(line, "document", BYTES)
        line.peer.chats.files[attachment.handle].path = "nowhere"
        line.peer.fault("getFile", "refuse", code=400, text="Bad Request: wrong file_id or the file is temporarily unavailable")
        with pytest.raises(NotFetched) as caught:
            await line.channel.fetch(attachment, tmp_path / "copy", 10**9)
        assert caught.value.permanent


@pytest.mark.parametrize(("kind", "details"), [("status", {"code": 500}), ("drop_before", {}), ("retry_after", {"seconds": 3})])
async def test_passing_trouble_with_a_file_is_said_to_pass(tmp_path: Path, kind: str, details: dict[str, int]) -> None:
    async with opened() as line:
        attachment = await received(line, "document", BYTES)
        line.peer.fault("getFile", kind, **details)
        with pytest.raises(NotFetched) as caught:
            await line.channel.fetch(attachment, tmp_path / "copy", 10**9)
        assert not caught.value.permanent


@pytest.mark.parametrize("answer", [{"file_id": "x"}, {"file_id": "x", "file_unique_id": "x"}], ids=["no id", "no path"])
async def test_an_answer_that_names_no_file_is_told(tmp_path: Path, answer: dict[str, str]) -> None:
    async with opened() as line:
        attachment = await received(line, "document", BYTES)
        line.peer.answers["getFile"] = answer
        with pytest.raises(NotFetched) as caught:
            await line.channel.fetch(attachment, tmp_path / "copy", 10**9)
        assert not caught.value.permanent
        assert not copied(tmp_path)


async def test_a_server_of_ones_own_may_point_to_a_file_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "stored").write_bytes(BYTES)
    async with opened() as line:
        attachment = await received(line, "document", b"elsewhere")
        line.peer.chats.files[attachment.handle].path = str(tmp_path / "stored")
        big = Attachment(kind="document", handle=attachment.handle)
        await line.channel.fetch(big, tmp_path / "copy", len(BYTES))
        with pytest.raises(NotFetched, match="larger"):
            await line.channel.fetch(big, tmp_path / "second", len(BYTES) - 1)
    assert (tmp_path / "copy").read_bytes() == BYTES
    assert not (tmp_path / "second").exists()


async def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with opened() as line:
        attachment = await received(line, "document", BYTES)
        with pytest.raises(NotFetched, match="could not be saved") as caught:
            await line.channel.fetch(attachment, tmp_path / "no" / "such" / "folder", 10**9)
        assert not caught.value.permanent


@pytest.mark.parametrize(
    ("content", "media_type", "method", "kind"),
    [
        (JPEG, "image/jpeg", "sendPhoto", "photo"),
        (b"OggS", "audio/ogg; codecs=opus", "sendVoice", "voice"),
        (b"ID3", "audio/mpeg", "sendAudio", "audio"),
        (b"ftyp", "video/mp4", "sendVideo", "video"),
        (b"GIF89a", "image/gif", "sendAnimation", "animation"),
        (b"%PDF", "application/pdf", "sendDocument", "document"),
        (b"<svg/>", "image/svg+xml", "sendDocument", "document"),
    ],
)
async def test_a_file_is_sent_in_the_form_that_suits_it(
    tmp_path: Path, content: bytes, media_type: str, method: str, kind: str
) -> None:
    async with opened() as line:
        await line.send("**Look** at this", enclosure=enclosed(tmp_path, content, media_type), reply_to="1")
        assert line.peer.chats.received == [(kind, "given.bin", content)]
        assert line.peer.count(method) == 1
        message = line.peer.chats.messages[ANNA][-1]
    assert message["caption"] == "Look at this"
    assert message["caption_entities"] == [{"type": "bold", "offset": 0, "length": 4}]


async def test_a_file_may_carry_buttons_and_go_to_a_topic(tmp_path: Path) -> None:
    async with opened() as line:
        line.peer.chats.group(int(GROUP.id), topics=(7,))
        place = replace(GROUP, thread="7")
        button = Button(label="Fine", value="/fine")
        await line.send("", place, enclosure=enclosed(tmp_path, b"%PDF", "application/pdf"), buttons=(button,))
        message = line.peer.chats.messages[int(GROUP.id)][-1]
    assert message["message_thread_id"] == 7
    assert message["reply_markup"]["inline_keyboard"][0][0]["callback_data"] == "/fine"


async def test_a_picture_that_telegram_cannot_read_goes_as_a_document(tmp_path: Path) -> None:
    async with opened() as line:
        await line.send("", enclosure=enclosed(tmp_path, b"no picture at all", "image/png"))
        assert [kind for kind, *_ in line.peer.chats.received] == ["document"]


async def test_where_voice_messages_are_not_wanted_a_document_comes(tmp_path: Path) -> None:
    async with opened() as line:
        line.peer.chats.no_voice.add(ANNA)
        await line.send("", enclosure=enclosed(tmp_path, b"OggS", "audio/ogg"))
        assert [kind for kind, *_ in line.peer.chats.received] == ["document"]


async def test_a_text_that_is_too_long_for_a_caption_follows_whole(tmp_path: Path) -> None:
    text = "word " * 300
    async with opened() as line:
        await line.send(text, enclosure=enclosed(tmp_path, b"%PDF", "application/pdf"))
        assert line.peer.chats.said(ANNA) == ["", text.strip()]


@pytest.mark.parametrize("method", ["sendMessage", "editMessageText"])
@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "status"])
async def test_a_file_is_not_sent_again_for_the_text_that_should_follow(tmp_path: Path, method: str, kind: str) -> None:
    text = "word " * 300
    enclosure = enclosed(tmp_path, b"%PDF", "application/pdf")
    async with opened() as line:
        line.peer.fault(method, kind)
        with pytest.raises(Uncertain):
            await line.send(text, enclosure=enclosure)
        await line.send(text, enclosure=enclosure, attempt=2, uncertain=True)
        assert [kind for kind, *_ in line.peer.chats.received] == ["document"]
        assert [one for one in line.peer.chats.said(ANNA) if one not in {"", "…"}] == [text.strip()]


async def test_a_file_that_may_have_arrived_is_repeated_with_a_mark(tmp_path: Path) -> None:
    enclosure = enclosed(tmp_path, b"%PDF", "application/pdf")
    async with opened() as line:
        line.peer.fault("sendDocument", "drop_after")
        with pytest.raises(Uncertain):
            await line.send("here", enclosure=enclosure)
        await line.send("here", enclosure=enclosure, attempt=2, uncertain=True)
        assert line.peer.chats.said(ANNA) == ["here", "(possibly repeated)\nhere"]


async def test_a_file_that_the_server_finds_too_large_is_given_up_with_the_limit(tmp_path: Path) -> None:
    async with opened() as line:
        line.peer.chats.upload_limit = 1000
        with pytest.raises(NotSent, match="Too Large") as caught:
            await line.send("", enclosure=enclosed(tmp_path, BYTES, "application/pdf"))
    assert caught.value.permanent
    assert "50 MB" in caught.value.hint


async def test_a_file_over_telegrams_limit_is_given_up_without_sending_it(tmp_path: Path) -> None:
    path = tmp_path / "0001"
    with path.open("wb") as file:
        file.truncate(50_000_001)
    async with TelegramPeer() as peer:
        line = Line(peer, apiRoot=OFFICIAL)
        with pytest.raises(NotSent, match="accepts 50 MB") as caught:
            await line.send("", enclosure=OutboundFile(path=path, name="big", media_type="video/mp4"))
        await line.channel.close()
    assert caught.value.permanent


@pytest.mark.parametrize("content", [None, b""])
async def test_a_file_that_is_gone_or_empty_is_given_up(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "0001"
    if content is not None:
        path.write_bytes(content)
    async with opened() as line:
        with pytest.raises(NotSent, match=r"gone|empty") as caught:
            await line.send("", PRIVATE, enclosure=OutboundFile(path=path, name="x.txt", media_type="text/plain"))
    assert caught.value.permanent


def test_large_pictures_go_as_documents() -> None:
    assert form_of("image/jpeg", 10_000_000) == "photo"
    assert form_of("IMAGE/JPEG", 10_000_001) == "document"


def test_a_caption_is_measured_as_it_is_read() -> None:
    assert captioned("**" + "x" * 1024 + "**") == ("**" + "x" * 1024 + "**", "")
    assert captioned("👍" * 513) == ("", "👍" * 513)


# -- albums ----------------------------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n a picture"


def album(tmp_path: Path, *files: tuple[bytes, str, str]) -> OutboundFile:
    """Return files, each of its content, media type and caption, as one message."""
    made = []
    for number, (content, media_type, caption) in enumerate(files):
        path = tmp_path / f"{number}"
        path.write_bytes(content)
        made.append(OutboundFile(path=path, name=f"{number}.bin", media_type=media_type, caption=caption))
    return replace(made[0], caption="", album=tuple(made[1:]))


def two_pictures(tmp_path: Path) -> OutboundFile:
    return album(tmp_path, (JPEG, "image/jpeg", ""), (PNG, "image/png", "two"))


async def test_several_pictures_are_one_album_each_with_its_caption(tmp_path: Path) -> None:
    async with opened() as line:
        pictures = album(tmp_path, (JPEG, "image/jpeg", ""), (PNG, "image/png", "the *sea*"), (BYTES, "video/mp4", ""))
        question = line.peer.chats.messages[ANNA][0]["message_id"]
        sent = await line.send("our **trip**", enclosure=pictures, reply_to=str(question))
    posted = line.peer.chats.messages[ANNA][-3:]
    assert [one.get("caption", "") for one in posted] == ["our trip", "the sea", ""]
    assert len({one["media_group_id"] for one in posted}) == 1
    assert posted[0]["caption_entities"][0]["type"] == "bold"
    assert posted[0]["reply_to_message"]["message_id"] == question
    assert sent == str(posted[0]["message_id"])
    files = [(kind, content) for kind, _, content in line.peer.chats.received]
    assert files == [("photo", JPEG), ("photo", PNG), ("video", BYTES)]
    assert line.peer.count("sendMediaGroup") == 1


async def test_an_album_with_a_picture_that_telegram_cannot_read_goes_out_as_documents(tmp_path: Path) -> None:
    async with opened() as line:
        await line.send("", enclosure=album(tmp_path, (JPEG, "image/jpeg", ""), (b"damaged", "image/png", "this one")))
    assert [kind for kind, _, _ in line.peer.chats.received] == ["document", "document"]
    assert line.peer.transcript(ANNA)[-1] == ("bot", "this one")


async def test_an_album_that_may_have_arrived_is_marked_once(tmp_path: Path) -> None:
    async with opened() as line:
        line.peer.fault("sendMediaGroup", "drop_after")
        with pytest.raises(Uncertain):
            await line.send("one", enclosure=two_pictures(tmp_path))
        await line.send("one", enclosure=two_pictures(tmp_path), attempt=2, uncertain=True)
    said = [text for who, text in line.peer.transcript(ANNA) if who == "bot"]
    assert said == ["one", "two", "(possibly repeated)\none", "two"]


async def test_an_album_that_arrived_is_not_sent_again_for_its_long_text(tmp_path: Path) -> None:
    async with opened() as line:
        line.peer.fault("sendMessage", "status", code=502)
        with pytest.raises(Uncertain):
            await line.send("more " * 300, enclosure=two_pictures(tmp_path))
        await line.send("more " * 300, enclosure=two_pictures(tmp_path), attempt=2, uncertain=True)
    assert line.peer.count("sendMediaGroup") == 1
    assert line.peer.transcript(ANNA)[-1][1].startswith("more more")


def test_what_goes_together_is_what_telegram_takes_together() -> None:
    def kind(media_type: str, size: int = 10, caption: str = "") -> str:
        return album_kind(OutboundFile(path=Path("x"), name="x", media_type=media_type, caption=caption), size)

    assert kind("image/jpeg") == kind("video/mp4") == kind("image/png") != ""
    assert kind("audio/mpeg") not in {"", kind("image/jpeg"), kind("text/plain")}
    assert kind("image/jpeg", size=11_000_000) == kind("text/plain") != ""
    assert kind("image/gif") == kind("audio/ogg") == kind("image/jpeg", caption="🏔" * 600) == ""
