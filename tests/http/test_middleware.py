"""The middleware by itself: header permutations, and bodies that do not say how long they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from starlette.middleware import Middleware
from starlette.routing import Mount

from gateway.api.middleware import FORWARDING, LARGEST_BODY, RequestLimits
from gateway.api.server import app_of
from gateway.settings.http_settings import GatewaySettings
from tests.peers.checks import refusal

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from gateway.api.answers import Refusal

PORT = 18790
GOOD_HOST = (b"host", b"127.0.0.1:18790")


def judged(scope: Scope, **settings: Any) -> Refusal | None:
    return refusal(scope, GatewaySettings(**settings), PORT)


def scope(*headers: tuple[bytes, bytes], peer: str = "127.0.0.1") -> Scope:
    return {"type": "http", "path": "/status", "headers": list(headers), "client": (peer, 40000)}


HARMLESS = st.sampled_from(
    [(b"accept", b"*/*"), (b"authorization", b"Bearer whatever"), (b"x-test", b"1"), (b"cookie", b"a=b")]
)
FORWARDED = st.one_of(
    st.sampled_from(sorted(FORWARDING)),
    st.text("abcdefghijklmnopqrstuvwxyz-", max_size=12).map(lambda tail: b"x-forwarded" + tail.encode()),
)


@given(st.lists(HARMLESS), FORWARDED, st.binary(max_size=20), st.data())
@pytest.mark.sec(2, 3)
def test_a_forwarding_header_from_an_unknown_peer_never_passes(
    harmless: list[tuple[bytes, bytes]], name: bytes, value: bytes, data: st.DataObject
) -> None:
    headers = data.draw(st.permutations([GOOD_HOST, (name, value), *harmless]))
    peer = data.draw(st.sampled_from(["127.0.0.1", "::1", "11.0.0.1"]))
    refused = judged(scope(*headers, peer=peer), trusted_proxies=["10.0.0.0/8"])
    assert refused is not None
    assert refused.reason == "untrusted-proxy"


@given(st.lists(HARMLESS), st.sampled_from(["10.1.2.3", "::ffff:10.1.2.3"]), FORWARDED)
def test_a_known_proxy_passes(harmless: list[tuple[bytes, bytes]], peer: str, name: bytes) -> None:
    headers = [GOOD_HOST, (name, b"192.0.2.7"), *harmless]
    assert judged(scope(*headers, peer=peer), trusted_proxies=["10.0.0.0/8"]) is None


@given(st.binary(max_size=40))
@pytest.mark.sec(5)
def test_no_origin_passes_but_one_that_is_listed(origin: bytes) -> None:
    refused = judged(scope(GOOD_HOST, (b"origin", origin)), allowed_origins=["https://home.example"])
    assert (refused is None) == (origin.lower() == b"https://home.example")


@given(st.lists(st.sampled_from([b"127.0.0.1:18790", b"localhost:18790", b"evil.example"]), max_size=3))
@pytest.mark.sec(5)
def test_exactly_one_known_host_passes(hosts: list[bytes]) -> None:
    refused = judged(scope(*[(b"host", host) for host in hosts]))
    assert (refused is None) == (len(hosts) == 1 and hosts[0] != b"evil.example")


@given(st.lists(st.integers(0, LARGEST_BODY), max_size=4))
async def test_a_body_without_a_length_is_read_to_the_cap_and_no_further(pieces: list[int]) -> None:
    taken = 0

    async def greedy(_: Scope, receive: Receive, send: Send) -> None:
        nonlocal taken
        while (message := await receive()).get("more_body"):
            taken += len(message["body"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    supply = iter([*pieces, None])
    sent: list[Message] = []

    async def receive() -> Message:
        size = next(supply)
        return {"type": "http.request", "body": bytes(size or 0), "more_body": size is not None}

    async def send(message: Message) -> None:
        sent.append(message)

    limits = Middleware(RequestLimits, structlog.get_logger("gateway.http"))
    await app_of([Mount("/", app=greedy)], [limits])({**scope(GOOD_HOST), "method": "POST"}, receive, send)
    fits = sum(pieces) <= LARGEST_BODY
    assert taken <= LARGEST_BODY
    assert sent[0]["status"] == (200 if fits else 413)
    assert fits or json.loads(sent[1]["body"])["reason"] == "body-too-large"
