from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.search.best_lines import FileLines, best_lines
from memory.search.line_matches import LineMatches
from memory.store.candidates import Candidate, LineCosines
from memory.text.line_groups import line_groups
from memory.text.statements import statements
from memory.text.terms import query_terms
from memory.text.tokens import estimate

BROKEN = ["a long line that is broken " * 3, "and goes on"]
NOTE = [
    "# Boiler",
    "",
    "- 11:01 Maria: hello there",
    "- Anna: the boiler",
    *BROKEN,
    "and goes on",
    "last one.",
] * 9
QUESTION = "What did Maria say of the boiler?"


def matches(question: str = QUESTION) -> LineMatches:
    terms = query_terms(question)
    return LineMatches(terms, dict.fromkeys(terms.words, 1.0))


def passage(number: int, path: str, lines: list[str], *, start: int = 1, score: float = 1.0) -> Candidate:
    text = "\n".join(lines)
    return Candidate(
        id=number,
        path=path,
        source="memory",
        start_line=start,
        end_line=start + len(lines) - 1,
        part=0,
        day=None,
        text=text,
        score=score,
    )


def with_cosines(one: Candidate, cosines: list[float]) -> Candidate:
    if cosines:
        one.vector, count = cosines[0], len(line_groups(one.text))
        one.lines = LineCosines(max(cosines), 0.5, tuple((cosines * count)[:count])) if count else None
    return one


RANKED = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 55), st.integers(1, 8), st.lists(st.floats(0, 1), max_size=3)), max_size=20
).map(
    lambda rows: [
        with_cosines(passage(place, path, NOTE[first : first + count], start=first + 1, score=1 - place / 30), cosines)
        for place, (path, first, count, cosines) in enumerate(rows)
    ]
)


@given(RANKED, st.integers(1, 4), st.integers(20, 400))
def test_lines_are_those_of_their_numbers_once_within_the_limits(ranked: list[Candidate], most: int, tokens: int) -> None:
    found = best_lines(ranked, matches(), most=most, tokens=tokens)
    assert len({one.path for one in found}) == len(found) <= most
    assert bool(found) == any(statements(chunk.text) for chunk in ranked)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    given_lines = {(chunk.path, n) for chunk in ranked for n in range(chunk.start_line, chunk.end_line + 1)}
    for one in found:
        assert one.lines == {number: NOTE[number - 1] for number in one.lines}
        assert {(one.path, number) for number in one.lines} <= given_lines
        assert [n for first, last in one.pieces for n in range(first, last + 1)] == sorted(one.lines)
        assert numbered(one) == one.lines
    if sum(len(one.lines) for one in found) > 4:  # more than the first statement with its heading, which is always taken
        assert sum(estimate(one.text) for one in found) <= tokens


@given(RANKED, st.lists(st.sampled_from("abcd"), unique=True), st.integers(1, 4), st.integers(200, 400))
def test_files_that_come_first_do_with_their_best_line(
    ranked: list[Candidate], first: list[str], most: int, tokens: int
) -> None:
    found = best_lines(ranked, matches(), most=most, tokens=tokens, first=first)
    told = [chunk.path for chunk in ranked if statements(chunk.text)]
    asked = [path for path in first if path in told][:most]
    assert [one.path for one in found][: len(asked)] == asked
    assert len({one.path for one in found}) == len(found) <= most
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    alone = best_lines(ranked, matches(), most=4, tokens=10_000)
    for one in found[: len(asked)]:
        [whole] = [other for other in alone if other.path == one.path]
        assert set(one.lines) <= set(whole.lines)
    assert best_lines(ranked, matches(), most=most, tokens=tokens, first=["d"]) == best_lines(
        ranked, matches(), most=most, tokens=tokens
    )


def numbered(one: FileLines) -> dict[int, str]:
    """Read the numbers from the text, as its readers do."""
    number, read = one.start_line, {}
    for line in one.text.split("\n"):
        if line.startswith("[… line "):
            number = int(line.removeprefix("[… line ").removesuffix("]"))
        else:
            read[number] = line
            number += 1
    return read


