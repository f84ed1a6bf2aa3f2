"""Slack calling the house: what is signed is taken, acknowledged after it is durable, and taken once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.protocol import HookRequest
from channels.slack.channel import SlackChannel
from channels.slack.http_mode import Signature
from channels.slack.settings import SlackSettings
from tests.channels.slack_line import ANNA, ROOM, Line, PunctualClock
from tests.patience import PATIENCE
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock
from tests.peers.slack import BOT, BOT_TOKEN, SIGNING_SECRET, SlackPeer
from tests.peers.slack_delivery import Delivery, Envelope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from channels.messages import Cursor, Inbound


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as started:
        yield started


def signed(payload: dict[str, Any], kind: str = "events_api", *, secret: str = SIGNING_SECRET, skew: float = 0) -> HookRequest:
    async def nothing() -> None: ...

    delivery = Delivery(lambda: 3.0, secret, nothing, skew=skew)
    body, headers = delivery.signed(Envelope("e", payload, kind))
    return HookRequest(method="POST", query="", headers=headers, body=body)


def message(text: str = "hi", event_id: str = "Ev1") -> dict[str, Any]:
    event = {
        "type": "message",
        "user": ANNA,
        "text": text,
        "channel": "D00000000",
        "channel_type": "im",
        "ts": "1700000000.000100",
    }
    return {"type": "event_callback", "team_id": "T0HOME001", "api_app_id": "A1", "event_id": event_id, "event": event}


async def test_events_come_as_requests_and_are_answered_after_the_house_has_them(peer: SlackPeer) -> None:
    line = Line(peer, http=True, channels={ROOM: {}})
    async with line.running():
        assert line.channel.hooked
        await peer.say(ANNA, "hello")
        await peer.say(ANNA, f"<@{BOT}> in here", channel=ROOM)
        await line.quiet()
        place = line.door.messages[0].conversation
        await line.send("hello to you", to=place)
        await line.quiet()
    assert line.door.texts == ["hello", "in here"]
    assert peer.said(peer.dm(ANNA)) == ["hello to you"]
    assert peer.connections == 0
    assert {status for _, status, _ in peer.delivery.answers} == {200}


async def test_slack_is_told_the_challenge_it_asks_for(peer: SlackPeer) -> None:
    line = Line(peer, http=True)
    async with line.running():
        answer = await line.channel.hear(signed({"type": "url_verification", "challenge": "c-42", "token": "t"}))
    assert (answer.status, json.loads(answer.body)) == (200, {"challenge": "c-42"})


@pytest.mark.parametrize("body", [b"{not json", b'["a", "list"]', b"null", b'{"type": "event_callback", "event": 5}'])
async def test_what_is_signed_and_no_event_is_refused_and_holds_up_nothing(peer: SlackPeer, body: bytes) -> None:
    line = Line(peer, http=True)
    headers = {**signed(message()).headers}
    base = f"v0:{headers['x-slack-request-timestamp']}:".encode()
    headers["x-slack-signature"] = f"v0={hmac.new(SIGNING_SECRET.encode(), base + body, hashlib.sha256).hexdigest()}"
    async with line.running():
        answer = await line.channel.hear(HookRequest(method="POST", query="", headers=headers, body=body))
        assert answer.status in {200, 400}
        assert (await line.channel.hear(signed(message("after")))).status == 200
        await line.quiet()
    assert line.door.texts == ["after"]


@pytest.mark.sec(23, 25)
async def test_what_is_forged_replayed_or_unsigned_is_refused_without_a_trace(peer: SlackPeer) -> None:
    line = Line(peer, http=True)
    good = signed(message())
    changed = HookRequest(method="POST", query="", headers=good.headers, body=good.body.replace(b"hi", b"ho"))
    bare = HookRequest(method="POST", query="", headers={"content-type": "application/json"}, body=good.body)
    odd = [
        {**good.headers, "x-slack-signature": ""},
        {**good.headers, "x-slack-signature": "v0=é"},
        {**good.headers, "x-slack-signature": good.headers["x-slack-signature"].upper()},
        {**good.headers, "x-slack-request-timestamp": "soon"},
        {**good.headers, "x-slack-request-timestamp": "-1"},
        {**good.headers, "x-slack-request-timestamp": "²"},
    ]
    forged = [
        changed,
        bare,
        signed(message(), secret="f" * 32),
        signed(message(), skew=-330),
        signed(message(), skew=330),
        signed({"type": "url_verification", "challenge": "c"}, secret="f" * 32),
        HookRequest(method="GET", query="", headers=good.headers, body=good.body),
        HookRequest(method="POST", query="", headers=good.headers, body=b"\xff"),
        HookRequest(method="POST", query="", headers={}, body=urlencode({"ssl_check": "1"}).encode()),
        *(HookRequest(method="POST", query="", headers=headers, body=good.body) for headers in odd),
    ]
    async with line.running():
        before = (line.door.lives, len(peer.calls), dict(line.door.cursors), len(line.log.lines))
        answers = [await line.channel.hear(request) for request in forged]
        assert {(answer.status, answer.body) for answer in answers} == {(401, b"")}
        assert (line.door.lives, len(peer.calls), dict(line.door.cursors), len(line.log.lines)) == before
        assert (await line.channel.hear(signed(message(), skew=-270))).status == 200
    assert line.door.texts == ["hi"]


class LateClock(PunctualClock):
    """A clock that is ten minutes behind."""

    def now(self) -> datetime:
        return super().now() - timedelta(minutes=10)


async def test_a_clock_by_which_every_request_seems_forged_is_told(peer: SlackPeer) -> None:
    line = Line(peer, http=True, clock=LateClock())
    assert re.search(r"(599|60\d) seconds behind Slack's", await line.channel.probe())
    async with line.running():
        assert line.log.told("set the clock")
        assert (await line.channel.hear(signed(message()))).status == 401
    right = Line(peer, http=True)
    assert "clock" not in await right.channel.probe()


@given(st.binary(max_size=200), st.binary(min_size=1, max_size=20), st.integers(0, 199))
@pytest.mark.sec(25)
def test_no_other_body_fits_a_signature(body: bytes, instead: bytes, at: int) -> None:
    given = {"botToken": BOT_TOKEN, "signingSecret": SIGNING_SECRET, "mode": "http"}
    signature = Signature(SlackSettings.model_validate(given).account("default"), PunctualClock())
    text = body.decode("utf-8", "ignore").encode()
    request = signed({"text": text.decode()})
    other = request.body[:at] + instead + request.body[at + len(instead) :]
    assert signature.fits(request.body, request.headers)
    assert signature.fits(other, request.headers) == (other == request.body)


async def test_what_is_offered_again_is_taken_once_and_never_dropped(peer: SlackPeer) -> None:
    line = Line(peer, http=True)
    async with line.running():
        line.door.refuse = OSError("disk full")
        await peer.say(ANNA, "once")
        await peer.until(lambda: any(one.attempt >= 2 for one in peer.waiting.values()))
        line.door.refuse = None
        await line.quiet()
        for skew in (0, 3):
            assert (await line.channel.hear(signed(message("again"), skew=skew))).status == 200
    assert line.door.texts == ["once", "again"]
    assert [status for _, status, _ in peer.delivery.answers][-1] == 200
    assert 503 in [status for _, status, _ in peer.delivery.answers]
    assert line.log.told("delivers an event again")


@pytest.mark.sec(25)
async def test_a_copy_of_a_request_is_refused_once_the_request_was_taken(peer: SlackPeer) -> None:
    line = Line(peer, http=True)
    async with line.running():
        copied = signed(message())
        line.door.refuse = OSError("disk full")
        assert (await line.channel.hear(copied)).status == 503
        line.door.refuse = None
        assert [(await line.channel.hear(copied)).status for _ in range(3)] == [200, 401, 401]
    assert line.door.texts == ["hi"]


async def test_what_slack_gave_up_is_read_when_the_house_can_store_again(peer: SlackPeer) -> None:
    line = Line(peer, http=True, pingSeconds=0.05)
    async with line.running():
        await peer.say(ANNA, "before")
        await line.quiet()
        line.door.refuse = OSError("disk full")
        await peer.say(ANNA, "given up")
        await peer.until(lambda: bool(peer.given_up))
        line.door.refuse = None
        await peer.say(ANNA, "after")
        await line.heard(lambda: len(line.door.texts) == 3)
    assert sorted(line.door.texts) == ["after", "before", "given up"]


class SlowDoor(BookDoor):
    """A house that takes its time over one message."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        if [one.text for one in messages] == ["slow"] and not self.begun.is_set():
            self.begun.set()
            await asyncio.Event().wait()
        await super().accept(messages, cursor)


