"""The bytes of a request: valid JSON of the same value, whatever is in it."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.adapters.request_json import encoded
from agent.models.adapters.sanitize import clean
from tests.properties import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@settings(max_examples=examples(200))
@given(st.dictionaries(st.text(), VALUES | st.text(st.characters())))
def test_a_body_is_sent_as_json_of_the_same_value(body: dict) -> None:
    assert json.loads(encoded(body)) == body


def test_a_lone_surrogate_in_a_name_is_no_error() -> None:
    assert json.loads(encoded({"model": "m\ud800"})) == {"model": "m\ud800"}


@settings(max_examples=examples(200))
@given(st.text(st.characters(codec=None) | st.sampled_from("\0\ud800\udfff")))
def test_a_cleaned_text_has_no_surrogate_and_no_nul_and_else_is_unchanged(text: str) -> None:
    expected = "".join("\N{REPLACEMENT CHARACTER}" if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text)
    assert clean(text) == expected
