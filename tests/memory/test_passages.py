from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.search.line_matches import LineMatches
from memory.search.passages import cut_by, merge_adjacent
from memory.search.ranking import fused_ranking
from memory.settings import FusedSettings
from memory.store.candidates import Candidate
from memory.text.terms import query_terms
from memory.text.tokens import estimate


def candidate(number: int, path: str, start: int, length: int, score: float) -> Candidate:
    text = "\n".join(f"{path} line {line}" for line in range(start, start + length))
    return Candidate(
        id=number,
        path=path,
        source="memory",
        start_line=start,
        end_line=start + length - 1,
        part=0,
        day=None,
        text=text,
        score=score,
    )


RANKED = st.lists(st.tuples(st.sampled_from(["a.md", "b.md"]), st.integers(1, 60), st.integers(1, 8)), max_size=25).map(
    lambda rows: [candidate(i, path, start, length, 1 - i / 100) for i, (path, start, length) in enumerate(rows)]
)


@given(RANKED, st.integers(1, 6), st.integers(10, 400))
def test_passages_neither_touch_nor_repeat_nor_lose_lines(ranked: list[Candidate], most: int, tokens: int) -> None:
    passages = merge_adjacent(ranked, most=most, tokens=tokens)
    assert len(passages) <= most
    assert bool(passages) == bool(ranked)
    for passage in passages:
        wanted = [f"{passage.path} line {line}" for line in range(passage.start_line, passage.end_line + 1)]
        assert passage.text.split("\n") == wanted
        assert passage.score == max(chunk.score for chunk in passage.chunks)
        for other in passages:
            if other is not passage and other.path == passage.path:
                assert other.start_line > passage.end_line + 1 or other.end_line < passage.start_line - 1
    assert [p.score for p in passages] == sorted((p.score for p in passages), reverse=True)
    if ranked:
        assert passages[0].score == ranked[0].score


@given(
    st.lists(st.tuples(st.none() | st.floats(0.1, 20), st.none() | st.floats(-1, 1)), min_size=1, max_size=20),
)
def test_fused_scores_lie_between_0_and_1_and_order_the_list(sides: list[tuple[float | None, float | None]]) -> None:
    candidates = []
    for number, (keyword, vector) in enumerate(sides):
        one = candidate(number, "a.md", number * 10 + 1, 1, 0)
        one.keyword, one.vector = keyword, vector
        candidates.append(one)
    ranked = fused_ranking(candidates, FusedSettings(), [])
    scores = [one.score for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 + 1e-9 for score in scores)


def test_a_chunk_whose_vector_is_to_come_is_judged_by_its_words() -> None:
    old, new, far = (candidate(n, "a.md", n * 10 + 1, 1, 0) for n in range(3))
    old.keyword, old.vector = 2.0, 0.9
    new.keyword, new.embedded = 5.0, False
    far.keyword, far.vector = 1.0, 0.1
    assert fused_ranking([old, new, far], FusedSettings(), [])[0] is new
    assert new.score == 1.0  # all the weight of the missing side goes to its words


def test_a_chunk_without_a_vector_is_not_put_behind_worse_words_with_one() -> None:
    settings = FusedSettings(vector_weight=0.9, text_weight=0.1)
    old, new = (candidate(n, "a.md", n * 10 + 1, 1, 0) for n in range(2))
    old.keyword, old.vector, old.embedded = 1.0, 0.3, True
    new.keyword, new.embedded = 4.0, False
    other = candidate(2, "a.md", 31, 1, 0)
    other.keyword, other.vector, other.embedded = 0.5, 0.9, True
    assert [one.id for one in fused_ranking([old, new, other], settings, [])] == [1, 2, 0]


@given(
    st.lists(st.tuples(st.none() | st.floats(0.1, 20), st.none() | st.floats(-1, 1)), min_size=1, max_size=20),
    st.floats(0.1, 0.9),
)
def test_better_words_and_a_nearer_vector_never_come_behind(
    sides: list[tuple[float | None, float | None]], weight: float
) -> None:
    candidates = []
    for number, (keyword, vector) in enumerate(sides):
        one = candidate(number, "a.md", number * 10 + 1, 1, 0)
        one.keyword, one.vector, one.embedded = keyword, vector, vector is not None
        candidates.append(one)
    ranked = fused_ranking(candidates, FusedSettings(vector_weight=weight, text_weight=1 - weight, candidates=6), [])
    for place, before in enumerate(ranked):
        for behind in ranked[place + 1 :]:
            if None not in (before.keyword, before.vector, behind.keyword, behind.vector):
                better = (behind.keyword or 0) > (before.keyword or 0) and (behind.vector or 0) > (before.vector or 0)
                assert not better or before.score == behind.score


def test_of_a_full_list_the_worst_is_worth_nothing_and_of_a_short_one_it_is_worth_its_words() -> None:
    full = [candidate(n, "a.md", n * 10 + 1, 1, 0) for n in range(6)]
    for n, one in enumerate(full):
        one.keyword = 10.0 + n
    assert fused_ranking(full, FusedSettings(candidates=6), [])[-1].score == 0.0
    assert fused_ranking(full, FusedSettings(candidates=7), [])[-1].score == 10.0 / 15.0


def test_cosines_that_hardly_differ_are_not_spread_over_the_whole_scale() -> None:
    one, two = (candidate(n, "a.md", n * 10 + 1, 1, 0) for n in range(2))
    one.vector, two.vector = 0.62, 0.60
    first, second = fused_ranking([one, two], FusedSettings(), [])
    assert (first.score, round(second.score, 6)) == (1.0, 0.9)


@given(RANKED, st.integers(1, 6), st.integers(60, 400), st.sets(st.integers(1, 70), max_size=5))
def test_a_chunk_that_does_not_fit_is_cut_around_the_line_that_matches_best(
    ranked: list[Candidate], most: int, tokens: int, named: set[int]
) -> None:
    terms = query_terms("where is the boiler?")
    for chunk in ranked:
        lines = enumerate(chunk.text.split("\n"), chunk.start_line)
        chunk.text = "\n".join(f"{line} boiler" if number in named else line for number, line in lines)
    cut = cut_by(LineMatches(terms, dict.fromkeys(terms.words, 1.0)))
    passages = merge_adjacent(ranked, most=most, tokens=tokens, cut=cut)
    assert len(passages) <= most
    whole = {chunk.id: chunk for chunk in ranked}
    for passage in passages:
        numbers = range(passage.start_line, passage.end_line + 1)
        wanted = [f"{passage.path} line {number}" + " boiler" * (number in named) for number in numbers]
        assert passage.text.split("\n") == wanted
        for piece in passage.chunks:
            of = whole[piece.id]
            if (piece.start_line, piece.end_line) != (of.start_line, of.end_line):
                held = named & set(range(of.start_line, of.end_line + 1))
                assert not held or held & set(range(piece.start_line, piece.end_line + 1))
    if len(passages) > 1:
        assert sum(estimate(passage.text) for passage in passages) <= tokens + len(passages)


def test_no_line_is_taken_alone_that_does_not_fit() -> None:
    cut = cut_by(LineMatches(query_terms("boiler"), {"boiler": 1.0}))
    long = candidate(1, "a.md", 1, 3, 1.0)
    long.text = f"short\n{'boiler ' * 200}\nshort"
    assert cut(long, 50.0) is None
    part = candidate(2, "a.md", 1, 1, 1.0)
    part.part = 1
    assert cut(part, 50.0) is None
