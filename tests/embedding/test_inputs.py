from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.engines.bag_of_words import BagOfWords
from memory.embedding.identity import cache_key, fingerprint, text_hash
from memory.embedding.inputs import clean_input, embed_each, estimated_tokens, prompted, split_into_calls
from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

WORDS = st.text(max_size=200)


@given(st.lists(WORDS, max_size=60), st.integers(1, 80), st.integers(1, 9))
def test_groups_keep_every_text_in_order_and_fit_their_call(texts: list[str], max_tokens: int, max_texts: int) -> None:
    cut = list(split_into_calls(enumerate(texts), max_tokens=max_tokens, max_texts=max_texts))
    assert [item for group in cut for item in group] == list(enumerate(texts))
    for group in cut:
        assert 1 <= len(group) <= max_texts
        assert len(group) == 1 or sum(estimated_tokens(text) for _, text in group) <= max_tokens


@given(st.lists(st.text(min_size=1, max_size=50), min_size=2, max_size=40), st.integers(20, 80))
def test_no_two_neighbouring_groups_would_have_fitted_one_call(texts: list[str], max_tokens: int) -> None:
    cut = list(split_into_calls(enumerate(texts), max_tokens=max_tokens, max_texts=1000))
    for left, right in itertools.pairwise(cut):
        assert sum(estimated_tokens(text) for _, text in [*left, right[0]]) > max_tokens


@given(st.text(alphabet=st.characters(), max_size=400), st.integers(2, 60))
def test_a_sendable_text_is_valid_short_enough_and_never_blank(text: str, max_tokens: int) -> None:
    ready = clean_input(text, max_tokens=max_tokens)
    assert ready.strip()
    assert "\x00" not in ready
    assert estimated_tokens(ready.encode().decode()) <= max_tokens


class Picky(BagOfWords):
    """Refuses a call in which one of its texts has the word rotten, or all calls once the key is gone."""

    keyless = False

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        if self.keyless:
            raise EmbeddingFailed("no key")
        if any("rotten" in text for text in texts):
            raise EmbeddingFailed("a text is to blame", about_text=True)
        return await super().embed(texts, purpose=purpose)


@given(st.lists(st.booleans(), max_size=40))
async def test_one_rotten_text_spoils_no_other(rotten: list[bool]) -> None:
    texts = [(i, f"rotten {i}" if bad else f"sound {i}") for i, bad in enumerate(rotten)]
    outcomes = [pair async for pair in embed_each(Picky(), texts)]
    assert [key for key, _ in outcomes] == [key for key, _ in texts]
    assert [isinstance(outcome, EmbeddingFailed) for _, outcome in outcomes] == rotten


async def test_a_provider_at_fault_is_not_asked_again_for_each_text() -> None:
    picky = Picky()
    picky.keyless = True
    with pytest.raises(EmbeddingFailed, match="no key"):
        [pair async for pair in embed_each(picky, [(1, "a"), (2, "b")])]


def test_a_cache_key_changes_with_text_and_model_but_not_with_a_key() -> None:
    one, same, other = BagOfWords(), BagOfWords(), BagOfWords(dims=64)
    assert cache_key(one, "a") == cache_key(same, "a")
    assert len({cache_key(one, "a"), cache_key(one, "b"), cache_key(other, "a")}) == 3
    assert tuple(cache_key(one, "a")) == ("fake", "bag-of-words", one.fingerprint, text_hash("a"))


@pytest.mark.parametrize(
    "change",
    [
        {"provider": "gemini"},
        {"model": "n"},
        {"base_url": "http://elsewhere/v1"},
        {"dimensions": 256},
        {"headers": ["X-Route"]},
        {"file": "f"},
    ],
)
def test_a_fingerprint_changes_with_whatever_changes_vectors(change: dict[str, object]) -> None:
    usual: dict[str, object] = {"provider": "openai", "model": "m", "base_url": "http://here/v1"}
    assert fingerprint(**usual) != fingerprint(**{**usual, **change})  # type: ignore[arg-type]


def test_a_fingerprint_overlooks_keys_and_a_trailing_slash() -> None:
    left = fingerprint("openai", "m", base_url="http://here/v1/", headers=["Authorization", "X-Route"])
    assert left == fingerprint("openai", "m", base_url="http://here/v1", headers=["x-route", "X-API-Key"])


def test_models_with_prompts_get_them() -> None:
    assert prompted("cats", model="embeddinggemma-300M-Q8_0.gguf", purpose="query") == "task: search result | query: cats"
    assert prompted("cats", model="intfloat/multilingual-e5-large", purpose="passage") == "passage: cats"
    assert prompted("cats", model="text-embedding-3-small", purpose="query") == "cats"
    assert prompted("cats", model="bge-m3", purpose="query") == "cats"
