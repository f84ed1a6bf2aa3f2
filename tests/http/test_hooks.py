"""Calls of platforms: what reaches a channel, what never does, and that nothing else is opened by it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from channels.protocol import HookAnswer
from gateway.api.middleware import HOOKS, LARGEST_HOOK_BODY
from gateway.api.routes.health import health_routes
from gateway.api.routes.webhooks import Webhooks
from gateway.api.server import serve_tcp
from gateway.base.api_token import FixedToken
from gateway.base.errors import StorageFailed
from gateway.settings.http_settings import GatewaySettings
from tests.peers.checks import refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.protocol import HookRequest

TOKEN = "k3XqvT0b9LrWm5ZsYd8HcN2p"


@dataclass
class Called:
    """A channel that takes calls which carry its secret, and writes them down."""

    hooked: bool = True
    heard: list[HookRequest] = field(default_factory=list)
    fails: Exception | None = None

    async def hear(self, request: HookRequest) -> HookAnswer:
        if self.fails is not None:
            raise self.fails
        if request.headers.get("x-secret") != "s3cret":
            return HookAnswer(status=401)
        self.heard.append(request)
        return HookAnswer(status=202, body=b"taken", headers={"Content-Type": "text/x-odd", "X-More": "1"})


@contextlib.asynccontextmanager
async def serving(channel: Called | Literal["unknown", "not running"], **settings: object) -> AsyncIterator[int]:
    async def facts() -> dict[str, object]:
        return {}

    def find(name: str, account: str) -> Called | Literal["unknown", "not running"]:
        return channel if (name, account) == ("slack", "default") else "unknown"

    log = structlog.get_logger("gateway.http")
    routes = [*health_routes(ready={}, status=facts, log=log), *Webhooks(find, log).routes()]
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = GatewaySettings(port=0, **settings)
    running = asyncio.create_task(serve_tcp(routes, settings, token=FixedToken(TOKEN), log=log, started=port.set_result))
    try:
        yield await port
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def call(
    port: int, target: str, *lines: str, method: str = "POST", body: bytes = b"", length: int | None = None
) -> tuple[int, str, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [
        f"{method} {target} HTTP/1.1",
        *lines,
        f"Content-Length: {len(body) if length is None else length}",
        "Connection: close",
        "",
        "",
    ]
    try:
        writer.write("\r\n".join(head).encode("latin-1") + body)
        told = await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    top, _, answer = told.partition(b"\r\n\r\n")
    return int(top.split()[1]), top.decode().lower(), answer


SIGNED = ("Host: home.example", "Origin: https://anywhere.example", "X-Secret: s3cret")


async def test_a_genuine_call_reaches_its_channel_as_it_came_whatever_it_is_addressed_to() -> None:
    channel = Called()
    async with serving(channel) as port:
        status, head, body = await call(port, "/hooks/slack/default?a=1&b=%20", *SIGNED, "X-Two: 1", "X-Two: 2", body=b"\x00{}")
    assert (status, body) == (202, b"taken")
    assert "content-type: text/x-odd" in head
    assert "x-more: 1" in head
    assert "cache-control: no-store" in head
    (heard,) = channel.heard
    assert (heard.method, heard.query, heard.body) == ("POST", "a=1&b=%20", b"\x00{}")
    assert (heard.headers["x-secret"], heard.headers["x-two"]) == ("s3cret", "1, 2")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_other_methods_are_the_channels_to_judge(method: str) -> None:
    channel = Called()
    async with serving(channel) as port:
        assert (await call(port, "/hooks/slack/default", *SIGNED, method=method))[0] == 202
    assert channel.heard[0].method == method


async def test_a_forged_call_gets_the_channels_refusal_and_nothing_else() -> None:
    channel = Called()
    async with serving(channel) as port:
        forged = ("Host: home.example", "X-Secret: guess", f"Authorization: Bearer {TOKEN}")
        assert (await call(port, "/hooks/slack/default", *forged, body=b"{}"))[0] == 401
    assert channel.heard == []


@pytest.mark.parametrize(
    "target",
    ["/hooks/slack/other", "/hooks/teams/default", "/hooks/slack", "/hooks/", "/hooks/slack/default/more", "/hooks//default"],
)
async def test_nobody_is_called_at_another_address(target: str) -> None:
    channel = Called()
    async with serving(channel) as port:
        assert (await call(port, target, *SIGNED))[0] == 404
    assert channel.heard == []


@pytest.mark.parametrize(
    "target", ["/status", "/healthz", "/hooks", "/hooks%2Fslack", "//hooks/slack/default", "/status/../hooks/x/y"]
)
async def test_nothing_beside_the_calls_may_be_addressed_by_another_name(target: str) -> None:
    async with serving(Called()) as port:
        status, _, body = await call(port, target, "Host: home.example", f"Authorization: Bearer {TOKEN}", method="GET")
    assert status == 403 or (b"not-found" in body and status == 404 and target.startswith("/hooks%2F"))


@pytest.mark.parametrize("target", ["/hooks/../status", "/hooks/%2e%2e/status", "/hooks/slack/..%2f..%2fstatus"])
@pytest.mark.sec(4)
async def test_no_way_leads_from_the_calls_to_what_needs_a_name(target: str) -> None:
    async with serving(Called()) as port:
        status, _, _ = await call(port, target, "Host: home.example", f"Authorization: Bearer {TOKEN}", method="GET")
    assert status == 404


async def test_a_call_through_an_unknown_proxy_is_refused_with_the_setting_that_lets_it_in() -> None:
    channel = Called()
    async with serving(channel) as port:
        status, _, body = await call(port, "/hooks/slack/default", *SIGNED, "X-Forwarded-For: 192.0.2.1")
        assert (status, b"gateway.trustedProxies" in body) == (403, True)
    async with serving(channel, trusted_proxies=["127.0.0.1"]) as port:
        assert (await call(port, "/hooks/slack/default", *SIGNED, "X-Forwarded-For: 192.0.2.1"))[0] == 202
    assert len(channel.heard) == 1


async def test_a_body_that_is_too_large_never_reaches_the_channel() -> None:
    channel = Called()
    async with serving(channel) as port:
        assert (await call(port, "/hooks/slack/default", *SIGNED, length=LARGEST_HOOK_BODY + 1))[0] == 413
        assert (await call(port, "/hooks/slack/default", *SIGNED, body=b"x" * LARGEST_HOOK_BODY))[0] == 202
    assert len(channel.heard) == 1


async def test_a_channel_that_does_not_run_asks_to_be_called_again() -> None:
    async with serving("not running") as port:
        status, head, _ = await call(port, "/hooks/slack/default", *SIGNED)
    assert (status, "retry-after" in head) == (503, True)


async def test_what_cannot_be_stored_is_to_be_sent_again() -> None:
    async with serving(Called(fails=StorageFailed("full", where="x", hint="y"))) as port:
        assert (await call(port, "/hooks/slack/default", *SIGNED))[0] == 503


@given(st.text(max_size=12), st.sampled_from([b"127.0.0.1:1", b"evil.example"]))
def test_only_what_lies_below_hooks_is_spared_the_name(path: str, host: bytes) -> None:
    for whole in (path, f"/{path}", HOOKS + path, HOOKS.rstrip("/") + path):
        scope = {"type": "http", "path": whole, "headers": [(b"host", host)], "client": ("127.0.0.1", 1)}
        refused = refusal(scope, GatewaySettings(), 1)
        assert (refused is None) == (host == b"127.0.0.1:1" or whole.startswith("/hooks/"))


@dataclass
class Early(Called):
    """A channel that tells a forged call by its headers."""

    def refuses(self, request: HookRequest) -> HookAnswer | None:
        assert request.body == b""
        return None if request.headers.get("x-secret") == "s3cret" else HookAnswer(status=401)


async def said(port: int, sent: bytes, *, ends: bool = False) -> bytes:
    """Send bytes and read what comes until the connection ends; ``ends``: nothing more will be sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    if ends:
        writer.write_eof()
    got = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return got


