"""Meta calling the house: the challenge, the signature, replays, and what is answered when."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.protocol import HookRequest
from channels.whatsapp.webhook_calls import challenged, is_genuine, payload_of, refusal
from tests.peers.whatsapp import APP_SECRET, NUMBER_ID
from tests.peers.whatsapp_calls import signed
from tests.whatsapp.line import ANNA, calm, line, settings_of

if TYPE_CHECKING:
    from channels.protocol import HookAnswer

GOOD = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=word"


def asked(query: str) -> HookAnswer:
    return challenged(HookRequest(method="GET", query=query, headers={}, body=b""), "word")


def test_the_challenge_is_answered_with_its_word_if_the_token_is_right() -> None:
    assert (asked(GOOD).status, asked(GOOD).body) == (200, b"1158201444")


@pytest.mark.parametrize(
    "query",
    [
        "",
        GOOD.replace("word", "other"),
        GOOD.replace("word", "w%C3%B6rd"),
        GOOD.replace("subscribe", "unsubscribe"),
        GOOD.replace("1158201444", "%3Cscript%3E"),
        GOOD.replace("1158201444", ""),
        f"{GOOD}&hub.verify_token=other",
        GOOD.replace("hub.verify_token=word", ""),
    ],
)
@pytest.mark.sec(23)
def test_any_other_question_is_refused(query: str) -> None:
    assert asked(query).status == 401


def signed_call(body: bytes, signature: str | None, method: str = "POST") -> HookRequest:
    headers = {} if signature is None else {"x-hub-signature-256": signature}
    return HookRequest(method=method, query="", headers=headers, body=body)


@pytest.mark.sec(23)
@given(
    body=st.binary(max_size=200),
    other=st.binary(max_size=200),
    secret=st.text(st.sampled_from("0123456789abcdef"), min_size=32),
)
@settings(max_examples=50)
def test_a_signature_fits_one_body_and_one_secret(body: bytes, other: bytes, secret: str) -> None:
    import hashlib
    import hmac

    digest = hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert is_genuine(signed_call(body, f"sha256={digest}"), APP_SECRET)
    assert is_genuine(signed_call(other, f"sha256={digest}"), APP_SECRET) == (other == body)
    assert is_genuine(signed_call(body, f"sha256={digest}"), secret) == (secret == APP_SECRET)


@pytest.mark.parametrize(
    "signature", [None, "", "sha256=", "sha1=" + "0" * 40, "sha256=" + "0" * 63, "sha256=" + "G" * 64, "sha256=ü"]
)
@pytest.mark.sec(24)
def test_a_call_without_a_signature_is_refused_before_its_body_is_read(signature: str | None) -> None:
    refused = refusal(signed_call(b"", signature))
    assert refused is not None
    assert refused.status == 401
    assert not is_genuine(signed_call(b"{}", signature), APP_SECRET)


def test_other_methods_are_not_allowed() -> None:
    refused = refusal(signed_call(b"", "sha256=" + "0" * 64, "PUT"))
    assert refused is not None
    assert refused.status == 405


def test_what_is_about_no_whatsapp_account_holds_nothing() -> None:
    assert payload_of(b'{"object": "page"}') is payload_of(b"[]") is payload_of(b"not json") is None


@pytest.mark.sec(23)
async def test_a_forged_call_changes_nothing_and_a_replay_is_taken_once() -> None:
    async with calm() as peer, line(peer) as s:
        await peer.say(ANNA, "hello")
        await s.heard("hello")
        message = peer.message(ANNA, "text", {"body": "again"})
        call = peer.payload({"messages": [message]})
        assert await s.call(call, secret="f" * 32) == 401
        assert s.door.texts == ["hello"]
        assert [await s.call(call) for _ in range(3)] == [200] * 3
        assert s.door.texts == ["hello", "again"], "the house knows the id"
        old = peer.message(ANNA, "text", {"body": "last month"}, at=time.time() - 9 * 24 * 3600)
        assert await s.call(peer.payload({"messages": [old]})) == 200, "so that nobody repeats it"
        assert s.door.texts == ["hello", "again"], "Meta repeats a call for seven days"


async def test_a_signed_body_that_cannot_be_read_is_taken_so_that_nobody_repeats_it() -> None:
    async with calm() as peer, line(peer) as s:
        for body in (b"{", b"", b"\xff", b"[" * 50_000, b'{"object":' * 50_000):
            signature = hmac.new(APP_SECRET.encode(), body, hashlib.sha256).hexdigest()
            head = {"x-hub-signature-256": f"sha256={signature}"}
            assert (await s.channel.hear(HookRequest(method="POST", query="", headers=head, body=body))).status == 200
        assert s.door.texts == []


async def test_that_meta_never_called_is_told_until_somebody_wrote_and_not_after_a_restart() -> None:
    async with calm() as peer, line(peer) as s:
        assert s.channel.remarks()[-1].startswith("Meta has never called here")
        assert s.channel.instructions()[0].split("verify token ")[1].split(",")[0] not in s.channel.remarks()[-1]
        await peer.say(ANNA, "hello")
        await s.heard("hello")
        assert s.channel.remarks() == []
        door = s.door
    async with calm() as peer, line(peer, door) as s:
        assert s.channel.remarks() == []


async def test_what_cannot_be_stored_is_not_acknowledged_and_no_other_number_is_taken() -> None:
    async with calm() as peer, line(peer) as s:
        s.door.refuse = OSError("the disk is full")
        call = peer.payload({"messages": [peer.message(ANNA, "text", {"body": "keep"})]})
        assert await s.call(call) == 503
        s.door.refuse = None
        assert await s.call(call) == 200
        assert s.door.texts == ["keep"]
        other = peer.payload({"messages": [peer.message(ANNA, "text", {"body": "for another number"})]})
        other["entry"][0]["changes"][0]["value"]["metadata"]["phone_number_id"] = "1"
        assert await s.call(other) == 200
        assert s.door.texts == ["keep"]
        assert any("another phone number id" in told for told in s.log.lines)


async def test_the_webhook_is_set_where_meta_calls_another_address_and_the_app_is_subscribed() -> None:
    async with calm() as peer:
        peer.home.subscribed = False
        where = {"webhookUrl": "https://home.example.org", "businessAccountId": "102290129340398"}
        async with line(peer, **where) as s:
            assert peer.home.webhook == "https://home.example.org/hooks/whatsapp/default"
            assert peer.home.subscribed
            assert s.channel.remarks() == []
            assert s.channel.known_as == "+1 555-078-3881 Peer of the House"
        before = peer.count("webhook")
        async with line(peer, **where):
            assert peer.count("webhook") == before, "it is right already"
        async with line(peer, **where, verifyToken="another") as s:
            assert s.channel.remarks()[-1].startswith("Meta has never called here")


def test_the_verify_token_is_derived_from_the_secret_and_never_is_it() -> None:
    peer = calm()
    one, other = (settings_of(peer, appSecret=secret).account("default").expected_token() for secret in ("a" * 32, "b" * 32))
    assert one != other
    assert len(one) == 32
    assert one != "a" * 32
    assert settings_of(peer, verifyToken="mine").account("default").expected_token() == "mine"


async def test_a_call_of_three_megabytes_does_not_stop_the_loop_for_long() -> None:
    async with calm() as peer, line(peer) as s:
        messages = [peer.message(ANNA, "text", {"body": f"{number} " + "x" * 4000}) for number in range(650)]
        body, headers = signed(peer.payload({"messages": messages}), APP_SECRET)
        assert len(body) > 2_500_000
        began = time.process_time()
        assert (await s.channel.hear(HookRequest(method="POST", query="", headers=headers, body=body))).status == 200
        assert time.process_time() - began < 2
        assert len(s.door.messages) == 650
        assert NUMBER_ID in body.decode()
