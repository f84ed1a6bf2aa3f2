"""The peer must be as strict as the real server, or the tests that use it prove nothing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.peers.slack import APP_TOKEN, BOT, BOT_TOKEN, SIGNING_SECRET, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANNA, ROOM = "UANNA0001", "CROOM0001"
METADATA = {"event_type": "a", "event_payload": {}}
BUTTON = {"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "Yes"}, "value": "1"}


class Client:
    """A client without any manners of its own."""

    def __init__(self, session: aiohttp.ClientSession, peer: SlackPeer) -> None:
        self.session = session
        self.peer = peer

    async def call(self, method: str, token: str = BOT_TOKEN, **arguments: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        async with self.session.post(f"{self.peer.root}/{method}", json=arguments, headers=headers) as response:
            answer: dict[str, Any] = await response.json()
            return answer

    async def refusal(self, method: str, **arguments: Any) -> str:
        return str((await self.call(method, **arguments)).get("error"))

    async def post(self, text: str = "hi", **more: Any) -> str:
        return str((await self.call("chat.postMessage", channel=ROOM, text=text, **more))["ts"])

    async def connect(self) -> aiohttp.ClientWebSocketResponse:
        url = (await self.call("apps.connections.open", token=APP_TOKEN))["url"]
        socket = await self.session.ws_connect(url)
        assert (await socket.receive_json())["type"] == "hello"
        return socket


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with SlackPeer() as peer, aiohttp.ClientSession() as session:
        peer.messages[ROOM] = []
        yield Client(session, peer)


@pytest.mark.parametrize(
    ("method", "token", "error"),
    [
        ("auth.test", "xoxb-other", "invalid_auth"),
        ("auth.test", APP_TOKEN, "not_allowed_token_type"),
        ("apps.connections.open", BOT_TOKEN, "not_allowed_token_type"),
    ],
)
async def test_a_wrong_token_is_refused(client: Client, method: str, token: str, error: str) -> None:
    assert (await client.call(method, token=token))["error"] == error


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"text": ""}, "no_text"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"markdown_text": "x", "text": "x"}, "markdown_text_conflict"),
        ({"markdown_text": "x", "blocks": [{"type": "markdown", "text": "x"}]}, "markdown_text_conflict"),
        ({"text": "x", "channel": "CNONE0001"}, "channel_not_found"),
        ({"text": "x", "thread_ts": "1.1"}, "thread_not_found"),
        ({"text": "x", "metadata": {"key": "k"}}, "metadata_must_be_sent_with_event_type_and_payload"),
        ({"text": "x", "blocks": [{"type": "markdown", "text": "x" * 12_001}]}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "actions", "elements": []}]}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "actions", "elements": [BUTTON, BUTTON]}]}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "actions", "elements": [{**BUTTON, "value": "v" * 2001}]}]}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "poem"}]}, "invalid_blocks"),
    ],
)
async def test_what_slack_refuses_to_post_is_refused(client: Client, arguments: dict[str, Any], error: str) -> None:
    assert await client.refusal("chat.postMessage", **{"channel": ROOM, **arguments}) == error
    assert client.peer.said(ROOM) == []


async def test_a_thread_hangs_on_a_message_that_is_no_reply(client: Client) -> None:
    first = await client.post()
    reply = await client.post(thread_ts=first)
    assert await client.refusal("chat.postMessage", channel=ROOM, text="x", thread_ts=reply) == "thread_not_found"
    page = await client.call("conversations.replies", channel=ROOM, ts=first)
    assert [one["ts"] for one in page["messages"]] == [first, reply]
    assert (page["messages"][0]["reply_count"], page["messages"][0]["latest_reply"]) == (1, reply)
    assert [one["ts"] for one in (await client.call("conversations.history", channel=ROOM))["messages"]] == [first]


async def test_metadata_is_shown_to_who_asks_for_it(client: Client) -> None:
    await client.post(metadata=METADATA)
    assert "metadata" not in (await client.call("conversations.history", channel=ROOM))["messages"][0]
    page = await client.call("conversations.history", channel=ROOM, include_all_metadata="true")
    assert page["messages"][0]["metadata"] == METADATA


async def test_only_ones_own_messages_are_edited_and_to_less_than_are_posted(client: Client) -> None:
    theirs, ours = await client.peer.say(ANNA, "hi", channel=ROOM), await client.post()
    edit = {"channel": ROOM, "text": "x"}
    assert await client.refusal("chat.update", **edit, ts=theirs) == "cant_update_message"
    assert await client.refusal("chat.update", **edit, ts="1.1") == "message_not_found"
    assert await client.refusal("chat.update", channel=ROOM, ts=ours, text="x" * 4001) == "msg_too_long"
    assert await client.refusal("chat.delete", channel=ROOM, ts=theirs) == "cant_delete_message"


async def test_a_stream_only_grows_and_is_edited_after_its_end_alone(client: Client) -> None:
    first = await client.peer.say(ANNA, "go", channel=ROOM)
    start = {"channel": ROOM, "thread_ts": first, "markdown_text": "a"}
    assert await client.refusal("chat.startStream", **start) == "missing_recipient_user_id"
    assert await client.refusal("chat.startStream", **start, recipient_user_id=ANNA) == "missing_recipient_team_id"
    who = {"recipient_user_id": ANNA, "recipient_team_id": "T0HOME001"}
    assert await client.refusal("chat.startStream", channel=ROOM, markdown_text="a", **who) == "invalid_thread_ts"
    stream = {"channel": ROOM, "ts": (await client.call("chat.startStream", **start, **who))["ts"]}
    await client.call("chat.appendStream", **stream, markdown_text="b")
    assert await client.refusal("chat.update", **stream, text="x") == "streaming_state_conflict"
    assert await client.refusal("chat.delete", **stream) == "cant_delete_message"
    assert await client.refusal("chat.appendStream", **stream, markdown_text="c" * 12_000) == "msg_too_long"
    await client.call("chat.stopStream", **stream, markdown_text="c")
    assert client.peer.said(ROOM) == ["abc"]
    for method in ("chat.appendStream", "chat.stopStream"):
        assert await client.refusal(method, **stream, markdown_text="d") == "message_not_in_streaming_state"
    assert (await client.call("chat.update", **stream, text="x"))["ok"]


@pytest.mark.parametrize("text", ["<!channel>", "<!here|here>", "<@U012>", "<!subteam^S1>"])
@pytest.mark.parametrize("where", ["text", "markdown_text", "block"])
async def test_who_is_called_together_is_noted_wherever_it_stands(client: Client, text: str, where: str) -> None:
    said = {"text": "x", "blocks": [{"type": "markdown", "text": text}]} if where == "block" else {where: text}
    await client.call("chat.postMessage", channel=ROOM, **said)
    assert client.peer.pings


async def test_emoji_are_put_once_and_by_their_names(client: Client) -> None:
    given = {"channel": ROOM, "timestamp": await client.post(), "name": "eyes"}
    assert await client.refusal("reactions.add", **{**given, "name": "👀"}) == "invalid_name"
    assert (await client.call("reactions.add", **given))["ok"]
    assert await client.refusal("reactions.add", **given) == "already_reacted"
    assert (await client.call("reactions.get", **given))["message"]["reactions"][0]["users"] == [BOT]
    assert (await client.call("reactions.remove", **given))["ok"]
    assert await client.refusal("reactions.remove", **given) == "no_reaction"
    assert await client.refusal("reactions.add", **{**given, "timestamp": "1.1"}) == "message_not_found"


@pytest.mark.parametrize(
    ("scope", "method", "arguments"),
    [
        ("history", "conversations.history", {"channel": ROOM}),
        ("files:read", "files.info", {"file": "F1"}),
        ("files:write", "files.getUploadURLExternal", {"filename": "a", "length": 1}),
        ("reactions:write", "reactions.add", {"channel": ROOM}),
    ],
)
async def test_a_scope_that_is_missing_is_named(client: Client, scope: str, method: str, arguments: dict[str, Any]) -> None:
    client.peer.scopes.discard(scope)
    answer = await client.call(method, **arguments)
    assert (answer["error"], scope in answer["needed"]) == ("missing_scope", True)


async def test_a_file_is_seen_when_its_upload_is_completed_and_as_long_as_was_said(client: Client) -> None:
    place = await client.call("files.getUploadURLExternal", filename="a.txt", length=3)
    wanted = {"files": json.dumps([{"id": place["file_id"], "title": "a"}]), "channel_id": ROOM}
    assert await client.refusal("files.completeUploadExternal", **wanted) == "file_not_found"
    async with client.session.post(place["upload_url"], data=b"abcd") as answer:
        assert answer.status == 400
    async with client.session.post(place["upload_url"], data=b"abc", headers={"Authorization": "Bearer x"}) as answer:
        assert answer.status == 400
    async with client.session.post(place["upload_url"], data=b"abc") as answer:
        assert answer.status == 200
    assert client.peer.said(ROOM) == []
    markdown = json.dumps([{"type": "markdown", "text": "x"}])
    assert await client.refusal("files.completeUploadExternal", **wanted, blocks=markdown) == "internal_error"
    assert (await client.call("files.completeUploadExternal", **wanted, initial_comment="here"))["ok"]
    assert client.peer.said(ROOM) == ["here"]
    assert await client.refusal("files.completeUploadExternal", **wanted) == "file_not_found"


async def test_a_file_is_given_to_the_token_alone(client: Client) -> None:
    file = client.peer.upload(ANNA, "a.png", b"png", "image/png")
    for headers, expected in (({"Authorization": f"Bearer {BOT_TOKEN}"}, b"png"), ({}, b"<!DOCTYPE")):
        async with client.session.get(file["url_private"], headers=headers) as answer:
            assert (await answer.read()).startswith(expected)


async def test_an_envelope_that_is_not_acknowledged_comes_again_and_a_strange_acknowledgement_ends_the_connection(
    client: Client,
) -> None:
    client.peer.ack_seconds = 0.02
    socket = await client.connect()
    await client.peer.say(ANNA, "hi")
    first, again = await socket.receive_json(), await socket.receive_json()
    assert (first["retry_attempt"], again["retry_attempt"]) == (0, 1)
    assert first["envelope_id"] != again["envelope_id"]
    assert first["payload"]["event_id"] == again["payload"]["event_id"]
    await client.peer.until(lambda: len(client.peer.given_up) == 1)
    await socket.send_json({"envelope_id": "env-none"})
    while (frame := await socket.receive()).type is aiohttp.WSMsgType.TEXT:
        pass
    assert frame.type is aiohttp.WSMsgType.CLOSE


async def test_a_ticket_opens_one_connection(client: Client) -> None:
    url = (await client.call("apps.connections.open", token=APP_TOKEN))["url"]
    await client.session.ws_connect(url)
    with pytest.raises(aiohttp.WSServerHandshakeError):
        await client.session.ws_connect(url)


async def test_requests_are_signed_over_their_raw_bodies_and_come_again(client: Client) -> None:
    heard: list[tuple[bytes, dict[str, str]]] = []

    async def hear(body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        heard.append((body, headers))
        return (500, b"") if len(heard) == 1 else (200, b"")

    client.peer.call_at(hear)
    await client.peer.say(ANNA, "é")
    await client.peer.until(lambda: not client.peer.waiting and len(heard) == 2)
    for body, headers in heard:
        base = f"v0:{headers['x-slack-request-timestamp']}:".encode() + body
        assert headers["x-slack-signature"] == "v0=" + hmac.new(SIGNING_SECRET.encode(), base, hashlib.sha256).hexdigest()
    assert "x-slack-retry-num" not in heard[0][1]
    assert (heard[1][1]["x-slack-retry-num"], heard[1][1]["x-slack-retry-reason"]) == ("1", "http_error")


@pytest.mark.parametrize(
    ("kind", "effect"),
    [("drop_before", 0), ("drop_after", 1), ("status", 0), ("status_after", 1), ("error", 0), ("retry_after", 0)],
)
async def test_a_fault_has_its_effect_or_none(client: Client, kind: str, effect: int) -> None:
    client.peer.fault("chat.postMessage", kind, code=503, seconds=9, text="is_archived")
    try:
        answer = await client.call("chat.postMessage", channel=ROOM, text="x")
        assert not answer["ok"]
    except aiohttp.ClientError:
        assert kind.startswith("drop")
    assert len(client.peer.said(ROOM)) == effect
    assert (await client.call("chat.postMessage", channel=ROOM, text="x"))["ok"]


async def test_it_runs_as_its_own_process() -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "tests/peers/slack.py",
        "--port",
        "0",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "HOMEBODY_FIRE_MOOD": "calm"},
    )
    try:
        assert program.stdout is not None
        told = json.loads(await program.stdout.readline())
        control = told["root"].removesuffix("api") + "control/"
        async with aiohttp.ClientSession() as session:

            async def do(what: str, **asked: Any) -> Any:
                async with session.post(control + what, json=asked) as answer:
                    assert answer.status == 200, await answer.text()
                    return await answer.json()

            stamp = await do("say", user=ANNA, text="hi")
            await do("edit", user=ANNA, stamp=stamp, text="hello")
            await do("fault", method="auth.test", kind="error", text="invalid_auth")
            headers = {"Authorization": f"Bearer {told['botToken']}"}
            async with session.post(told["root"] + "/auth.test", headers=headers) as answer:
                assert (await answer.json())["error"] == "invalid_auth"
            channel = (
                await (await session.post(told["root"] + "/conversations.open", json={"users": ANNA}, headers=headers)).json()
            )["channel"]["id"]
            await session.post(
                told["root"] + "/chat.postMessage", json={"channel": channel, "text": "good day"}, headers=headers
            )
            assert await do("said", user=ANNA) == ["good day"]
            assert await do("state") == {
                "waiting": 3,
                "calls": ["auth.test", "conversations.open", "chat.postMessage"],
                "connections": 0,
            }
    finally:
        program.terminate()
        await program.wait()
