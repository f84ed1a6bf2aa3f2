"""Pieces of an answer that is still being written: together they are the answer, and each can be read alone."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from channels.common.breaks import fences
from channels.common.markdown import parser
from channels.common.stream_splitter import Limits, Piece, alone, next_piece, reopening

WORDS = st.text("abc é👩‍👩‍👧", min_size=1, max_size=30)
LINES = st.sampled_from(
    (
        "One sentence. And a second one! Then more,",
        "- an item",
        "1. the first",
        "# A heading",
        "| a | b |",
        "|---|---|",
        "**bold",
    )
)
CODE = st.lists(st.sampled_from(("x = 1", "    indented", "", "``", "| a |", "a. b", "~~")), min_size=1, max_size=30)
FENCES = st.builds(
    lambda mark, info, lines: "\n".join([mark + info, *lines, mark]),
    st.sampled_from(("```", "````", "~~~")),
    st.sampled_from(("", "py")),
    CODE,
)
ANSWERS = st.lists(st.one_of(WORDS, LINES, FENCES), max_size=12).flatmap(
    lambda parts: st.lists(st.sampled_from(("\n\n", "\n")), min_size=len(parts), max_size=len(parts)).map(
        lambda gaps: "".join(part + gap for part, gap in zip(parts, gaps, strict=True))
    )
)
LIMITS = st.builds(
    lambda least, more, prefer: Limits(least, least + more, prefer),
    st.integers(1, 60),
    st.integers(40, 80),
    st.sampled_from(("paragraph", "newline", "sentence")),
)


def cut(answer: str, limits: Limits, steps: list[int], rests: list[bool]) -> tuple[list[Piece], list[bool]]:
    """Let an answer come in steps, and rest after some; return the pieces, with the last one, and which were sent at rest."""
    pieces: list[Piece] = []
    idle: list[bool] = []
    sent = come = 0
    number = 0
    while come < len(answer):
        come = min(len(answer), come + steps[number % len(steps)])
        for resting in [False, True] if rests[number % len(rests)] else [False]:
            while piece := next_piece(answer[sent:come], limits, reopening(answer[:sent]), resting=resting):
                assert piece.text
                pieces.append(piece)
                idle.append(resting)
                sent += len(piece.text)
        number += 1
    if answer[sent:].strip():
        pieces.append(Piece(answer[sent:], reopening(answer[:sent])))
        idle.append(True)
    return pieces, idle


STEPS = st.lists(st.integers(1, 40), min_size=1, max_size=5)
RESTS = st.lists(st.booleans(), min_size=1, max_size=4)


@given(ANSWERS, LIMITS, STEPS, RESTS)
def test_together_they_are_the_answer_and_each_has_the_length_it_should(
    answer: str, limits: Limits, steps: list[int], rests: list[bool]
) -> None:
    pieces, idle = cut(answer, limits, steps, rests)
    assert "".join(piece.text for piece in pieces).rstrip() == answer.rstrip()
    for number, (piece, resting) in enumerate(zip(pieces, idle, strict=True)):
        whole = piece.opening + piece.text + piece.closing
        if number < len(pieces) - 1:
            assert len(whole) <= limits.most
            assert resting or len((piece.opening + piece.text).strip()) >= limits.least


def code_of(markdown: str) -> list[str]:
    """The lines of all code blocks, but for empty ones, of which one may be lost where a message ends."""
    tokens = [token for token in parser().parse(markdown) if token.type == "fence"]
    return [line for token in tokens for line in token.content.splitlines() if line.strip()]


@example("```\n" + "x = 1\n" * 30 + "```\n", Limits(10, 60), [1], [False])
@given(st.lists(FENCES | WORDS.map(str.strip), max_size=6).map("\n\n".join), LIMITS, STEPS, RESTS)
def test_code_stays_code_and_words_stay_words(answer: str, limits: Limits, steps: list[int], rests: list[bool]) -> None:
    pieces, _ = cut(answer, limits, steps, rests)
    shown = [alone(piece.text, piece.opening, piece.closing) for piece in pieces]
    assert [line for one in shown for line in code_of(one)] == code_of(answer)


@given(st.lists(FENCES | WORDS | LINES, max_size=6).map("\n\n".join))
def test_code_blocks_are_found_where_a_parser_finds_them(text: str) -> None:
    tokens = [token for token in parser().parse(text + "\n") if token.type == "fence"]
    lines = [text[: fence.start].count("\n") for fence in fences(text + "\n")]
    assert lines == [token.map[0] for token in tokens if token.map]


def test_a_code_block_is_kept_whole_while_there_is_another_way() -> None:
    answer = f"{'Some words to begin with. ' * 3}\n\n```py\n{'x = 1' * 6}\n```\nAfter.\n\nMore words behind it."
    piece = next_piece(answer, Limits(20, 100))
    assert piece is not None
    assert piece.text.strip() == ("Some words to begin with. " * 3).strip()
    assert (piece.opening, piece.closing) == ("", "")


def test_a_code_block_that_is_too_long_is_closed_and_opened_again() -> None:
    answer = "```py\n" + "x = 1\n" * 40
    first = next_piece(answer, Limits(50, 80))
    assert first is not None
    assert first.closing == "```"
    second = next_piece(answer[len(first.text) :], Limits(50, 80), reopening(first.text))
    assert second is not None
    assert second.opening == "```py\n"
    assert alone(second.text, second.opening, second.closing).startswith("```py\nx = 1\n")


def test_of_a_code_block_only_whose_end_is_left_nothing_is_shown() -> None:
    assert alone("```\nThen words.", "```py\n", "") == "Then words."
    assert alone("x\n```\nThen words.", "```py\n", "") == "```py\nx\n```\nThen words."


def test_it_is_cut_where_the_settings_prefer_and_elsewhere_only_when_it_must_be() -> None:
    answer = "One sentence is here. Another one\nThen a line"
    assert next_piece(answer, Limits(10, 100)) is None
    assert next_piece(answer, Limits(10, 100, "newline")) == Piece("One sentence is here. Another one\n")
    assert next_piece(answer, Limits(10, 100, "sentence")) == Piece("One sentence is here. Another one\n")
    assert next_piece("One sentence is here. Another one", Limits(10, 100, "sentence")) == Piece("One sentence is here. ")
    assert next_piece(answer, Limits(10, 40)) == Piece("One sentence is here. Another one\n")


def test_what_ends_with_a_sentence_may_go_when_nothing_comes() -> None:
    assert next_piece("A sentence. And half", Limits(5, 100), resting=True) == Piece("A sentence. ")
    assert next_piece("A sentence.", Limits(5, 100), resting=True) == Piece("A sentence.")
    assert next_piece("A sentence.", Limits(50, 100), resting=True) is None
    assert next_piece("```\nA sentence.", Limits(5, 100), resting=True) is None
    assert next_piece("**A sentence.", Limits(5, 100), resting=True) is None
    assert next_piece("The list:\n\n1.", Limits(11, 100), resting=True) is None


def test_a_year_is_not_made_the_number_of_a_list_nor_a_table_cut() -> None:
    words = "It happened a long time ago in the year"
    piece = next_piece(f"{words} 1989. So they say who know it", Limits(10, 50))
    assert piece is not None
    assert not piece.text.endswith("year ")
    table = "Words before it.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n"
    assert next_piece(table, Limits(10, 55)) == Piece("Words before it.\n\n")
    assert next_piece("Some words.\n\n# Heading\nText behind it is", Limits(10, 40)) == Piece("Some words.\n\n")


def test_nothing_is_cut_where_it_is_forbidden() -> None:
    answer = "word " * 30
    piece = next_piece(answer, Limits(10, 40), allowed=lambda place: place % 7 == 0)
    assert piece is not None
    assert len(piece.text) % 7 == 0
    assert next_piece(answer, Limits(10, 40), allowed=lambda _: False) is None
