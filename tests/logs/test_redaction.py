"""A secret is taken out wherever it stands, and nothing else is."""

import base64
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.logs.redaction import REDACTED, SHORTEST, Redactor, secrets_in

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=SHORTEST + 6, max_size=40)
AROUND = st.text(st.sampled_from("abc :/=?&"), max_size=9)


@given(SECRETS, AROUND, AROUND)
@pytest.mark.sec(73)
def test_a_secret_is_taken_out_in_every_form(secret, before, after):
    redactor = Redactor([secret])
    for form in (
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
    ):
        cleaned = redactor.text(before + form + after)
        assert form not in cleaned
        assert REDACTED in cleaned


@given(SECRETS, st.binary(max_size=9), st.binary(max_size=9))
def test_a_secret_is_taken_out_of_base64_wherever_it_begins(secret, before, after):
    redactor = Redactor([secret])
    whole = before + secret.encode() + after
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        cleaned = redactor.text(encode(whole).decode())
        assert REDACTED in cleaned
        left = "".join(part for part in cleaned.split(REDACTED))
        assert len(left) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 8


@given(st.text(max_size=60))
@pytest.mark.sec(74)
def test_what_holds_no_secret_is_left_alone(text):
    assert Redactor(["correct-horse-battery"]).text(text) == text


def test_secrets_are_found_anywhere_in_a_value():
    redactor = Redactor(["hunter2-hunter2"])
    value = {"hunter2-hunter2": [1, None, True, {"b": (b"xhunter2-hunter2", Path("/hunter2-hunter2"))}]}
    assert redactor.anywhere(value) == {REDACTED: [1, None, True, {"b": [f"x{REDACTED}", f"/{REDACTED}"]}]}


def test_a_longer_secret_wins_over_one_within_it():
    assert Redactor(["abcdef", "abcdefghi"]).text("<abcdefghi> <abcdef>") == f"<{REDACTED}> <{REDACTED}>"


def test_a_secret_too_short_to_tell_from_a_word_is_passed_over():
    assert Redactor(["on", ""]).text("once upon") == "once upon"


def test_secrets_may_be_learnt_later():
    redactor = Redactor()
    redactor.learn(["correct-horse"])
    assert redactor.text("correct-horse") == REDACTED


def test_the_environment_names_its_secrets():
    env = {"OPENAI_API_KEY": "a", "X_TOKEN": "b", "PATH": "c", "MONKEY": "d", "DB_PASSWORD": "e", "HOMEBODY_HOME": "f"}
    assert sorted(secrets_in(env)) == ["a", "b", "e"]
    several = {"OPENAI_API_KEYS": "k1, k2", "OPENAI_API_KEY_2": "k3", "KEYBOARDS": "d", "TOKENS_A_DAY": "9"}
    assert sorted(secrets_in(several)) == ["k1", "k1, k2", "k2", "k3"]
