"""Files from Slack and to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import NotFetched, NotSent, Uncertain
from channels.messages import Attachment, Button, ChatAddress, OutboundFile
from channels.slack.file_transfer import may_see_token
from tests.channels.slack_line import ANNA, DIRECT, ROOM, Line, shown
from tests.peers.slack import BOT_TOKEN, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COMPLETE = "files.completeUploadExternal"
PICTURE = bytes(range(256)) * 300


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as started:
        yield started


async def received(line: Line, content: bytes = PICTURE, mimetype: str = "image/png", **more: Any) -> Attachment:
    file = line.peer.upload(ANNA, "picture.png", content, mimetype, **more)
    await line.peer.say(ANNA, "", subtype="file_share", files=[file])
    await line.heard(lambda: bool(line.door.messages) and bool(line.door.messages[-1].attachments))
    return line.door.messages[-1].attachments[0]


def enclosure(tmp_path: Path, content: bytes = PICTURE) -> OutboundFile:
    path = tmp_path / "copy"
    path.write_bytes(content)
    return OutboundFile(path=path, name="chart.png", media_type="image/png")


@pytest.mark.parametrize(
    ("mimetype", "subtype", "kind"),
    [
        ("image/png", "", "image"),
        ("audio/mp4", "slack_audio", "voice"),
        ("audio/mpeg", "", "audio"),
        ("video/mp4", "slack_video", "video"),
        ("application/pdf", "", "document"),
        ("", "", "document"),
    ],
)
async def test_a_file_comes_with_its_kind_and_is_saved_as_it_is(
    peer: SlackPeer, tmp_path: Path, mimetype: str, subtype: str, kind: str
) -> None:
    line = Line(peer)
    async with line.running():
        attachment = await received(line, mimetype=mimetype, **({"subtype": subtype} if subtype else {}))
        await line.channel.fetch(attachment, tmp_path / "saved", 100_000)
    assert (attachment.kind, attachment.name, attachment.size) == (kind, "picture.png", len(PICTURE))
    assert (tmp_path / "saved").read_bytes() == PICTURE
    assert peer.file_requests == [BOT_TOKEN]


async def test_a_deleted_file_is_none_and_one_of_another_service_is_never_given_the_token(
    peer: SlackPeer, tmp_path: Path
) -> None:
    line = Line(peer)
    async with line.running():
        attachment = await received(
            line, mode="external", url_private=f"http://localhost:{peer.port}/signin", url_private_download=""
        )
        with pytest.raises(NotFetched, match="another service") as caught:
            await line.channel.fetch(attachment, tmp_path / "saved", 100_000)
        gone = peer.upload(ANNA, "old.png", b"x", "image/png", mode="tombstone")
        await peer.say(ANNA, "", files=[gone])
        await peer.say(ANNA, "hm", files=[gone])
        await line.quiet()
    assert caught.value.permanent
    assert peer.file_requests == []
    assert [(one.text, len(one.attachments)) for one in line.door.messages] == [("", 1), ("hm", 0)]


@pytest.mark.parametrize("how", ["page", "redirect", "elsewhere"])
async def test_slacks_sign_in_page_in_place_of_a_file_is_recognised(peer: SlackPeer, tmp_path: Path, how: str) -> None:
    line = Line(peer)
    peer.signed_out = how
    async with line.running():
        attachment = await received(line)
        with pytest.raises(NotFetched, match="sign-in page") as caught:
            await line.channel.fetch(attachment, tmp_path / "saved", 100_000)
    assert "files:read" in caught.value.hint
    assert not (tmp_path / "saved").exists()
    assert [one for one in peer.file_requests if one.startswith("signin")] == [], "no token goes after a redirection"


async def test_a_page_that_is_the_file_is_taken(peer: SlackPeer, tmp_path: Path) -> None:
    line = Line(peer)
    async with line.running():
        attachment = await received(line, b"<html>mine</html>", "text/html")
        await line.channel.fetch(attachment, tmp_path / "saved", 100_000)
    assert (tmp_path / "saved").read_bytes() == b"<html>mine</html>"


@pytest.mark.parametrize("told", [{}, {"size": 10}], ids=["as Slack says", "in spite of what Slack says"])
async def test_a_file_over_the_limit_is_not_kept(peer: SlackPeer, tmp_path: Path, told: dict[str, int]) -> None:
    line = Line(peer)
    async with line.running():
        attachment = await received(line, **told)
        with pytest.raises(NotFetched, match="larger than the limit of 50,000 bytes") as caught:
            await line.channel.fetch(attachment, tmp_path / "saved", 50_000)
    assert caught.value.permanent
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize(
    ("fault", "permanent", "told"),
    [
        ({"kind": "error", "text": "file_deleted"}, True, "gone"),
        ({"kind": "retry_after", "seconds": 100}, False, "wait"),
        ({"kind": "drop_before", "times": 2}, False, "could not be downloaded"),  # aiohttp asks once more by itself
        ({"kind": "status", "code": 503}, False, "could not be downloaded"),
    ],
)
async def test_a_file_that_cannot_be_had_says_whether_to_try_again(
    peer: SlackPeer, tmp_path: Path, fault: dict[str, Any], *, permanent: bool, told: str
) -> None:
    line = Line(peer)
    async with line.running():
        attachment = await received(line)
        peer.fault("files.info", **fault)
        with pytest.raises(NotFetched, match=told) as caught:
            await line.channel.fetch(attachment, tmp_path / "saved", 100_000)
        assert caught.value.permanent == permanent
    assert not (tmp_path / "saved").exists()
    with pytest.raises(NotFetched, match="not connected"):
        await line.channel.fetch(attachment, tmp_path / "saved", 100_000)


async def test_a_scope_that_is_missing_for_files_is_named(peer: SlackPeer, tmp_path: Path) -> None:
    peer.scopes.discard("files:read")
    line = Line(peer)
    async with line.running():
        attachment = await received(line)
        with pytest.raises(NotFetched, match="files:read") as caught:
            await line.channel.fetch(attachment, tmp_path / "saved", 100_000)
    assert "install the app again" in caught.value.hint


@pytest.mark.parametrize(
    ("address", "trusted"),
    [
        ("https://files.slack.com/files-pri/T1-F1/a.png", True),
        ("https://home.slack.com:443/files/a.png", True),
        ("http://files.slack.com/files-pri/T1-F1/a.png", False),
        ("https://files.slack.com.example.org/a.png", False),
        ("https://evilslack.com/a.png", False),
        ("https://files.slack.com@example.org/a.png", False),
        ("https://files.slack.com:8443/a.png", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_the_token_goes_to_slack_alone(address: str, *, trusted: bool) -> None:
    from channels.slack.settings import SlackSettings

    settings = SlackSettings.model_validate({"botToken": "xoxb-1"}).account("default")
    assert may_see_token(address, settings.api_root) == trusted


async def test_a_file_is_sent_whole_and_without_the_token_where_its_bytes_go(peer: SlackPeer, tmp_path: Path) -> None:
    line = Line(peer, channels={ROOM: {}})
    async with line.running():
        first = await peer.say(ANNA, "draw it", channel=ROOM)
        place = ChatAddress(channel="slack", kind="group", id=ROOM, thread=first)
        await line.send("Here *it* is <!channel>", to=place, enclosure=enclosure(tmp_path))
    [message] = shown(peer, ROOM)
    assert (message["files"][0]["name"], message["thread_ts"]) == ("chart.png", first)
    assert message["text"] == "Here _it_ is &lt;!channel&gt;"
    assert peer.home.contents[message["files"][0]["id"]] == PICTURE
    assert peer.pings == []


async def test_a_file_may_have_buttons_under_it_and_no_word(peer: SlackPeer, tmp_path: Path) -> None:
    line = Line(peer)
    async with line.running():
        await line.send("", enclosure=enclosure(tmp_path), buttons=(Button(label="Again", value="/again"),))
        await line.send("keep it?", key="k2", enclosure=enclosure(tmp_path), buttons=(Button(label="Yes", value="/yes"),))
        await peer.press(ANNA, "Yes")
        await line.heard(lambda: bool(line.door.messages))
    assert line.door.messages[0].text == "/yes"
    assert [one["text"] for one in shown(peer)][1] == "keep it?"


@pytest.mark.parametrize("kind", ["drop_after", "status_after", "drop_before"])
async def test_a_doubtful_file_is_seen_once(peer: SlackPeer, tmp_path: Path, kind: str) -> None:
    line = Line(peer)
    async with line.running():
        peer.fault(COMPLETE, kind)
        with pytest.raises(Uncertain):
            await line.send("the chart", enclosure=enclosure(tmp_path))
        [noted] = line.recorded
        await line.send("the chart", enclosure=enclosure(tmp_path), attempt=2, uncertain=True, recorded=noted)
    assert [one["text"] for one in shown(peer)] == ["the chart"]


async def test_a_file_whose_bytes_did_not_arrive_is_surely_not_sent(peer: SlackPeer, tmp_path: Path) -> None:
    line = Line(peer)
    async with line.running():
        before = enclosure(tmp_path)
        peer.home.uploads_at = "http://127.0.0.1:9"
        with pytest.raises(NotSent, match="could not be uploaded"):
            await line.send("", enclosure=before)
        with pytest.raises(NotSent, match="empty") as caught:
            await line.send("", enclosure=enclosure(tmp_path, b""))
        assert caught.value.permanent
        (tmp_path / "copy").unlink()
        with pytest.raises(NotSent, match="cannot be read"):
            await line.send("", enclosure=before)
    assert shown(peer) == []


async def test_a_file_takes_the_place_of_a_preview(peer: SlackPeer, tmp_path: Path) -> None:
    line = Line(peer)
    async with line.running():
        await line.channel.draft(DIRECT, "t", "Let me draw")
        await line.clock.sleep(3)
        await line.channel.draft(DIRECT, "t", "Let me draw it")
        assert [one["text"] for one in shown(peer)] == ["Let me draw it"]
        await line.send("drawn", enclosure=enclosure(tmp_path))
    assert [one["text"] for one in shown(peer)] == ["drawn"]
