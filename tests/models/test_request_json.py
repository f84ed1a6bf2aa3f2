"""The bytes of a request: valid JSON of the same value, whatever is in it; and its address."""

from __future__ import annotations

import importlib
import json

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.adapters.request_json import encoded, whole_url
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


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "base", ["http://127.0.0.1:9/v1", "https://models.example/a%20b/v1/", "https://me:pass@models.example"]
)
async def test_the_whole_address_is_the_one_that_the_sdk_makes_of_a_path(sdk: str, base: str) -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        return httpx2.Response(200, json={})

    module = importlib.import_module(sdk)
    make = getattr(module, "AsyncOpenAI" if sdk == "openai" else "AsyncAnthropic")
    over = module.DefaultAsyncHttpxClient(transport=httpx2.MockTransport(answer))
    async with make(api_key="k", base_url=base, max_retries=0, http_client=over) as client:
        for url in ("/messages", whole_url(client, "/messages")):
            await client.post(url, body={}, cast_to=object)
    assert asked[0] == asked[1]
