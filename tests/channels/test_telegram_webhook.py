"""Being called by Telegram: the peer calls a small HTTP door, as the gateway's, which hands the call on."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import pytest
from aiohttp import web

from channels.errors import ChannelBroken
from channels.protocol import HookRequest
from channels.telegram.webhook import address_of
from tests.channels.telegram_line import ANNA, Line
from tests.peers.hasty import FastClock
from tests.peers.mood import CALM
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECRET = "s3cret_of_the_hook_0123456789"
HEADER = "x-telegram-bot-api-secret-token"


class HttpServer:
    """What the gateway does with a call: the channel decides, and its answer goes back."""

    def __init__(self) -> None:
        self.line: Line | None = None
        self.port = 0
        self.statuses: list[int] = []

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/hooks/telegram/default", self._hear)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _hear(self, request: web.Request) -> web.Response:
        assert self.line is not None
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = HookRequest(method=request.method, query=request.query_string, headers=headers, body=await request.read())
        answer = await self.line.channel.hear(asked)
        self.statuses.append(answer.status)
        return web.Response(status=answer.status, body=answer.body)


class RestingClock(FastClock):
    """A clock whose sleepers rest for a moment, so that looking after a webhook is no busy loop."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.01)


@asynccontextmanager
async def hooked(**settings: Any) -> AsyncIterator[tuple[Line, HttpServer]]:
    async with HttpServer() as door, TelegramPeer(local=True) as peer:
        given = {"webhookUrl": f"http://127.0.0.1:{door.port}", "webhookSecret": SECRET, **settings}
        door.line = Line(peer, clock=RestingClock(), **{key: value for key, value in given.items() if value is not None})
        yield door.line, door
        await door.line.channel.close()


def call(update: object = None, secret: str | None = SECRET, method: str = "POST") -> HookRequest:
    update = update if update is not None else {"update_id": 1}
    body = update if isinstance(update, bytes) else json.dumps(update).encode()
    return HookRequest(method=method, query="", headers={} if secret is None else {HEADER: secret}, body=body)


async def test_messages_come_in_order_and_are_confirmed_only_when_the_house_has_them() -> None:
    async with hooked() as (line, door):
        line.peer.mood = CALM  # each update is counted
        assert line.channel.hooked
        line.door.refuse = OSError("disk full")
        async with line.running():
            await line.peer.until(lambda: bool(line.peer.webhook.url))
            for number in range(5):
                await line.peer.say(ANNA, f"message {number}")
            await line.door.until(lambda: line.door.refused == 2)
            assert line.peer.unconfirmed == 5
            line.door.refuse = None
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
    assert line.door.texts == [f"message {number}" for number in range(5)]
    assert set(door.statuses[:-5]) == {503}
    assert door.statuses[-5:] == [200] * 5
    assert line.door.cursors == {"offset": "5005"}
    assert line.door.readied == 1
    assert line.peer.count("getUpdates") == 0


async def test_the_webhook_is_set_with_its_secret_and_the_kinds_that_are_read() -> None:
    async with hooked() as (line, door):
        async with line.running():
            await line.peer.until(lambda: line.peer.count("getWebhookInfo") > 2)
        assert line.peer.webhook.url == f"http://127.0.0.1:{door.port}/hooks/telegram/default"
        [arguments] = [arguments for name, arguments in line.peer.calls if name == "setWebhook"]
    assert arguments["secret_token"] == SECRET
    assert "callback_query" in arguments["allowed_updates"]
    assert arguments["max_connections"] == "1"


@pytest.mark.parametrize("secret", [None, "", SECRET[:-1], SECRET + "0", SECRET.upper(), "ß" * 24])
async def test_a_forged_call_is_refused_and_leaves_no_trace(secret: str | None) -> None:
    update = {
        "update_id": 1,
        "message": {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}, "text": "let me in"},
    }
    async with hooked() as (line, _), line.running():
        await line.peer.until(lambda: line.peer.count("setWebhook") == 1)
        lives = len(line.log.events)
        for forged in (call(update, secret), call(b"{", secret), call(update, secret, "GET")):
            assert (await line.channel.hear(forged)).status == 401
        assert (line.door.messages, line.door.cursors, len(line.log.events)) == ([], {}, lives)


async def test_before_it_runs_a_call_is_put_off_and_a_forged_one_refused() -> None:
    async with hooked() as (line, _):
        assert (await line.channel.hear(call())).status == 503
        assert (await line.channel.hear(call(secret="x"))).status == 401
        async with line.running():
            await line.peer.until(lambda: line.peer.count("setWebhook") == 1)
            assert (await line.channel.hear(call())).status == 200
        assert (await line.channel.hear(call())).status == 503


