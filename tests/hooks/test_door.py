"""Calls of hooks over a real socket: who is let in, what is taken, and that bad input costs nothing and stops nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from gateway.api.routes.hook_routes import MOST_UNPROVEN
from gateway.base.errors import StorageFailed
from gateway.hooks.credentials import hash_of, signature_of
from gateway.hooks.receiver import LARGEST_BODY, MOST_WAITING, WRONG_BURST
from gateway.ledger.hook_rows import NOWHERE, HookRules
from gateway.settings.quiet_hours import DailyHours, UnaskedRule
from tests.hooks.conftest import BEARER, GATEWAY_TOKEN, HOME, PROMPT, SECRET, TOKEN, a_hook, opened

if TYPE_CHECKING:
    from pathlib import Path

JSON = "Content-Type: application/json"
SIGNED = a_hook("repo", token_hash=None, secret=SECRET)


def signed(body: bytes, secret: str = SECRET) -> str:
    return f"X-Hub-Signature-256: sha256={signature_of(secret, body)}"


async def test_a_call_with_the_token_is_stored_before_it_is_answered(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        status, head, body = await door.call(body=b'{"title": "door \xc3\xb6pen"}')
        assert status == 202
        assert "cache-control: no-store" in head
        ((row, message),) = await door.taken()
        assert json.loads(body) == {"id": row.alias}
        assert message.automation is not None
        assert message.automation.origin == "webhook"
        assert message.automation.source == "hook:alarm"
        assert message.automation.sources == ("webhook:alarm",)
        assert message.automation.instruction == "Tell me what happened."
        assert message.automation.fresh
        assert message.inbound.text == '{\n "title": "door öpen"\n}'
        assert message.inbound.conversation == HOME
        assert message.route is not None
        assert message.route.session == "agent:main:hook:alarm"


@pytest.mark.parametrize(
    "lines",
    [
        (f"X-Homebody-Token: {TOKEN}",),
        (f"authorization:   bearer {TOKEN} ",),
        (BEARER, "Origin: https://evil.example"),
        (f"X-HOMEBODY-TOKEN: {TOKEN}", "User-Agent: x"),
    ],
)
async def test_the_token_is_taken_from_either_header(tmp_path: Path, lines: tuple[str, ...]) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        assert (await door.call("alarm", *lines))[0] == 202


@pytest.mark.sec(23)
@pytest.mark.parametrize(
    "lines",
    [
        ("X: y",),
        ("Authorization: Bearer",),
        ("Authorization: Bearer ",),
        (f"Authorization: Basic {TOKEN}",),
        (f"Authorization: Bearer {TOKEN}x",),
        (f"Authorization: Bearer {GATEWAY_TOKEN}",),
        (f"Cookie: token={TOKEN}",),
        (BEARER, BEARER),
        (BEARER, "X-Homebody-Token: other"),
        (f"X-Homebody-Token: {TOKEN}", "X-Homebody-Token: other"),
        (f"X_Homebody_Token: {TOKEN}",),
        ("X-Hub-Signature-256: sha256=",),
        ("X-Hub-Signature-256: sha256=" + "0" * 64,),
        (f"X-Hub-Signature: sha1={'0' * 40}",),
    ],
)
async def test_without_the_token_the_answer_is_the_same_for_every_name(tmp_path: Path, lines: tuple[str, ...]) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        known, unknown = await door.call("alarm", *lines), await door.call("unheard", *lines)
        assert known == unknown
        assert known[0] == 401
        assert b"wrong-credential" in known[2]
        assert await door.taken() == []


@pytest.mark.sec(10)
async def test_a_token_in_the_address_opens_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        for name in (f"alarm?token={TOKEN}", f"alarm?access_token={TOKEN}", f"alarm/{TOKEN}"):
            assert (await door.call(name, JSON))[0] == 401


@pytest.mark.sec(24)
async def test_a_wrong_token_is_answered_before_the_body_is_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook(), SIGNED)
        for head in (b"Authorization: Bearer wrong\r\n", b"X-Hub-Signature-256: sha256=none\r\n", b""):
            sent = b"POST /hooks/in/alarm HTTP/1.1\r\nHost: x\r\n" + head + b"Content-Length: 200000\r\n\r\nabc"
            status, told, _ = await door.raw(sent)
            assert (status, "connection: close" in told) == (401, True)


async def test_wrong_tokens_are_limited_and_the_right_one_is_taken_in_any_case(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        for name in ("alarm", "unheard"):
            statuses = Counter([(await door.call(name, "X-Homebody-Token: guess"))[0] for _ in range(WRONG_BURST)])
            assert statuses <= Counter({401: WRONG_BURST, 429: WRONG_BURST})
        status, head, _ = await door.call("alarm", "X-Homebody-Token: guess")
        assert (status, "retry-after: 6" in head) == (429, True)
        assert (await door.call())[0] == 202
        door.clock.move(60)
        assert (await door.call("alarm", "X-Homebody-Token: guess"))[0] == 401


@pytest.mark.sec(23)
async def test_a_signature_is_checked_over_the_bytes_that_came(tmp_path: Path) -> None:
    body = b'{"action":  "opened"}'
    async with opened(tmp_path) as door:
        await door.add(SIGNED, a_hook())
        assert (await door.call("repo", signed(body), JSON, body=body))[0] == 202
        assert (await door.call("repo", signed(body), JSON, body=body + b" "))[0] == 401
        assert (await door.call("repo", signed(body, "another"), JSON, body=body))[0] == 401
        assert (await door.call("repo", signed(body), signed(body), JSON, body=body))[0] == 401
        assert (await door.call("repo", f"X-Homebody-Token: {SECRET}", JSON, body=body))[0] == 401
        assert (await door.call("alarm", signed(body), JSON, body=body))[0] == 401, "it has no secret"
        assert (await door.call("alarm", signed(body, TOKEN), JSON, body=body))[0] == 401
        known = await door.call("repo", signed(body, "x"), JSON, body=body)
        assert known == await door.call("unheard", signed(body, "x"), JSON, body=body)
        assert known[0] == 401
        assert len(await door.taken()) == 1


@pytest.mark.sec(12)
async def test_a_body_that_is_too_large_is_refused_by_its_length_and_while_it_comes(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        assert (await door.call(body=b"x", length=20_000_000))[0] == 413
        assert (await door.call(body=b"x", length=LARGEST_BODY + 1))[0] == 413
        head = f"POST /hooks/in/alarm HTTP/1.1\r\nHost: x\r\n{BEARER}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        assert (await door.raw(head + chunk * 5))[0] == 413
        assert (await door.call(body=json.dumps("x" * (LARGEST_BODY - 2)).encode()))[0] == 202
        assert len(await door.taken()) == 1


async def test_a_chunked_body_is_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        head = (
            f"POST /hooks/in/alarm HTTP/1.1\r\nHost: x\r\n{BEARER}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        assert (await door.raw(head.encode() + b"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n"))[0] == 202
        assert (await door.taken())[0][1].inbound.text == "[\n 1,\n 2\n]"


@pytest.mark.sec(12)
async def test_a_body_whose_end_is_said_twice_is_refused_and_nothing_behind_it_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        head = f"POST /hooks/in/alarm HTTP/1.1\r\nHost: x\r\n{BEARER}\r\n".encode()
        twice = head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + head + b"Content-Length: 0\r\n\r\n"
        assert (await door.raw(twice))[0] == 400
        assert (await door.raw(head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"))[0] == 400
        assert (await door.raw(head + b"Content-Length: -1\r\n\r\n"))[0] == 400
        assert (await door.raw(head + b"Content-Length : 2\r\n\r\n{}"))[0] == 400
        assert await door.taken() == []


async def test_a_slow_body_is_not_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path, body_seconds=0.05) as door:
        await door.add(a_hook())
        assert (await door.call(body=b"{", length=100))[0] == 408
        assert await door.taken() == []


@pytest.mark.sec(45)
async def test_a_packed_body_is_refused(tmp_path: Path) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        for encoding in ("gzip", "br", "identity, gzip", "GZIP"):
            status, _, body = await door.call("alarm", BEARER, f"Content-Encoding: {encoding}", JSON, body=bomb)
            assert (status, b"packed" in body) == (415, True)
        assert (await door.call("alarm", BEARER, JSON, body=bomb))[0] == 400
        assert (await door.call("alarm", BEARER, "Content-Encoding: identity", JSON))[0] == 202


@pytest.mark.parametrize(
    ("name"),
    [
        "",
        "a/b",
        "alarm/",
        "alarm/x",
        "../status",
        "..%2f..%2fstatus",
        "%2e%2e",
        "al%00arm",
        "ALARM",
        "alarm%20",
        "%C3%A4",
        "a" * 4000,
        "in",
    ],
)
async def test_names_that_are_none_are_unknown_like_any_other(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        assert (await door.call(name))[0] == 401
        assert await door.taken() == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_hooks_take_post_alone(tmp_path: Path, method: str) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        status, head, _ = await door.call(method=method, body=b"")
        assert (status, "allow: post" in head) == (405, True)


async def test_the_addresses_of_platforms_stay_theirs(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        sent = b"POST /hooks/slack/default HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        status, _, body = await door.raw(sent)
        assert (status, b"no channel is called here" in body) == (404, True)


@pytest.mark.sec(2)
async def test_a_call_through_an_unknown_proxy_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        status, _, body = await door.call("alarm", BEARER, "X-Forwarded-For: 192.0.2.1")
        assert (status, b"gateway.trustedProxies" in body) == (403, True)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b"{",
        b"nope",
        b'{"a": 1} x',
        b"9" * 5000,
        b"\xff",
    ],
)
async def test_json_that_is_none_or_too_deep_is_refused(tmp_path: Path, body: bytes) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        assert (await door.call(body=body))[0] == 400
        assert (await door.call())[0] == 202, "the next one is taken"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", "(the call had no body)"),
        (b"  \n", "(the call had no body)"),
        (b"null", "null"),
        (b'"\\ud800 \\u0000 x"', '"� \\u0000 x"'),
        (b'{"\\udfff": "\\ud83d\\ude00"}', '{\n "�": "😀"\n}'),
        (b"\xef\xbb\xbf[]", "[]"),
    ],
)
async def test_odd_json_is_shown_as_text_that_can_be_stored(tmp_path: Path, body: bytes, shown: str) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        assert (await door.call(body=body))[0] == 202
        assert (await door.taken())[0][1].inbound.text == shown


@pytest.mark.parametrize(
    ("media_type", "body", "shown"),
    [
        ("application/x-www-form-urlencoded", b"title=a+b&x=%C3%A4&empty=", "title: a b\nx: ä\nempty: "),
        ("application/x-www-form-urlencoded; charset=UTF-8", b"payload=%7B%22a%22%3A1%7D", '{\n "a": 1\n}'),
        ("text/plain", b"disk is full", "disk is full"),
        ("text/plain", b"a\x1b[2J\x07b\xe2\x80\xae", "a�[2J�b�"),
        ("application/cloudevents+json; charset=utf-8", b"[1]", "[\n 1\n]"),
        ("", b'{"a": 1}', '{\n "a": 1\n}'),
        ("", b"disk is full", "disk is full"),
    ],
)
async def test_json_forms_and_text_are_taken(tmp_path: Path, media_type: str, body: bytes, shown: str) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        lines = (BEARER, f"Content-Type: {media_type}") if media_type else (BEARER,)
        assert (await door.call("alarm", *lines, body=body))[0] == 202
        assert (await door.taken())[0][1].inbound.text == shown


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("image/png", b"\x89PNG\r\n"),
        ("image/png", b"text"),
        ("application/octet-stream", b"text"),
        ("multipart/form-data; boundary=x", b"--x--"),
        ("text/plain", b"a\x00b"),
        ("text/plain; charset=utf-16", "ä".encode("utf-16")),
        ("", b"\x00\xff\xfe"),
        ("application/json; charset=latin-1", b"{}"),
    ],
)
async def test_other_bodies_are_refused_with_a_reason(tmp_path: Path, media_type: str, body: bytes) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        lines = (BEARER, f"Content-Type: {media_type}") if media_type else (BEARER,)
        status, _, told = await door.call("alarm", *lines, body=body)
        assert status == 415
        assert json.loads(told)["mend"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"9" * 5000, "a number that is too large"),
        (b'{"a": [-1e999]}', "a number that is too large"),
        (b"1e999", "a number that is too large"),
        (b'{"a": NaN}', "JSON has no number NaN"),
        (b"[-Infinity]", "JSON has no number -Infinity"),
    ],
)
async def test_numbers_that_json_does_not_have_or_nobody_can_read_are_refused_in_plain_words(
    tmp_path: Path, body: bytes, says: str
) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        status, _, told = await door.call(body=body)
        answer = json.loads(told)
        assert (status, answer["reason"]) == (400, "bad-body")
        assert says in answer["error"]
        assert "sys." not in told.decode()
        assert (await door.call("alarm", BEARER, body=body))[0] == 202, "without a type it is text"


async def test_a_form_with_thousands_of_fields_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        lines = (BEARER, "Content-Type: application/x-www-form-urlencoded")
        assert (await door.call("alarm", *lines, body=b"a=&" * 60_000))[0] == 400


async def test_indentation_makes_nothing_enormous_of_a_body(tmp_path: Path) -> None:
    body = b"[" * 60 + b"1," * 100_000 + b"1" + b"]" * 60
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        assert (await door.call(body=body))[0] == 202
        assert len((await door.taken())[0][1].inbound.text) < 4 * len(body)


KEYS = ["Idempotency-Key", "Webhook-Id", "X-GitHub-Delivery", "X-Gitea-Delivery", "X-Gitlab-Event-UUID", "X-Request-Id"]


@pytest.mark.parametrize("header", KEYS)
async def test_a_repeat_is_answered_with_the_same_id_and_does_nothing(tmp_path: Path, header: str) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook(), a_hook("other"))
        first = await door.call("alarm", BEARER, f"{header}: 72d3162e")
        again = await door.call("alarm", BEARER, f"{header}: 72d3162e", body=b"[2]")
        assert (first[0], again[0]) == (202, 200)
        assert json.loads(first[2]) == json.loads(again[2])
        assert (await door.call("alarm", BEARER, f"{header}: 72d3162f"))[0] == 202
        assert (await door.call("other", BEARER, f"{header}: 72d3162e"))[0] == 202, "another hook's keys are its own"
        assert len(await door.taken()) == 3
    async with opened(tmp_path) as door:
        assert (await door.call("alarm", BEARER, f"{header}: 72d3162e"))[0] == 200, "also after a restart"


async def test_the_first_of_several_keys_counts_and_two_of_one_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        for at, header in enumerate(KEYS):
            lines = [f"{one}: same" if one == header else f"{one}: {at}-{n}" for n, one in enumerate(KEYS[at:])]
            assert (await door.call("alarm", BEARER, *lines))[0] == (202 if at == 0 else 200)
        assert (await door.call("alarm", BEARER, "Idempotency-Key: a", "Idempotency-Key: b"))[0] == 400
        assert (await door.call("alarm", BEARER, f"Idempotency-Key: {'a' * 501}"))[0] == 400


async def test_without_a_key_every_call_is_a_new_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        ids = {json.loads((await door.call())[2])["id"] for _ in range(3)}
        assert len(ids) == 3


@pytest.mark.parametrize("kind", ["prompt", "message"])
async def test_a_thousand_repeats_at_once_are_one(tmp_path: Path, kind: str) -> None:
    async with opened(tmp_path) as door:
        rules = PROMPT if kind == "prompt" else replace(PROMPT, kind="message", text="{a}", burst=1000, per_minute=1000)
        await door.add(a_hook(rules=rules))
        gate = asyncio.Semaphore(50)

        async def once() -> int:
            async with gate:
                return (await door.call("alarm", BEARER, "Idempotency-Key: 1"))[0]

        statuses = Counter(await asyncio.gather(*(once() for _ in range(1000))))
        assert statuses[202] == 1
        assert set(statuses) <= {202, 200, 503}
        stored = len(await door.taken()) + len(await door.ledger.outbox.latest(["ready"]))
        assert stored == 1


async def test_calls_are_limited_by_hook(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        few = replace(PROMPT, burst=3, per_minute=6)
        await door.add(a_hook(rules=few), a_hook("other", rules=few))
        assert [(await door.call())[0] for _ in range(4)] == [202, 202, 202, 429]
        status, head, _ = await door.call()
        assert (status, "retry-after: 10" in head) == (429, True)
        assert (await door.call("other"))[0] == 202
        door.clock.move(10)
        assert [(await door.call())[0] for _ in range(2)] == [202, 429]


async def test_messages_that_wait_are_bounded_over_all_hooks(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook(), a_hook("other"))
        statuses = Counter([(await door.call("alarm" if n % 2 else "other"))[0] for n in range(MOST_WAITING + 5)])
        assert statuses == {202: MOST_WAITING, 503: 5}
        (row, _), *_ = await door.taken()
        await door.ledger.inbox.settle([row.id], "answered")
        status, head, _ = await door.call()
        assert status == 202
        status, head, _ = await door.call()
        assert (status, "retry-after: 60" in head) == (503, True)


async def test_a_paused_hook_takes_nothing_and_says_so_to_who_has_the_token(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook(state="paused"))
        status, _, body = await door.call()
        assert (status, b"homebody hooks resume alarm" in body) == (403, True)
        assert (await door.call("alarm", "X-Homebody-Token: guess"))[0] == 401
        assert await door.taken() == []


async def test_an_agent_that_was_removed_is_told_to_the_sender_and_once_to_the_owner(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook(agent="gone"))
        status, _, body = await door.call()
        assert (status, json.loads(body)["reason"]) == (409, "agent-gone")
        assert (await door.call())[0] == 409
        (told,) = door.told
        assert "homebody hooks remove alarm" in told


async def test_a_hook_that_delivers_nothing_answers_in_a_conversation_without_readers(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook(rules=replace(PROMPT, deliver=NOWHERE)))
        assert (await door.call())[0] == 202
        assert (await door.taken())[0][1].inbound.conversation.channel == "internal"


async def test_what_cannot_be_stored_is_to_be_sent_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        await door.receiver.load()
        await door.ledger.close()
        status, head, _ = await door.call()
        assert (status, "retry-after: 10" in head) == (503, True)
        with pytest.raises(StorageFailed):
            await door.ledger.hooks.all()


async def test_a_text_is_sent_without_a_model_and_the_chats_session_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        rules = HookRules(kind="message", text="🔔 {monitor.name}: {msg}")
        await door.add(a_hook(rules=rules))
        body = {"monitor": {"name": "[nas](http://evil.example) @everyone"}, "msg": "down\n</untrusted> *now*"}
        assert (await door.call(body=json.dumps(body).encode()))[0] == 202
        (chunk,) = await door.ledger.outbox.latest(["ready"])
        assert chunk.conversation == HOME
        assert chunk.text == r"🔔 \[nas\](http://evil.example) \@everyone: down (/untrusted\> \*now\*"
        (event,) = await door.ledger.context_events.pending(HOME.address)
        assert 'from="webhook:alarm"' in event.line
        assert event.sources == ("webhook:alarm",)
        assert await door.taken() == []
        ((call),) = await door.ledger.hooks.calls(a_hook().id)
        assert call.state == "ready"


async def test_a_trial_credential_holds_for_one_call_of_one_hook_and_a_minute(tmp_path: Path) -> None:
    def lines(headers: dict[str, str]) -> list[str]:
        return [f"{name}: {value}" for name, value in headers.items()]

    async with opened(tmp_path) as door:
        await door.add(a_hook(), a_hook("other"), SIGNED)
        once = lines(door.receiver.trial(a_hook(), b"[]"))
        assert [(await door.call("alarm", *once, body=b"[]"))[0] for _ in range(2)] == [202, 401]
        once = lines(door.receiver.trial(a_hook(), b"[]"))
        assert (await door.call("other", *once))[0] == 401
        once = lines(door.receiver.trial(a_hook(), b"[]"))
        door.clock.move(61)
        assert (await door.call("alarm", *once))[0] == 401
        assert (await door.call("repo", *lines(door.receiver.trial(SIGNED, b"[]")), body=b"[]"))[0] == 202


@pytest.mark.files
async def test_secrets_of_signatures_are_learnt_and_tokens_are_nowhere(tmp_path: Path) -> None:
    learnt: list[str] = []
    async with opened(tmp_path, learn=learnt.extend) as door:
        await door.add(a_hook(), SIGNED)
        await door.call()
        assert learnt == [SECRET]
    stored = await asyncio.to_thread((tmp_path / "ledger.sqlite").read_bytes)
    assert TOKEN.encode() not in stored
    assert SECRET.encode() in stored


async def test_json_that_curl_calls_a_form_is_taken_for_json(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook())
        lines = (BEARER, "Content-Type: application/x-www-form-urlencoded")
        assert (await door.call("alarm", *lines, body=b'{"a": "b&c=d"}'))[0] == 202
        assert (await door.taken())[0][1].inbound.text == '{\n "a": "b&c=d"\n}'


@pytest.mark.parametrize("urgent", [True, False])
async def test_a_text_waits_for_the_end_of_quiet_hours_unless_it_is_urgent(tmp_path: Path, *, urgent: bool) -> None:
    async with opened(tmp_path) as door:
        door.rule = UnaskedRule(zone=ZoneInfo("UTC"), quiet=DailyHours(start="11:00", end="13:00"))
        await door.add(a_hook(rules=HookRules(kind="message", text="{a}", urgent=urgent)))
        assert [(await door.call("alarm", BEARER, "Webhook-Id: 1"))[0] for _ in range(2)] == [202, 200]
        assert len(await door.ledger.outbox.latest(["ready"])) == int(urgent)
        (call,) = await door.ledger.hooks.calls(a_hook().id)
        assert call.state == ("ready" if urgent else "held")
        door.clock.move(3600)
        await door.ledger.unasked.release({"main": door.rule})
        assert len(await door.ledger.outbox.latest(["ready"])) == 1
        assert (await door.call("alarm", BEARER, "Webhook-Id: 1"))[0] == 200


@pytest.mark.sec(14)
async def test_a_token_opens_its_own_hook_alone_and_nothing_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        await door.add(a_hook(), a_hook("other", token_hash=hash_of(SECRET)))
        assert (await door.call("other"))[0] == 401
        asked = f"GET /status HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\n{BEARER}\r\nConnection: close\r\n\r\n"
        assert (await door.raw(asked.encode()))[0] == 401


@pytest.mark.sec(12)
async def test_senders_who_only_say_that_they_sign_keep_nobody_else_out(tmp_path: Path) -> None:
    async with opened(tmp_path, body_seconds=60) as door:
        await door.add(a_hook(), SIGNED)
        head = f"POST /hooks/in/repo HTTP/1.1\r\nHost: x\r\n{signed(b'x')}\r\nContent-Length: 9\r\n\r\nx".encode()
        held = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(MOST_UNPROVEN)]
        for _, writer in held:
            writer.write(head)
            await writer.drain()
        while (await door.call("repo", signed(b"[]"), JSON, body=b"[]"))[0] != 503:  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)
        assert (await door.call())[0] == 202
        for _, writer in held:
            writer.close()
        while (status := (await door.call("repo", signed(b"[]"), JSON, body=b"[]"))[0]) == 503:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert status == 202
