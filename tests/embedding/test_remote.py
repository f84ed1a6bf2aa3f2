"""OpenAI and Gemini embedders against the strict peer: what is sent, what comes back, and all that can go wrong between."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from memory.embedding.endpoint import Endpoint
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.embedding.engines.openai import OpenAIEmbedder
from memory.embedding.retry import Retries
from memory.errors import EmbeddingFailed
from tests.peers.mood import Mood
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from memory.embedding.engines.gemini import GeminiEmbedder
    from tests.embedding.conftest import ImpatientClock
    from tests.peers.embeddings import EmbeddingPeer

TEXTS = ["We planned a garden.", "The invoice is due in March.", "日本語のメモ"]


@pytest.fixture(params=["openai", "gemini"])
def embedder(request: pytest.FixtureRequest) -> OpenAIEmbedder | GeminiEmbedder:
    found: OpenAIEmbedder | GeminiEmbedder = request.getfixturevalue(request.param)
    return found


async def test_vectors_come_in_order_and_of_unit_length(embedder: OpenAIEmbedder | GeminiEmbedder) -> None:
    vectors = await embedder.embed(TEXTS, purpose="passage")
    expected = await BagOfWords(dims=768).embed(TEXTS, purpose="passage")
    assert [pytest.approx(v, abs=1e-6) for v in expected] == vectors
    assert all(math.isclose(sum(x * x for x in v), 1.0, rel_tol=1e-6) for v in vectors)


async def test_no_texts_cost_no_call(embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer) -> None:
    assert await embedder.embed([], purpose="passage") == []
    assert peer.seen == []


async def test_many_texts_are_cut_into_calls_and_keep_their_order(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer
) -> None:
    texts = [f"note number {i} about subject {i * 7}" for i in range(230)]
    vectors = await embedder.embed(texts, purpose="passage")
    assert len(peer.embedding_calls()) > 1
    for place in (0, 99, 100, 229):
        (alone,) = await embedder.embed([texts[place]], purpose="passage")
        assert vectors[place] == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("text", ["", "   \n", "\x00", "lone \ud800 surrogate", "x" * 200_000, "記" * 30_000])
async def test_texts_that_a_provider_would_refuse_are_made_sendable(
    embedder: OpenAIEmbedder | GeminiEmbedder, text: str
) -> None:
    vectors = await embedder.embed([text, "beside it"], purpose="passage")
    assert len(vectors) == 2


async def test_passing_trouble_is_tried_again_with_growing_waits(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer, clock: ImpatientClock
) -> None:
    peer.refuse_next(503, times=2)
    assert len(await embedder.embed(["a"], purpose="passage")) == 1
    assert clock.slept == [0.5, 1.0]


async def test_a_dropped_connection_is_tried_again(embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer) -> None:
    peer.drops = 1
    assert len(await embedder.embed(["a"], purpose="passage")) == 1
    assert len(peer.embedding_calls()) == 2


async def test_retry_after_is_obeyed_once_and_nobody_else_retries(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer, clock: ImpatientClock
) -> None:
    peer.refuse_next(429, headers={"Retry-After": "7"})
    assert len(await embedder.embed(["a"], purpose="query")) == 1
    assert clock.slept == [7.0]
    assert len(peer.embedding_calls()) == 2


async def test_429_for_an_hour_fails_at_once_and_leaves_the_provider_alone_meanwhile(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer, clock: ImpatientClock
) -> None:
    peer.refuse_next(429, headers={"Retry-After": "3600"})
    with pytest.raises(EmbeddingFailed) as failed:
        await embedder.embed(["a"], purpose="query")
    assert failed.value.passing
    assert failed.value.retry_after == 3600
    with pytest.raises(EmbeddingFailed, match="no calls for another 3600 seconds"):
        await embedder.embed(["a"], purpose="query")
    assert len(peer.embedding_calls()) == 1
    assert clock.slept == []
    clock.elapsed += 3601
    assert len(await embedder.embed(["a"], purpose="query")) == 1


async def test_trouble_that_stays_is_given_up_after_four_tries(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer
) -> None:
    peer.refuse_next(500, times=10)
    with pytest.raises(EmbeddingFailed, match="answered 500: told to fail") as failed:
        await embedder.embed(["a"], purpose="passage")
    assert failed.value.passing
    assert len(peer.embedding_calls()) == 4


async def test_a_refused_key_is_not_tried_again_and_the_message_names_where_it_came_from(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer
) -> None:
    peer.keys = {"another"}
    with pytest.raises(EmbeddingFailed, match=r"key for embeddings was rejected \(a test\)") as failed:
        await embedder.embed(["a"], purpose="query")
    assert not failed.value.passing
    assert "good-key" not in str(failed.value)
    assert "memorySearch.remote.apiKey" in failed.value.hint
    assert len(peer.embedding_calls()) == 1


@pytest.mark.parametrize(("kind", "message"), [("zero", "all-zero"), ("nan", "NaN"), ("short", "767 numbers for text")])
async def test_a_vector_that_is_none_is_refused(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer, kind: str, message: str
) -> None:
    peer.spoilt["bad"] = kind
    with pytest.raises(EmbeddingFailed, match=message):
        await embedder.embed(["good", "bad"], purpose="passage")


async def test_a_key_that_expires_may_be_renewed_without_a_restart(peer: EmbeddingPeer, clock: ImpatientClock) -> None:
    keys = ["old"]
    endpoint = Endpoint(provider="openai", base_url=peer.openai, key=lambda: keys[0])
    embedder = OpenAIEmbedder(model="m", endpoint=endpoint, retries=Retries(clock, lambda: 0.5))
    with pytest.raises(EmbeddingFailed):
        await embedder.embed(["a"], purpose="query")
    keys[0] = "good-key"
    assert len(await embedder.embed(["a"], purpose="query")) == 1
    await embedder.close()


async def test_headers_are_sent_and_may_stand_for_the_key(peer: EmbeddingPeer, clock: ImpatientClock) -> None:
    headers = {"Authorization": "Bearer good-key", "X-Project": "home"}
    endpoint = Endpoint(provider="openai", base_url=peer.openai, key=lambda: None, headers=headers)
    embedder = OpenAIEmbedder(model="m", endpoint=endpoint, retries=Retries(clock, lambda: 0.5), dimensions=256)
    (vector,) = await embedder.embed(["a"], purpose="query")
    assert len(vector) == 256
    assert peer.seen[0].headers["x-project"] == "home"
    await embedder.close()


async def test_a_server_that_only_knows_float_lists_will_do(openai: OpenAIEmbedder, peer: EmbeddingPeer) -> None:
    peer.base64_only_when_asked = False
    assert len(await openai.embed(TEXTS, purpose="passage")) == 3


async def test_gemini_is_told_query_from_passage_and_the_key_is_not_in_the_address(
    gemini: GeminiEmbedder, peer: EmbeddingPeer
) -> None:
    await gemini.embed(["a"], purpose="query")
    await gemini.embed(["a", "b"], purpose="passage")
    one, many = peer.seen
    assert one.body["taskType"] == "RETRIEVAL_QUERY"
    assert {request["taskType"] for request in many.body["requests"]} == {"RETRIEVAL_DOCUMENT"}
    assert one.query == many.query == ""


async def test_gemini_tells_its_wait_in_the_body(gemini: GeminiEmbedder, peer: EmbeddingPeer, clock: ImpatientClock) -> None:
    peer.refuse_next(429, details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "4.5s"}])
    await gemini.embed(["a"], purpose="query")
    assert clock.slept == [4.5]


async def test_a_page_in_place_of_the_service_is_told_as_such(peer: EmbeddingPeer, clock: ImpatientClock) -> None:
    peer.hub["a/b/embeddings"] = b"<html>hello</html>"
    endpoint = Endpoint(provider="openai", base_url=f"{peer.url}/nowhere", key=lambda: "k")
    embedder = OpenAIEmbedder(model="m", endpoint=endpoint, retries=Retries(clock, lambda: 0.5))
    with pytest.raises(EmbeddingFailed, match="was not found") as failed:
        await embedder.embed(["a"], purpose="query")
    assert "memorySearch.remote.baseUrl" in failed.value.hint
    await embedder.close()


async def test_a_port_where_nobody_listens_is_passing_trouble(clock: ImpatientClock) -> None:
    endpoint = Endpoint(provider="openai", base_url="http://127.0.0.1:9/v1", key=lambda: "k")
    embedder = OpenAIEmbedder(model="m", endpoint=endpoint, retries=Retries(clock, lambda: 0.5))
    with pytest.raises(EmbeddingFailed, match=r"openai at 127\.0\.0\.1 could not be reached") as failed:
        await embedder.embed(["a"], purpose="query")
    assert failed.value.passing
    await embedder.close()


@parametrize_some(2, "seed", range(5))
async def test_on_a_bad_day_vectors_are_those_of_the_texts_or_there_are_none(
    embedder: OpenAIEmbedder | GeminiEmbedder, peer: EmbeddingPeer, seed: int
) -> None:
    peer.mood = day = Mood(f"embeddings {seed}", bad=0.4)
    expected = await BagOfWords(dims=768).embed(TEXTS, purpose="passage")
    whole = 0
    for _ in range(8):
        try:
            vectors = await embedder.embed(TEXTS, purpose="passage")
        except EmbeddingFailed:
            continue
        assert [pytest.approx(one, abs=1e-6) for one in expected] == vectors
        whole += 1
    assert whole
    day.over()
    assert len(await embedder.embed(TEXTS, purpose="passage")) == len(TEXTS)
