"""The HTTP door over real sockets: who is told what, and who is turned away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from gateway.api.routes.health import health_routes
from gateway.api.server import serve_tcp
from gateway.base.api_token import FixedToken
from gateway.base.errors import HomebodyError
from gateway.settings.http_settings import GatewaySettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping

    Serve = Callable[[Callable[[int], None]], Coroutine[Any, Any, None]]

TOKEN = "k3XqvT0b9LrWm5ZsYd8HcN2p"
AUTHORIZED = f"Authorization: Bearer {TOKEN}"
FACTS = {"version": "1", "sessions": 3}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def facts() -> Mapping[str, Any]:
    return FACTS


def door(
    settings: GatewaySettings,
    *,
    ready: Mapping[str, Callable[[], str | None]] | None = None,
    status: Callable[[], Awaitable[Mapping[str, Any]]] = facts,
    head_seconds: float = 10.0,
) -> Serve:
    log = structlog.get_logger("gateway.http")
    routes = health_routes(ready=ready or {}, status=status, log=log)

    def serve(started: Callable[[int], None]) -> Coroutine[Any, Any, None]:
        return serve_tcp(routes, settings, token=FixedToken(TOKEN), log=log, started=started, head_seconds=head_seconds)

    return serve


@contextlib.asynccontextmanager
async def opened(serve: Serve) -> AsyncIterator[int]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(serve(port.set_result))
    await asyncio.wait({port, running}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    try:
        yield port.result()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[int]:
    async with opened(door(GatewaySettings(port=0, **settings))) as port:
        yield port


async def raw(port: int, sent: bytes, host: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(sent)
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def ask(
    port: int, target: str, *lines: str, host: str | None = None, method: str = "GET", address: str = "127.0.0.1"
) -> Answer:
    head = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", *lines, "Connection: close", "", ""]
    told = await raw(port, "\r\n".join(head).encode("latin-1"), address)
    top, _, body = told.partition(b"\r\n\r\n")
    first, *rest = top.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return Answer(int(first.split()[1]), headers, body)


async def test_anyone_on_this_machine_may_ask_whether_it_is_alive() -> None:
    async with serving() as port:
        answer = await ask(port, "/healthz")
    assert (answer.status, answer.json) == (200, {"alive": True})
    assert answer.headers["cache-control"] == "no-store"


async def test_readiness_tells_its_reasons_only_to_who_has_the_token() -> None:
    reasons: dict[str, str | None] = {"ledger": None, "telegram": "no answer for 90 s"}
    built = door(GatewaySettings(port=0), ready={name: (lambda name=name: reasons[name]) for name in reasons})
    async with opened(built) as port:
        stranger, owner = await ask(port, "/readyz"), await ask(port, "/readyz", AUTHORIZED)
        reasons["telegram"] = None
        later = await ask(port, "/readyz", AUTHORIZED)
    assert (stranger.status, stranger.json) == (503, {"ready": False})
    assert (owner.status, owner.json) == (503, {"ready": False, "reasons": {"telegram": "no answer for 90 s"}})
    assert (later.status, later.json) == (200, {"ready": True, "reasons": {}})


async def test_a_check_that_breaks_is_a_reason_not_to_be_ready() -> None:
    def broken() -> str | None:
        raise ZeroDivisionError

    async with opened(door(GatewaySettings(port=0), ready={"clock": broken})) as port:
        answer = await ask(port, "/readyz", AUTHORIZED)
    assert answer.status == 503
    assert "ZeroDivisionError" in answer.json["reasons"]["clock"]


@pytest.mark.parametrize("header", [AUTHORIZED, f"authorization: bearer {TOKEN}", f"AUTHORIZATION:  BEARER   {TOKEN} "])
async def test_status_is_told_to_who_has_the_token(header: str) -> None:
    async with serving() as port:
        answer = await ask(port, "/status", header)
    assert (answer.status, answer.json) == (200, FACTS)


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        ("/status", []),
        ("/status", ["Authorization: Bearer "]),
        ("/status", [f"Authorization: Bearer {TOKEN[:-1]}"]),
        ("/status", [f"Authorization: Bearer {TOKEN}x"]),
        ("/status", [f"Authorization: Bearer {TOKEN.lower()}"]),
        ("/status", [f"Authorization: Basic {TOKEN}"]),
        ("/status", [f"Authorization: {TOKEN}"]),
        ("/status", ["Authorization: Bearer undefined"]),
        ("/status", ["Authorization: Bearer \xff\xfe"]),
        ("/status", [AUTHORIZED, "Authorization: Bearer other"]),
        ("/status", [f"Cookie: token={TOKEN}"]),
        (f"/status?token={TOKEN}", []),
        (f"/status?access_token={TOKEN}", []),
        (f"/status?authorization=Bearer%20{TOKEN}", []),
    ],
)
@pytest.mark.sec(2, 10)
async def test_status_is_kept_from_everyone_else(target: str, lines: list[str]) -> None:
    async with serving() as port:
        answer = await ask(port, target, *lines)
    assert answer.status == 401
    assert answer.json["reason"] == "no-token"
    assert "Authorization: Bearer" in answer.json["mend"]
    assert TOKEN not in answer.body.decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
async def test_the_three_names_of_loopback_are_known(host: str) -> None:
    async with serving() as port:
        assert (await ask(port, "/healthz", host=f"{host}:{port}")).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}", "127.1:{port}", "@"],
)
@pytest.mark.sec(5)
async def test_another_name_is_refused_even_with_the_token(host: str) -> None:
    async with serving() as port:
        answer = await ask(port, "/status", AUTHORIZED, host=host.format(port=port))
    assert (answer.status, answer.json["reason"]) == (403, "unknown-host")
    assert "gateway.allowedHosts" in answer.json["mend"]


@pytest.mark.parametrize("host", ["home.example", "Home.Example:{port}"])
async def test_a_name_in_the_settings_is_known(host: str) -> None:
    async with serving(allowed_hosts=["home.example"]) as port:
        assert (await ask(port, "/status", AUTHORIZED, host=host.format(port=port))).status == 200
        assert (await ask(port, "/status", AUTHORIZED, host="home.example:1")).status == 403


@pytest.mark.parametrize("sent", [b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n"])
async def test_a_request_that_names_no_host_is_refused(sent: bytes) -> None:
    async with serving() as port:
        told = await raw(port, sent)
    assert told.split()[1] in {b"400", b"403"}


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:{port}", "https://home.example.evil"])
@pytest.mark.sec(5)
async def test_a_foreign_page_is_refused_even_with_the_token(origin: str) -> None:
    async with serving(allowed_origins=["https://home.example"]) as port:
        answer = await ask(port, "/status", AUTHORIZED, f"Origin: {origin.format(port=port)}")
    assert (answer.status, answer.json["reason"]) == (403, "foreign-origin")


async def test_a_page_of_an_allowed_origin_may_ask() -> None:
    async with serving(allowed_origins=["https://Home.example"]) as port:
        assert (await ask(port, "/status", AUTHORIZED, "Origin: https://home.example")).status == 200
        twice = await ask(port, "/status", AUTHORIZED, "Origin: https://home.example", "Origin: https://home.example")
    assert twice.status == 403


@pytest.mark.parametrize(
    "header",
    ["Forwarded: for=1.2.3.4", "X-Forwarded-For: 127.0.0.1", "x-forwarded-host: a", "VIA: 1.1 a", "X-Real-IP: 127.0.0.1"],
)
@pytest.mark.parametrize("target", ["/status", "/healthz", "/nowhere"])
@pytest.mark.sec(2)
async def test_a_request_through_an_unknown_proxy_is_refused_even_with_the_token(header: str, target: str) -> None:
    async with serving(trusted_proxies=["192.0.2.0/24"]) as port:
        answer = await ask(port, target, AUTHORIZED, header)
    assert (answer.status, answer.json["reason"]) == (403, "untrusted-proxy")
    assert header.partition(":")[0].lower() in answer.json["error"]


async def test_a_request_through_a_known_proxy_still_needs_the_token() -> None:
    async with serving(trusted_proxies=["127.0.0.0/8"]) as port:
        assert (await ask(port, "/status", "X-Forwarded-For: 192.0.2.1")).status == 401
        assert (await ask(port, "/status", "X-Forwarded-For: 192.0.2.1", AUTHORIZED)).status == 200


async def test_errors_are_json_and_name_the_mend() -> None:
    async with serving() as port:
        nowhere = await ask(port, "/nowhere")
        wrong = await ask(port, "/healthz", method="DELETE")
        long = await ask(port, "/healthz", f"X-Long: {'a' * 70_000}")
    assert [answer.status for answer in (nowhere, wrong, long)] == [404, 405, 431]
    assert all({"error", "reason", "mend"} == set(answer.json) for answer in (nowhere, wrong, long))


async def test_what_is_no_http_is_answered_in_the_same_form() -> None:
    async with serving() as port:
        told = await raw(port, b"hello, is this the gateway?\r\n\r\n")
        endless = await raw(port, b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 40_000)
    for answer in (told, endless):
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400")
        assert {"error", "reason", "mend"} == set(json.loads(body))


async def test_a_defect_is_told_without_its_inside(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> Mapping[str, Any]:
        raise ZeroDivisionError("the inside")

    async with opened(door(GatewaySettings(port=0), status=broken)) as port:
        answer = await ask(port, "/status", AUTHORIZED)
        again = await ask(port, "/healthz")
    assert (answer.status, answer.json["reason"], again.status) == (500, "defect", 200)
    assert b"the inside" not in answer.body
    assert "the inside" in caplog.text


@pytest.mark.sec(12)
async def test_a_body_that_announces_too_much_is_refused_at_once() -> None:
    async with serving() as port:
        answer = await ask(port, "/status", "Content-Length: 1048577", AUTHORIZED, method="POST")
        fits = await ask(port, "/status", "Content-Length: 0", AUTHORIZED, method="POST")
    assert (answer.status, answer.json["reason"]) == (413, "body-too-large")
    assert fits.status == 405


@pytest.mark.parametrize("half", [b"", b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
@pytest.mark.sec(12)
async def test_a_peer_that_does_not_finish_its_request_is_cut_off(half: bytes) -> None:
    async with opened(door(GatewaySettings(port=0), head_seconds=0.05)) as port:
        assert await raw(port, half) == b""


@pytest.mark.sec(12)
async def test_noise_never_stops_it() -> None:
    noise = random.Random(20261121)
    verbs = [
        b"GET /status HTTP/1.1\r\n",
        b"GET \xff HTTP/1.1\r\n",
        b"POST /status HTTP/1.1\r\nContent-Length: -1\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"",
    ]
    async with serving() as port:
        for _ in range(150):
            told = await raw(port, noise.choice(verbs) + noise.randbytes(noise.randrange(1, 300)) + b"\r\n\r\n")
            assert not told.startswith(b"HTTP/1.1 200")
        assert (await ask(port, "/healthz")).status == 200


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
async def test_the_same_port_answers_on_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no ::1")
    async with serving() as port:
        assert (await ask(port, "/healthz", host=f"[::1]:{port}", address="::1")).status == 200


async def test_a_taken_port_is_told_with_the_port_and_the_setting() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = holder.getsockname()[1]
        with pytest.raises(HomebodyError) as caught:
            await door(GatewaySettings(port=taken))(lambda _: None)
    assert str(taken) in str(caught.value)
    assert "gateway.port" in str(caught.value)
    assert "homebody config set gateway.port" in caught.value.hint


async def test_when_cancelled_it_lets_the_port_and_the_signals_go() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with serving() as port:
        during = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        _, idle = await asyncio.open_connection("127.0.0.1", port)
    assert before == during
    idle.close()
    async with opened(door(GatewaySettings(port=port))) as again:
        assert again == port
        assert (await ask(port, "/healthz")).status == 200


async def test_an_answer_that_was_begun_is_finished_after_the_cancel() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> Mapping[str, Any]:
        asked.set()
        await go_on.wait()
        return {"slow": True}

    async with opened(door(GatewaySettings(port=0), status=slow)) as port:
        question = asyncio.create_task(ask(port, "/status", AUTHORIZED))
        await asked.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
    assert (await question).json == {"slow": True}
