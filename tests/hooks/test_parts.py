"""Bodies, templates, limits and credentials of webhooks, whatever comes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.hooks.credentials import has_signed, has_token, hash_of, offered, signature_of
from gateway.hooks.payload import Payload, decode
from gateway.hooks.rate_limits import RateLimits
from gateway.hooks.refusal import HookRefused
from gateway.hooks.template import LONGEST_TEXT, LONGEST_VALUE, fields_of, plain, render
from tests.hooks.conftest import a_hook

TYPES = [
    "",
    "application/json",
    "text/plain",
    "application/x-www-form-urlencoded",
    "image/png",
    "text/html; charset=utf-16",
    ";",
    "a;b=c;d",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary() | st.text().map(str.encode), st.sampled_from(TYPES) | st.text())
def test_a_body_is_decoded_into_text_that_can_be_stored_or_refused(body: bytes, media_type: str) -> None:
    try:
        found = decode(body, media_type)
    except HookRefused as refused:
        status = refused.status
    else:
        status = 400
        found.text.encode()
        assert "\0" not in found.text
    assert status in {400, 415}


@given(VALUES)
def test_json_is_shown_without_a_loss(value: Any) -> None:
    found = decode(json.dumps(value).encode(), "application/json")
    assert json.dumps(json.loads(found.text)) == json.dumps(found.value)


@given(st.text(), VALUES)
def test_no_template_is_filled_beyond_its_length(template: str, value: Any) -> None:
    assert len(render(template, Payload("body", value))) <= LONGEST_TEXT


@given(st.text() | st.text(alphabet="[]()*_`<>@#|~\\!\n\r\x1b"))
def test_a_value_is_one_short_line_in_which_every_mark_is_escaped(value: str) -> None:
    shown = plain(value)
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= 2 * LONGEST_VALUE
    bare = shown.replace("\\\\", "")
    assert not any(letter in "[]<>*_`|~@#" and bare[at - 1 : at] != "\\" for at, letter in enumerate(bare))


@given(st.lists(st.text(alphabet="abc.0", min_size=1), max_size=5), VALUES)
def test_fields_are_filled_with_their_values_or_a_question_mark(names: list[str], value: Any) -> None:
    template = " ".join(f"{{{name}}}" for name in names)
    assert set(fields_of(template)) == {name.strip() for name in names}
    assert "{" not in render(template, Payload("", None))
    assert render(template, Payload("", None)) == " ".join("?" for _ in names)
    render(template, Payload("", value))


def test_paths_reach_into_objects_and_lists_and_braces_can_be_written() -> None:
    payload = Payload("whole", {"a": {"b": [{"c": "deep"}]}, "x.y": "own", "n": 1.5, "empty": ""})
    assert render("{a.b.0.c} {x.y} {n} {empty}{{a}} {a.b.7} {body} { n }", payload) == "deep own 1.5 {a} ? whole 1.5"


@given(
    st.lists(st.tuples(st.floats(0, 30), st.sampled_from("ab")), max_size=80),
    st.integers(1, 5),
    st.integers(1, 120),
)
def test_no_span_of_time_sees_more_calls_than_its_bucket_gives(
    steps: list[tuple[float, str]], burst: int, per_minute: int
) -> None:
    now = 0.0
    limits = RateLimits(lambda: now)
    taken: dict[str, list[float]] = {"a": [], "b": []}
    for wait, name in steps:
        now += wait
        left = limits.take(name, burst=burst, per_minute=per_minute)
        if left == 0:
            taken[name].append(now)
            continue
        now += left
        assert limits.take(name, burst=burst, per_minute=per_minute) == 0, "it said when there is one again"
        taken[name].append(now)
    for times in taken.values():
        for first, began in enumerate(times):
            for last in range(first, len(times)):
                assert last - first + 1 <= burst + (times[last] - began) * per_minute / 60 + 1e-6


def test_few_buckets_are_kept_however_many_addresses_there_are() -> None:
    limits = RateLimits(lambda: 0.0, most=3)
    for n in range(100):
        assert limits.take(str(n), burst=1, per_minute=1) == 0
    assert [limits.take(str(n), burst=1, per_minute=1) for n in (99, 98)] == [60, 60]
    assert limits.take("0", burst=1, per_minute=1) == 0


@given(st.binary(), st.binary(), st.text(alphabet="abc", min_size=1))
def test_only_the_token_and_only_the_signature_of_the_body_are_right(token: bytes, body: bytes, secret: str) -> None:
    by_token, signed = a_hook(token_hash=hash_of(secret)), a_hook(token_hash=None, secret=secret)
    assert has_token(by_token, token) == (token == secret.encode())
    assert not has_token(signed, token)
    assert not has_token(None, token)
    good = signature_of(secret, body).encode()
    assert has_signed(signed, good, body)
    assert not has_signed(signed, good, body + b"x")
    assert not has_signed(by_token, good, body)
    assert not has_signed(None, good, body)
    assert offered([(b"x-hub-signature-256", b"sha256=" + good)]).signature == good
    assert offered([(b"x-hub-signature-256", b"sha256=" + good.upper())]).signature in {b"", good}
