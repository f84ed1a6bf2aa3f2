"""Large backfills by batch jobs of OpenAI and Gemini: collected, resumed, repaired, given up."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from memory.embedding.batch.backfill import Backfill
from memory.embedding.batch.gemini_batch import GeminiBatches
from memory.embedding.batch.openai_batch import OpenAIBatches
from memory.embedding.batch.protocol import BatchService, InMemoryBatchJobs
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.embedding.identity import text_hash
from memory.errors import EmbeddingFailed
from memory.settings import BatchSettings

if TYPE_CHECKING:
    from tests.embedding.conftest import ImpatientClock
    from tests.peers.embeddings import EmbeddingPeer

TEXTS = {text_hash(text): text for text in (f"note {i} about subject {i * 7}" for i in range(24))}


@pytest.fixture(params=["openai", "gemini"])
def service(request: pytest.FixtureRequest) -> BatchService:
    embedder = request.getfixturevalue(request.param)
    return OpenAIBatches(embedder) if request.param == "openai" else GeminiBatches(embedder)


class House:
    """What lives on through a restart, and what a run is made of."""

    def __init__(self, service: BatchService, clock: ImpatientClock) -> None:
        self.service = service
        self.clock = clock
        self.book = InMemoryBatchJobs()
        self.told: list[str] = []
        self._numbers = itertools.count()

    def backfill(self, large: int = 10, **settings: Any) -> Backfill:
        return Backfill(
            self.service.embedder,
            batch=self.service,
            book=self.book,
            settings=BatchSettings.model_validate(settings),
            clock=self.clock,
            tell=self.told.append,
            large=large,
            token=lambda: f"token-{next(self._numbers)}",
        )

    async def run(self, texts: dict[str, str] = TEXTS, **how: Any) -> dict[str, list[float] | EmbeddingFailed]:
        return await gather(self.backfill(**how), texts)


async def gather(backfill: Backfill, texts: dict[str, str] = TEXTS) -> dict[str, list[float] | EmbeddingFailed]:
    found: dict[str, list[float] | EmbeddingFailed] = {}
    async for portion in backfill.run(texts):
        for key, outcome in portion:
            assert key not in found, "a vector came twice"
            found[key] = outcome
    return found


@pytest.fixture
def house(service: BatchService, clock: ImpatientClock) -> House:
    return House(service, clock)


def creations(peer: EmbeddingPeer) -> int:
    """Count the jobs that were handed in."""
    return len([s for s in peer.seen if s.method == "POST" and s.path.endswith(("/v1/batches", ":asyncBatchEmbedContent"))])


async def expected(texts: dict[str, str] = TEXTS) -> dict[str, Any]:
    vectors = await BagOfWords(dims=768).embed(list(texts.values()), purpose="passage")
    return {key: pytest.approx(vector, abs=1e-6) for key, vector in zip(texts, vectors, strict=True)}


async def test_a_large_backfill_goes_by_batch_and_leaves_nothing_behind(house: House, peer: EmbeddingPeer) -> None:
    assert await house.run() == await expected()
    assert peer.embedding_calls() == []
    assert house.book.records == {}
    assert peer.files == {}
    assert house.told == []


async def test_a_small_backfill_goes_directly(house: House, peer: EmbeddingPeer) -> None:
    assert await house.run(large=25) == await expected()
    assert peer.jobs == {}
    assert peer.embedding_calls()


async def test_jobs_are_cut_by_tokens_and_only_so_many_run_at_once(house: House, peer: EmbeddingPeer) -> None:
    house.service.max_tokens = 60
    assert await house.run(concurrency=2) == await expected()
    assert creations(peer) >= 4
    assert house.clock.slept
    assert set(house.clock.slept) == {2.0}


async def test_failed_requests_of_a_job_are_fetched_directly(house: House, peer: EmbeddingPeer) -> None:
    peer.fail_keys = set(list(TEXTS)[3:8])
    assert await house.run() == await expected()
    asked = str([seen.body for seen in peer.embedding_calls()])
    assert all((text in asked) == (key in peer.fail_keys) for key, text in TEXTS.items() if text != "note 1 about subject 7")


@pytest.mark.parametrize("end", ["failed", "expired", "cancelled"])
async def test_a_job_that_ends_badly_is_told_and_the_rest_is_fetched_directly(
    house: House, peer: EmbeddingPeer, end: str
) -> None:
    peer.jobs_end_as = end
    assert await house.run() == await expected()
    assert f"ended as {end}" in house.told[0]
    assert house.book.records == {}


async def test_after_two_bad_jobs_the_service_is_left_alone(house: House, peer: EmbeddingPeer) -> None:
    peer.jobs_end_as = "failed"
    for _ in range(3):
        assert await house.run() == await expected()
    assert creations(peer) == 2
    assert "not used until the next start" in house.told[-1]


async def test_a_server_without_batches_is_asked_once(house: House, peer: EmbeddingPeer) -> None:
    peer.refuse_next(404)
    assert await house.run() == await expected()
    before = len(peer.seen) - len(peer.embedding_calls())
    assert await house.run() == await expected()
    assert len(peer.seen) - len(peer.embedding_calls()) == before


async def test_a_job_that_takes_too_long_is_cancelled_and_what_it_did_is_used(house: House, peer: EmbeddingPeer) -> None:
    peer.polls_until_done = 10**9
    assert await house.run(timeoutMinutes=1) == await expected()
    assert "ended as cancelled" in house.told[0]
    asked = str([seen.body for seen in peer.embedding_calls()])
    texts = list(TEXTS.values())
    assert texts[23] in asked
    assert f"'{texts[2]}'" not in asked
    assert peer.files == {}


async def test_without_waiting_a_job_is_left_running_and_a_later_run_collects_it(house: House, peer: EmbeddingPeer) -> None:
    peer.polls_until_done = 3
    assert await house.run(wait=False) == {}
    assert await house.run(wait=False) == {}
    assert len(house.book.records) == 1
    assert await house.run(wait=False) == await expected()
    assert (
        len([s for s in peer.seen if s.path.endswith(("/v1/batches", ":asyncBatchEmbedContent")) and s.method == "POST"]) == 1
    )
    assert peer.embedding_calls() == []


async def test_a_restart_collects_a_pending_job_in_place_of_handing_it_in_again(house: House, peer: EmbeddingPeer) -> None:
    peer.polls_until_done = 10**9
    assert await house.run(wait=False) == {}
    peer.polls_until_done = 0
    grown = TEXTS | {text_hash("a new note"): "a new note"}
    assert await house.run(grown) == await expected(grown)
    assert [seen.body for seen in peer.embedding_calls()] != []
    assert "subject" not in str([seen.body for seen in peer.embedding_calls()])


async def test_a_crash_before_the_vectors_are_stored_loses_no_job(house: House, peer: EmbeddingPeer) -> None:
    run = house.backfill().run(TEXTS)
    first = await anext(run)
    assert first
    await run.aclose()  # type: ignore[attr-defined]
    assert len(house.book.records) == 1
    assert await house.run() == await expected()
    assert peer.embedding_calls() == []
    assert (
        len([s for s in peer.seen if s.path.endswith(("/v1/batches", ":asyncBatchEmbedContent")) and s.method == "POST"]) == 1
    )


async def test_a_job_whose_submission_was_cut_off_is_found_again(house: House, peer: EmbeddingPeer) -> None:
    """A crash after the provider took the job and before its id was noted."""
    peer.polls_until_done = 10**9
    await house.run(wait=False)
    (record,) = house.book.records.values()
    await house.book.note(replace(record, job=None))
    peer.polls_until_done = 0
    assert await house.run() == await expected()
    assert peer.embedding_calls() == []


async def test_a_planned_job_that_was_never_handed_in_is_forgotten(house: House, peer: EmbeddingPeer) -> None:
    peer.polls_until_done = 10**9
    await house.run(wait=False)
    (record,) = house.book.records.values()
    await house.book.note(replace(record, job=None))
    peer.jobs.clear()
    peer.polls_until_done = 0
    assert await house.run() == await expected()
    assert house.book.records == {}


async def test_trouble_while_polling_does_not_end_a_job(house: House, peer: EmbeddingPeer) -> None:
    peer.polls_until_done = 10**9
    await house.run(wait=False)
    peer.refuse_next(503, times=9)
    peer.polls_until_done = 0
    assert await house.run() == await expected()
    assert peer.embedding_calls() == []


async def test_a_result_file_that_breaks_off_is_read_again(house: House, peer: EmbeddingPeer) -> None:
    peer.cut_results_after = 9_000
    assert await house.run() == await expected()
    assert peer.embedding_calls() == []


async def test_unusable_vectors_in_a_result_file_are_asked_for_again(house: House, peer: EmbeddingPeer) -> None:
    keys = list(TEXTS)
    for key, kind in zip(keys[4:7], ("nan", "zero", "short"), strict=True):
        peer.spoilt[TEXTS[key]] = kind
    found: dict[str, Any] = {}
    async for portion in house.backfill().run({k: v for k, v in TEXTS.items() if k != keys[6]}):
        found.update(portion)
    assert {key for key, outcome in found.items() if isinstance(outcome, EmbeddingFailed)} == {keys[4], keys[5]}
    assert len(found) == 23


async def test_an_answer_that_gets_lost_makes_no_second_job(house: House, peer: EmbeddingPeer) -> None:
    peer.lose_answer_to_create = True
    assert await house.run() == await expected()
    assert creations(peer) == 1


async def test_files_that_cannot_be_deleted_are_told_of(house: House, peer: EmbeddingPeer) -> None:
    run = house.backfill().run(TEXTS)
    await anext(run)
    peer.files.clear()
    async for _ in run:
        pass
    assert "could not be deleted at the provider" in house.told[0]


async def test_batches_switched_off_are_not_used(house: House, peer: EmbeddingPeer) -> None:
    assert await house.run(enabled=False) == await expected()
    assert peer.jobs == {}


async def test_the_service_of_another_embedder_is_not_used(house: House, peer: EmbeddingPeer) -> None:
    """After a fallback has stepped in, vectors of the first provider would not fit the index any more."""
    other = BagOfWords(dims=768)
    backfill = Backfill(
        other,
        batch=house.service,
        book=house.book,
        settings=BatchSettings(),
        clock=house.clock,
        tell=house.told.append,
        large=1,
    )
    assert await gather(backfill) == await expected()
    assert peer.seen == []