@pytest.mark.parametrize(
    ("body", "method", "status"), [(b"", "POST", 400), (b"[1]", "POST", 400), (b"{}", "POST", 400), (b"", "GET", 405)]
)
async def test_a_call_that_is_no_update_is_refused(body: bytes, method: str, status: int) -> None:
    async with hooked() as (line, _), line.running():
        await line.peer.until(lambda: line.peer.count("setWebhook") == 1)
        assert (await line.channel.hear(call(body or b" ", method=method))).status == status


async def test_an_update_that_cannot_be_read_is_taken_so_that_it_does_not_come_for_ever() -> None:
    async with hooked() as (line, _), line.running():
        await line.peer.until(lambda: line.peer.count("setWebhook") == 1)
        strange = {"update_id": 9, "message": {"message_id": 1, "date": 1, "chat": {"nonsense": True}}}
        assert (await line.channel.hear(call(strange))).status == 200
    assert line.door.cursors == {"offset": "10"}


async def test_without_a_secret_the_webhook_does_not_start() -> None:
    async with hooked(webhookSecret=None) as (line, _):
        with pytest.raises(ChannelBroken, match="webhookSecret is not set") as caught:
            await line.channel.run(line.door)
        assert (await line.channel.hear(call(secret=""))).status == 401
    assert "openssl rand" in caught.value.hint


async def test_an_address_that_telegram_does_not_take_is_told_with_the_mend() -> None:
    async with TelegramPeer() as peer:
        line = Line(peer, webhookUrl="http://home.example.org", webhookSecret=SECRET)
        with pytest.raises(ChannelBroken, match="https url must be provided") as caught:
            await line.channel.run(line.door)
        await line.channel.close()
    assert "https" in caught.value.hint


async def test_a_wrong_token_ends_the_webhook_too() -> None:
    async with TelegramPeer() as peer:
        line = Line(peer, webhookUrl="https://home.example.org", webhookSecret=SECRET)
        line.peer.token = "1000:BBExampleTokenThatNobodyKnowsAtAll00"
        with pytest.raises(ChannelBroken, match="is not accepted"):
            await line.channel.run(line.door)
        await line.channel.close()


async def test_passing_trouble_with_the_webhook_is_waited_out() -> None:
    async with hooked() as (line, _):
        line.peer.fault("getMe", "status", times=2)
        line.peer.fault("getWebhookInfo", "drop_before")
        line.peer.fault("setWebhook", "retry_after", seconds=9)
        async with line.running():
            await line.peer.until(lambda: line.peer.count("setWebhook") == 2)
    assert line.clock.slept[:4] == [1.0, 2.0, 4.0, 9.0]


async def test_a_webhook_that_somebody_changed_is_set_again() -> None:
    async with hooked() as (line, door):
        async with line.running():
            await line.peer.until(lambda: line.peer.count("setWebhook") == 1)
            line.peer.webhook.url = "http://127.0.0.1:9/elsewhere"
            await line.peer.until(lambda: line.peer.count("setWebhook") == 2)
        assert line.peer.webhook.url.endswith(f":{door.port}/hooks/telegram/default")


async def test_what_keeps_telegram_from_calling_is_told_once() -> None:
    async with hooked() as (line, _):
        line.peer.webhook.error, line.peer.webhook.error_at = "Connection refused", 1_790_000_000
        async with line.running():
            await line.peer.until(lambda: line.peer.count("getWebhookInfo") > 4)
    assert len([event for event in line.log.events if "Connection refused" in event]) == 1


async def test_one_message_through_the_webhook_and_by_polling_is_taken_once() -> None:
    async with hooked() as (line, _):
        async with line.running():
            await line.peer.until(lambda: line.peer.count("setWebhook") == 1)
            await line.peer.say(ANNA, "once")
            await line.heard()
            await line.peer.until(lambda: line.peer.unconfirmed == 0)
        polling = Line(line.peer)
        polling.door = line.door
        await line.peer.inject("message", line.peer.chats.messages[ANNA][0])
        await line.peer.say(ANNA, "and by polling")
        async with polling.running():
            await line.heard(2)
        await polling.channel.close()
        assert line.peer.webhook.url == ""
    assert line.door.texts == ["once", "and by polling"]


def test_an_address_with_a_path_is_kept() -> None:
    assert address_of("https://a.example", "work") == "https://a.example/hooks/telegram/work"
    assert address_of("https://a.example/tg", "work") == "https://a.example/tg"