HEAD = b"POST /hooks/slack/default HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.sec(24)
async def test_a_forged_call_is_refused_before_its_body_is_there_and_its_connection_ends() -> None:
    channel = Early()
    async with serving(channel) as port:
        got = await said(port, HEAD + b"Content-Length: 900000\r\n\r\nabc")
        assert got.startswith(b"HTTP/1.1 401")
        assert b"connection: close" in got.lower()
        assert channel.heard == []
        assert (await call(port, "/hooks/slack/default", "Host: x", "X-Secret: s3cret", body=b"hi"))[0] == 202
        assert channel.heard[0].body == b"hi"


@pytest.mark.sec(12)
async def test_a_body_whose_end_is_said_twice_is_refused_and_nothing_behind_it_is_read() -> None:
    channel = Called()
    async with serving(channel) as port:
        twice = b"X-Secret: s3cret\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        got = await said(port, HEAD + twice + HEAD + b"X-Secret: s3cret\r\nContent-Length: 0\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 400")
        assert got.count(b"HTTP/1.1 ") == 1
        assert channel.heard == []


async def test_an_error_ends_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Called()) as port:
        for sent in (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", HEAD + b"Content-Length: 2\r\n\r\nhi"):
            got = await said(port, sent)
            assert b"connection: close" in got.lower()
    assert "Traceback" not in caplog.text


async def test_a_call_that_is_cut_off_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    channel = Called()
    async with serving(channel) as port:
        for _ in range(3):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"X-Secret: s3cret\r\nContent-Length: 1000\r\n\r\nabc")
            await writer.drain()
            writer.transport.abort()
        assert (await call(port, "/hooks/slack/default", "Host: x", "X-Secret: s3cret", body=b"hi"))[0] == 202
    assert "Traceback" not in caplog.text
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize("error", [RecursionError("deep"), OverflowError("1e400")])
async def test_a_body_beyond_all_measure_is_answered_400(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Called(fails=error)) as port:
        status, _, body = await call(port, "/hooks/slack/default", "Host: x", "X-Secret: s3cret", body=b"[" * 200_000)
        assert status == 400
        assert b"cannot be read" in body
    assert all(record.exc_info is None for record in caplog.records)
