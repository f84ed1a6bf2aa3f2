from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from memory.text.chunks import chunk, informative_lines, split_lines
from memory.text.tokens import estimate

LINE = st.text(alphabet=st.sampled_from("ab é咖啡🙂#` \t"), max_size=120)
SIZES = st.tuples(st.integers(16, 60), st.integers(0, 40))


@given(st.lists(LINE, max_size=60), SIZES)
def test_every_line_that_says_something_is_in_a_chunk_and_ranges_are_exact(lines: list[str], sizes: tuple[int, int]) -> None:
    chunks = chunk(lines, tokens=sizes[0], overlap=sizes[1])
    covered: set[int] = set()
    for piece in chunks:
        covered |= set(range(piece.start_line, piece.end_line + 1))
        if piece.part == 0:
            assert piece.text == "\n".join(lines[piece.start_line - 1 : piece.end_line])
        else:
            assert piece.start_line == piece.end_line
            assert piece.text in lines[piece.start_line - 1]
    assert covered >= {number for number, tells in enumerate(informative_lines(lines, frozenset()), 1) if tells}


@given(st.lists(LINE, max_size=60), SIZES)
def test_no_chunk_of_whole_lines_is_larger_than_told(lines: list[str], sizes: tuple[int, int]) -> None:
    for piece in chunk(lines, tokens=sizes[0], overlap=sizes[1]):
        if piece.part == 0:
            assert sum(estimate(line) + 0.25 for line in piece.text.split("\n")) <= sizes[0] + 1e-6


@given(st.lists(LINE, max_size=60), SIZES)
def test_chunks_go_forward_and_repeat_only_the_overlap(lines: list[str], sizes: tuple[int, int]) -> None:
    tokens, overlap = sizes
    chunks = [piece for piece in chunk(lines, tokens=tokens, overlap=overlap) if piece.part == 0]
    for before, after in itertools.pairwise(chunks):
        assert after.end_line > before.end_line
        assert after.start_line > before.start_line
        repeated = [estimate(line) + 0.25 for line in lines[after.start_line - 1 : before.end_line]]
        assert sum(repeated) <= tokens / 2
        assert sum(repeated[1:]) < max(overlap, 1e-9)  # without the first of them it would be too little


@given(st.integers(100, 800), st.sampled_from(["", " ", "咖"]), SIZES)
def test_a_long_line_is_cut_into_parts_that_leave_nothing_out(words: int, between: str, sizes: tuple[int, int]) -> None:
    line = between.join(f"<{number:04}>" for number in range(words))  # every place in it is like no other
    chunks = chunk([line], tokens=sizes[0], overlap=sizes[1])
    end = 0
    for part, piece in enumerate(chunks, 1):
        place = line.rindex(piece.text, 0, end + len(piece.text))  # the last place that leaves no gap
        assert piece.part == (part if len(chunks) > 1 else 0)
        end = place + len(piece.text)
    assert end == len(line)


def test_overlap_repeats_the_last_lines() -> None:
    lines = [f"line {number:03} " + "x" * 31 for number in range(40)]  # ten tokens each
    chunks = chunk(lines, tokens=200, overlap=40)
    assert [(c.start_line, c.end_line) for c in chunks] == [(1, 19), (16, 34), (31, 40)]


def test_headings_are_known_by_path_and_not_inside_code() -> None:
    lines = split_lines("# Day\n\n## Morning ##\ntea\n```\n# not one\n```\nstill morning\n### Late\nx\n## Noon\nsoup\n")
    chunks = chunk(lines, tokens=16, overlap=0)
    heading = {number: c.heading for c in chunks for number in [c.start_line]}
    assert heading[1] == "Day"
    assert {c.heading for c in chunks} <= {"Day", "Day > Morning", "Day > Morning > Late", "Day > Noon"}


def test_lines_are_counted_as_editors_do() -> None:
    assert split_lines("a\r\nb\u2028c\x0bd\ne") == ["a", "b\u2028c\x0bd", "e"]
    assert split_lines("a\n") == ["a"]
    assert split_lines("") == []


@given(st.lists(st.sampled_from(["dentist", "on", "Tuesday", "we", "café"]), min_size=60, max_size=400), SIZES)
def test_a_long_line_is_not_cut_within_a_word(words: list[str], sizes: tuple[int, int]) -> None:
    for piece in chunk([" ".join(words)], tokens=sizes[0], overlap=sizes[1]):
        assert set(piece.text.split()) <= set(words)


def test_one_line_of_megabytes_that_ends_with_a_blank_is_cut_in_seconds() -> None:
    line = "<b>line</b> äöü 漢字 " * 250_000
    began = time.process_time()
    found = chunk([line], tokens=400, overlap=80)
    assert time.process_time() - began < 10  # a minute and more when each piece looks at the whole line
    assert len(found) > 1_000
