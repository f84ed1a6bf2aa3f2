"""Requests of other gateways: each proof is good once, for one process, one request and one body."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.api.forwarding.passing import refused_at
from gateway.api.forwarding.signed_answer import SignedAnswer
from gateway.cluster.peer_proof import (
    ASKED,
    PROOF,
    STREAM,
    WINDOW,
    Misdirected,
    Signer,
    Unproven,
    Verifier,
    body_of_answer,
    digest_of,
)
from tests.properties import examples


class Vault:
    """Holds the secret, as the database does: who asked before goes on with the former one until it asks anew."""

    def __init__(self, secret: bytes) -> None:
        self.secret = self.known = secret

    async def __call__(self, *, fresh: bool = False) -> bytes:
        self.known = self.secret if fresh else self.known
        return self.known


def checked(verifier: Verifier, headers: dict[str, str], method: str = "POST", target: str = "/cluster/call/status") -> bool:
    try:
        return asyncio.run(verifier.check(headers[PROOF], method, target, headers[ASKED])).sender == "a"
    except Unproven:
        return False


def made(signer: Signer, *, to: str = "b", body: str = STREAM, asked: str = "{}") -> dict[str, str]:
    return asyncio.run(signer.headers(to, "POST", "/cluster/call/status", body=body, asked=asked))


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_each_request_is_taken_once_in_whatever_order_they_arrive(order: list[int]) -> None:
    vault = Vault(b"secret")
    verifier, signer = Verifier("b", vault), Signer("a", vault)
    sent = [made(signer) for _ in range(41)]
    taken = [one for one in order if checked(verifier, sent[one])]
    assert sorted(taken) == sorted(set(order))


def test_a_request_that_is_very_late_is_not_taken() -> None:
    vault = Vault(b"secret")
    verifier, signer = Verifier("b", vault), Signer("a", vault)
    first, *more = [made(signer) for _ in range(WINDOW + 1)]
    assert checked(verifier, more[-1])
    assert checked(verifier, more[0])
    assert not checked(verifier, first)


def test_a_proof_holds_for_one_request_of_one_sender() -> None:
    vault = Vault(b"secret")
    verifier, signer = Verifier("b", vault), Signer("a", vault)
    good = made(signer, body=digest_of(b"{}"), asked='{"token": "agent:anna"}')
    assert not checked(verifier, {**good, ASKED: '{"token": ""}'})
    assert not checked(verifier, good, method="GET")
    assert not checked(verifier, good, target="/cluster/call/resume")
    version, sender, to, number, body, signature = good[PROOF].split(" ")
    for forged in (
        (version, "c", to, number, body, signature),
        (version, sender, to, str(int(number) + 1), body, signature),
        (version, sender, to, number, digest_of(b"[]"), signature),
        (version, sender, to, number, body, "0" * 64),
        (version, sender, to, number, body, "é"),
        (version, sender, to, "²", body, signature),
        ("v1", sender, to, number, body, signature),
        (sender, to),
    ):
        assert not checked(verifier, {**good, PROOF: " ".join(forged)})
    with pytest.raises(Misdirected):
        checked(Verifier("c", vault), good)
    proven = asyncio.run(verifier.check(good[PROOF], "POST", "/cluster/call/status", good[ASKED]))
    assert proven.holds_for(b"{}")
    assert not proven.holds_for(b"[]")


async def answered(vault: Vault, *parts: bytes, complete: bool = True, bodiless: bool = False) -> dict[str, Any]:
    """Return what goes over the wire for an answer that is sent in parts."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    signed = SignedAnswer(send, vault, "proof", bodiless=bodiless)
    await signed({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")] if complete else []})
    for number, part in enumerate(parts, 1):
        await signed({"type": "http.response.body", "body": part, "more_body": number < len(parts)})
    assert [one["body"] for one in sent[1:]] == list(parts)
    return {name.decode(): value.decode() for name, value in sent[0]["headers"]}


async def test_an_answer_is_signed_with_its_status_and_with_its_body_if_that_is_complete() -> None:
    vault = Vault(b"secret")
    headers = await answered(vault, b"yes")
    assert await body_of_answer(vault, "proof", 200, headers[PROOF]) == digest_of(b"yes")
    for proof, status, answering in (
        ("proof", 500, headers[PROOF]),
        ("another", 200, headers[PROOF]),
        ("proof", 200, headers[PROOF].replace(digest_of(b"yes"), digest_of(b"no"))),
        ("proof", 200, headers[PROOF].replace(digest_of(b"yes"), STREAM)),
        ("proof", 200, ""),
        ("proof", 200, "é é"),
    ):
        assert await body_of_answer(vault, proof, status, answering) is None
    assert await body_of_answer(vault, "proof", 200, (await answered(vault, b"yes", b"no"))[PROOF]) == STREAM
    assert await body_of_answer(vault, "proof", 200, (await answered(vault, b"yes", complete=False))[PROOF]) == STREAM
    assert await body_of_answer(vault, "proof", 200, (await answered(vault, b"yes", bodiless=True))[PROOF]) == digest_of(b"")


def test_a_refusal_of_another_gateway_names_it() -> None:
    assert json.loads(refused_at("attic", b'{"error": {"message": "/v1/ is not served", "code": "x"}}')) == {
        "error": {"message": "at attic: /v1/ is not served", "code": "x"}
    }
    assert refused_at("attic", b"[]") == b"[]"
    assert refused_at("attic", b"gone") == b"gone"


def test_a_secret_that_was_exchanged_is_looked_up() -> None:
    here, there = Vault(b"secret"), Vault(b"secret")
    verifier, signer = Verifier("b", there), Signer("a", here)
    assert checked(verifier, made(signer))
    here.secret = here.known = there.secret = b"another"
    assert checked(verifier, made(signer))
    here.known = b"secret"
    assert not checked(verifier, made(signer))