async def test_a_request_that_ends_before_its_answer_is_read_later(peer: SlackPeer) -> None:
    line = Line(peer, http=True, pingSeconds=0.05)
    line.door = door = SlowDoor()
    async with line.running():
        await peer.say(ANNA, "before")
        await line.quiet()
        peer.ack_seconds = 0.1
        peer.call_at(None)
        stamp = await peer.say(ANNA, "slow")
        event = {**message("slow")["event"], "channel": peer.dm(ANNA), "ts": stamp}
        request = asyncio.ensure_future(line.channel.hear(signed({**message(), "event": event})))
        await door.begun.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await line.heard(lambda: len(door.texts) == 2)
    assert door.texts == ["before", "slow"]


async def test_what_was_written_while_the_house_slept_is_read_on_starting(peer: SlackPeer) -> None:
    first = Line(peer, http=True)
    async with first.running():
        await peer.say(ANNA, "before")
        await first.quiet()
    peer.call_at(None)
    await peer.say(ANNA, "meanwhile")
    peer.waiting.clear()
    second = Line(peer, http=True, cursors=first.door.cursors)
    async with second.running():
        assert second.door.texts == ["meanwhile"]


async def test_before_it_runs_and_in_socket_mode_nothing_is_heard(peer: SlackPeer) -> None:
    line = Line(peer, http=True)
    assert (await line.channel.hear(signed(message()))).status == 503
    async with line.running():
        pass
    assert (await line.channel.hear(signed(message()))).status == 503
    assert line.door.messages == []
    other = Line(peer)
    assert not other.channel.hooked
    assert (await other.channel.hear(signed(message()))).status == 404


