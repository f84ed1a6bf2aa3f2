"""A question that the notes do not answer brings nothing, in a small memory as in a large one, by words as by vectors."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.errors import EmbeddingFailed
from memory.indexing.calibration import questions_of
from memory.search.retrieval import floor_of
from memory.settings import MemorySettings
from memory.store.candidates import AnswerCosines
from memory.text.terms import query_terms
from tests.memory.memory_engines import memory_at

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

A, B = ("fake", "a", "1"), ("fake", "b", "1")


class Cones(BagOfWords):
    """An embedder whose vectors all lie near each other, as those of some models do: nothing is far from anything."""

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        raw = await super().embed(texts, purpose=purpose)
        return [[x / math.hypot(2.0, 1.0) for x in (*vector, 2.0)] for vector in raw]


class Forgetful(BagOfWords):
    """An embedder that fails at questions at first."""

    fails = True

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        if purpose == "query" and self.fails:
            raise EmbeddingFailed("no questions today", passing=True)
        return await super().embed(texts, purpose=purpose)


class Translating(BagOfWords):
    """An embedder that knows two words of German."""

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        known = {"Internetcode": "wifi password", "Ferienhaus": "cottage"}
        english = [" ".join(known.get(word, word) for word in text.split()) for text in texts]
        return await super().embed(english, purpose=purpose)


def opened(tmp_path: Path, notes: int, embedder: BagOfWords | None = None) -> WorkspaceMemory:
    folder = tmp_path / "ws/memory"
    folder.mkdir(parents=True)
    for number in range(notes):
        (folder / f"day-{number}.md").write_text(f"We walked to market {number} and bought bread, cheese and apples\n")
    clock = ManualClock(datetime(2026, 3, 18, 12, tzinfo=UTC))
    return memory_at(folder.parent, tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock, embedder=embedder)


@pytest.mark.parametrize("notes", [1, 3, 20, 80])
async def test_a_question_that_shares_one_word_of_many_is_not_answered(tmp_path: Path, notes: int) -> None:
    memory = opened(tmp_path, notes)
    await memory.sync()
    answer = await memory.search("which spaceship launched the orbital telescope when apples fell down?", audience=OWNER)
    assert answer.hits == ()
    assert "Nothing in memory is relevant" in (answer.note or "")
    assert (await memory.search("did we buy bread and cheese?", audience=OWNER)).hits
    await memory.close()


async def test_a_note_of_the_asked_day_is_given_whatever_it_says_and_one_of_the_asked_month_if_it_says_some_of_it(
    tmp_path: Path,
) -> None:
    memory = opened(tmp_path, 80)
    (tmp_path / "ws/memory/2026-02-03.md").write_text("The roofer came and looked at the gutter\n")
    await memory.sync()
    for question in (
        "did the spaceship launch the telescope on 3 February 2026?",
        "what happened in February 2026?",
        "did the roofer look at the gutter in February 2026?",
    ):
        hits = (await memory.search(question, audience=OWNER)).hits
        assert [hit.path for hit in hits][:1] == ["memory/2026-02-03.md"], question
    strange = "which spaceship launched the orbital telescope with rockets and mirrors in February?"
    assert (await memory.search(strange, audience=OWNER)).hits == ()
    await memory.close()


def test_the_floor_rises_with_the_number_of_chunks_and_holds_in_full_from_a_hundred_on() -> None:
    floors = [floor_of(0.4, chunks) for chunks in range(1, 200)]
    assert floors == sorted(floors)
    assert floors[0] == pytest.approx(0.24)
    assert floors[99] == floors[-1] == 0.4
    assert floor_of(0.0, 5) == 0.0


@pytest.mark.parametrize("embedder", [BagOfWords(), Cones()])
async def test_how_near_is_near_is_learned_of_each_model(tmp_path: Path, embedder: BagOfWords) -> None:
    memory = opened(tmp_path, 40, embedder)
    await memory.sync()
    foreign = "which spaceship launched the orbital telescope?"
    assert (await memory.search(foreign, audience=OWNER)).hits == ()  # learned from the notes themselves
    for number in range(25):
        assert (await memory.search(f"did we walk to market {number} for bread?", audience=OWNER)).hits
    answer = await memory.search(foreign, audience=OWNER)
    assert answer.hits == ()
    assert answer.provider == "fake"
    await memory.close()


async def test_what_stands_out_in_meaning_alone_is_told_as_nearest(tmp_path: Path) -> None:
    asked = "Internetcode Ferienhaus holen wobei womit"
    for embedder in (Translating(), None):
        place = tmp_path / type(embedder).__name__
        memory = opened(place, 40, embedder)
        (place / "ws/memory/cottage.md").write_text("The wifi password of the cottage is inside the cuckoo clock\n")
        await memory.sync()
        answer = await memory.search(asked, audience=OWNER)
        assert answer.hits == ()
        assert [hit.path for hit in answer.nearest][:1] == (["memory/cottage.md"] if embedder else [])
        assert ("nearest to it in meaning" in (answer.note or "")) == (embedder is not None)
        await memory.close()


async def test_what_is_as_near_as_answers_are_is_told_also_where_several_notes_are(tmp_path: Path) -> None:
    memory = opened(tmp_path, 40, Translating())
    for number in range(8):
        (tmp_path / f"ws/memory/cottage-{number}.md").write_text("The wifi password of the cottage\n")
    await memory.sync()
    answer = await memory.search("Internetcode Ferienhaus", audience=OWNER)
    assert answer.hits == ()
    assert answer.nearest
    assert all(hit.path.startswith("memory/cottage") for hit in answer.nearest)
    await memory.close()


async def test_what_is_little_nearer_than_others_and_farther_than_answers_is_not_told(tmp_path: Path) -> None:
    memory = opened(tmp_path, 80, BagOfWords())
    (tmp_path / "ws/memory/harbour.md").write_text("The ladder and the market, bread for the old harbour, and a telescope\n")
    await memory.sync()
    for question in (
        "which spaceship launched the orbital telescope when apples fell down?",
        "who sailed around the harbour with orbital spaceships, rockets and mirrors?",
        "does the spaceship need apples, mirrors, rockets and bread?",
    ):
        answer = await memory.search(question, audience=OWNER)
        assert answer.hits == ()
        assert answer.nearest == (), question
    await memory.close()


async def test_of_a_few_passages_the_nearest_two_are_told(tmp_path: Path) -> None:
    memory = opened(tmp_path, 6, BagOfWords())
    (tmp_path / "ws/memory/more.md").write_text(
        "\n".join(f"The garden gate number{n} needs new paint{n} soon{n}\n" for n in range(20))
    )
    await memory.sync()
    answer = await memory.search("which spaceship launched the orbital telescope?", audience=OWNER)
    assert answer.hits == ()
    assert 1 <= len(answer.nearest) <= 2
    await memory.close()


async def test_of_two_lines_nothing_can_be_learned_so_the_nearest_is_returned(tmp_path: Path) -> None:
    embedder = BagOfWords()
    memory = opened(tmp_path, 2, embedder)
    await memory.sync()
    assert embedder.calls["query"] == 0
    assert (await memory.search("which spaceship launched the orbital telescope?", audience=OWNER)).hits
    await memory.close()


async def test_an_embedder_that_fails_at_the_questions_is_asked_again_at_the_next_sync(tmp_path: Path) -> None:
    embedder = Forgetful()
    memory = opened(tmp_path, 40, embedder)
    await memory.sync()
    assert (await memory.status()).missing_vectors == 0
    embedder.fails = False
    await memory.sync()
    assert (await memory.search("which spaceship launched the orbital telescope?", audience=OWNER)).hits == ()
    asked = embedder.calls["query"]
    await memory.sync()
    assert embedder.calls["query"] == asked
    await memory.close()


@given(st.lists(st.text(max_size=60), max_size=40))
def test_questions_are_made_of_the_words_of_lines_alone(texts: list[str]) -> None:
    for question in questions_of(texts):
        assert any(
            set(question.split()) <= set(query_terms(line, at_least_any=False).words) for t in texts for line in t.split("\n")
        )


def test_twenty_answers_tell_and_those_of_another_model_do_not() -> None:
    answers = AnswerCosines()
    for number in range(20):
        assert answers.place(A, 0.6) is None
        answers.learn(A, 0.5 + number / 100)
    assert answers.place(A, 0.51) == 0.0
    assert answers.place(A, 0.60) == pytest.approx(1.0)
    assert answers.place(A, 0.1) == -3.0
    assert answers.place(B, 0.6) is None
    again = AnswerCosines()
    again.recall(A, answers.known())
    assert again.place(A, 0.55) == answers.place(A, 0.55)
    answers.learn(B, 0.1)
    assert answers.place(A, 0.6) is None


async def test_what_was_learned_is_known_after_a_restart(tmp_path: Path) -> None:
    memory = opened(tmp_path, 40, BagOfWords())
    await memory.sync()
    for number in range(25):
        assert (await memory.search(f"did we walk to market {number} for bread?", audience=OWNER)).hits
    await memory.close()
    clock = ManualClock(datetime(2026, 3, 19, 12, tzinfo=UTC))
    again = memory_at(
        tmp_path / "ws", tmp_path / "i.sqlite", MemorySettings(), agent="main", clock=clock, embedder=BagOfWords()
    )
    await again.sync()
    assert (await again.search("which spaceship launched the orbital telescope?", audience=OWNER)).hits == ()
    await again.close()