@given(st.lists(st.sampled_from([*NOTE[:7], "## Other", "  indented", "| a | b |", "word " * 40]), max_size=25))
def test_every_line_with_text_is_in_one_statement_but_headings_of_other_lines(lines: list[str]) -> None:
    found = statements("\n".join(lines))
    held = [number for one in found for number in range(one.first, one.last + 1)]
    assert held == sorted(set(held))
    for number, line in enumerate(lines):
        below = next((other for other in lines[number + 1 :] if other.strip()), "#")
        assert (number in held) == bool(line.strip() and not (line.startswith("#") and not below.startswith("#")))
    for one in found:
        assert one.heading is None or (one.heading < one.first and lines[one.heading].startswith("#"))


def test_a_paragraph_that_is_broken_is_taken_whole_and_with_its_heading() -> None:
    lines = [
        "# House",
        "",
        "- the cellar is dry",
        "",
        "The boiler of the house is serviced every year in autumn, by",
        "Maria of the shop.",
        "- the roof",
    ]
    [found] = best_lines([passage(1, "a.md", lines)], matches(), most=6, tokens=40)
    assert set(found.lines) == {1, 5, 6}
    assert found.pieces == ((1, 1), (5, 6))


def test_a_line_of_whom_the_question_names_goes_before_one_that_is_addressed_to_them() -> None:
    lines = ["- 11:01 Anna: Maria, you look well today", "- filler of some length", "- 11:03 Maria: thanks, so do you really"]
    [found] = best_lines([passage(1, "a.md", lines)], matches("What does Maria say?"), most=6, tokens=14)
    assert list(found.lines) == [3]
    assert not matches().by_line("- the boiler was bought by Maria in the shop at the corner: it is new")[0].named


def test_the_nearest_line_is_taken_and_where_one_was_refused_all_count_alike() -> None:
    lines = [
        f"- line {number} of this note has words of its own, and enough of them to be embedded by itself, so it is a group of a single line"
        for number in range(6)
    ]
    far, near = passage(1, "a.md", lines), passage(2, "b.md", lines)
    assert len(line_groups(far.text)) == len(lines)
    far.lines = LineCosines(0.5, 0.5, (0.1,) * 6)
    near.lines = LineCosines(0.9, 0.5, (0.1, 0.1, 0.1, 0.9, 0.1, 0.1))
    [first, *_] = best_lines([far, near], matches(), most=6, tokens=30)
    assert (first.path, list(first.lines)) == ("b.md", [4])
    near.lines = LineCosines(0.9, 0.5, (0.1, 0.9))
    [first, *_] = best_lines([far, near], matches(), most=6, tokens=30)
    assert (first.path, list(first.lines)) == ("b.md", [1])


def test_parts_of_a_long_line_stay_alone() -> None:
    one, two = (passage(number, "a.md", ["boiler " * 20]) for number in (1, 2))
    one.part, two.part = 1, 2
    assert [found.part for found in best_lines([one, two], matches(), most=6, tokens=400)] == [1, 2]


def test_of_lines_that_are_as_near_that_of_the_nearer_file_goes_first_but_by_words_alone_files_do_not_count() -> None:
    lines = [
        f"- line {number} of this note has words of its own, and enough of them to be embedded by itself"
        for number in range(12)
    ]
    lone, beside = passage(1, "a.md", lines), passage(2, "b.md", lines)
    groups = len(line_groups(lone.text))
    lone.lines = LineCosines(0.9, 0.5, (0.9, *[0.1] * (groups - 1)))
    beside.lines = LineCosines(0.9, 0.5, (0.9, *[0.6] * (groups - 1)))
    assert [found.path for found in best_lines([lone, beside], matches(), most=6, tokens=2000)] == ["b.md", "a.md"]
    for one in (lone, beside):
        one.lines = None
    assert [found.path for found in best_lines([lone, beside], matches(), most=6, tokens=2000)] == ["a.md", "b.md"]


def test_a_note_with_the_words_goes_before_one_that_is_only_near() -> None:
    named, near = passage(1, "a.md", ["boiler boiler"]), passage(2, "b.md", ["- tea is drunk at four"], score=0.9)
    named.vector, near.vector = 0.1, 0.9
    assert [found.path for found in best_lines([near, named], matches("boiler"), most=6, tokens=400)] == ["a.md", "b.md"]