async def test_buttons_and_commands_come_as_forms(peer: SlackPeer) -> None:
    from channels.messages import Button

    line = Line(peer, http=True)
    async with line.running():
        await peer.say(ANNA, "hi")
        await line.quiet()
        await line.send("Shall I?", buttons=(Button(label="Yes", value="/yes 1"),))
        await peer.press(ANNA, "Yes")
        await peer.command(ANNA, "what is the time?")
        await line.quiet()
    assert [(one.event, one.text) for one in line.door.messages] == [
        ("message", "hi"),
        ("button", "/yes 1"),
        ("message", "what is the time?"),
    ]
    assert peer.responses[-1]["response_type"] == "ephemeral"


async def test_a_token_that_is_taken_back_meanwhile_is_told(peer: SlackPeer) -> None:
    from channels.errors import ChannelBroken

    line = Line(peer, http=True, pingSeconds=0.02)
    async with line.running() as task:
        peer.bot_token = "xoxb-another"
        with pytest.raises(ChannelBroken, match="botToken is not accepted"):
            await asyncio.wait_for(task, PATIENCE)


@pytest.mark.parametrize("secret", ["", "   ", "short", BOT_TOKEN, "xapp-1-A1-longenoughforasecret"])
@pytest.mark.sec(23)
async def test_without_a_signing_secret_the_channel_does_not_start(peer: SlackPeer, secret: str) -> None:
    from channels.errors import ChannelBroken

    given = {"botToken": BOT_TOKEN, "signingSecret": secret, "mode": "http", "apiRoot": peer.root}
    channel = SlackChannel(SlackSettings.model_validate(given), "default", clock=FastClock())
    with pytest.raises(ChannelBroken, match="signingSecret") as caught:
        await channel.run(Line(peer).door)
    assert "Signing Secret" in caught.value.hint
    assert peer.calls == []
    assert (await channel.hear(signed(message(), secret=secret or "x"))).status == 503
