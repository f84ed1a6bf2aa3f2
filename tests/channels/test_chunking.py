from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.common.breaks import best_break
from channels.common.chunking import SMALLEST, cut, utf16_length
from channels.common.markdown import parser, plain, styled
from tests.properties import examples
from tests.sampling import parametrize_some

WORDS = st.sampled_from(
    ["house", "key", "blue", "pot", "Übergröße", "鍵は青い鉢の下", "👨‍👩‍👧", "🇩🇪", "é", "x=1", "a_b", "1.", "end."]
)
LINE = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
PARAGRAPH = st.lists(LINE, min_size=1, max_size=4).map("\n".join)
FENCE = st.tuples(
    st.sampled_from(["```", "~~~", "````"]), st.sampled_from(["", "py", "sh -x"]), st.lists(LINE, max_size=12)
).map(lambda parts: "\n".join([parts[0] + parts[1], *parts[2], parts[0]]))
TABLE = st.tuples(LINE, st.lists(LINE, min_size=1, max_size=8)).map(
    lambda parts: "\n".join([f"| {parts[0]} | n |", "|---|--:|", *(f"| {row} | 1 |" for row in parts[1])])
)
LEAF = st.one_of(PARAGRAPH, FENCE, TABLE, LINE.map(lambda line: "## " + line))


def _item(text: str, mark: str) -> str:
    return mark + text.replace("\n", "\n" + " " * len(mark))


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    blocks = st.lists(inner, min_size=1, max_size=3).map("\n\n".join)
    return st.one_of(
        st.tuples(st.lists(blocks, min_size=1, max_size=4), st.sampled_from(["- ", "1. ", "* "])).map(
            lambda parts: "\n".join(_item(text, parts[1]) for text in parts[0])
        ),
        blocks.map(lambda text: "> " + text.replace("\n", "\n> ")),
    )


BLOCK = st.recursive(LEAF, _nested, max_leaves=6)
DOCUMENT = st.lists(BLOCK, min_size=1, max_size=6).map("\n\n".join)


def shown(markdown: str) -> str:
    return plain(styled(markdown))


def letters(text: str) -> str:
    return re.sub(r"\s", "", text)


def words(text: str) -> str:
    return re.sub(r"\W", "", text)


def unnumbered(text: str) -> str:
    """Return a text without the marks of list items: Markdown counts a whole list anew, and a piece has its items as written."""
    return re.sub(r"^(?:[\s•]|\d+\.\s)+", "", text, flags=re.MULTILINE)


def is_subsequence(needle: str, hay: str) -> bool:
    rest = iter(hay)
    return all(letter in rest for letter in needle)


@settings(max_examples=examples(60))
@given(DOCUMENT, st.integers(SMALLEST, 300))
def test_every_piece_of_a_document_fits_and_no_word_is_lost(markdown: str, limit: int) -> None:
    pieces = cut(markdown, limit)
    assert all(0 < utf16_length(shown(piece)) <= limit for piece in pieces)
    assert is_subsequence(words(unnumbered(shown(markdown))), words("".join(map(shown, pieces))))


@settings(max_examples=examples(200))
@given(st.text(max_size=200), st.integers(SMALLEST, 60))
@example("-\n" * 40, SMALLEST)
@example("|a|\n|-|\n|" + "b" * 50 + "|\n|c|", SMALLEST)
@example("> " * 90 + "deep " * 20, 40)
@example("*a " * 70 + "a* " * 70, 40)
@example("\ud800" * 50, SMALLEST)
@example("a\x0b\x0cb\u2028c\x85" * 20, SMALLEST)
def test_any_text_is_cut_into_pieces_that_fit(text: str, limit: int) -> None:
    pieces = cut(text, limit)
    assert all(0 < utf16_length(shown(piece)) <= limit for piece in pieces)
    assert bool(pieces) == bool(shown(text.replace("\r", "\n")).strip())


@settings(max_examples=examples(150))
@given(st.text(st.sampled_from("ab `*#>-|[]().1\n\t"), max_size=300), st.integers(SMALLEST, 60))
def test_no_written_letter_is_lost_whatever_the_marks(text: str, limit: int) -> None:
    pieces = cut(text, limit)
    assert all(utf16_length(shown(piece)) <= limit for piece in pieces)
    kept = re.sub(r"[^ab]", "", "".join(pieces))
    assert is_subsequence(re.sub(r"[^ab]", "", shown(text)), kept)


@settings(max_examples=examples(100))
@given(st.lists(LINE, min_size=1, max_size=30), st.integers(40, 200), st.sampled_from(["", "- ", "> "]))
def test_a_code_block_is_closed_and_opened_again_with_its_language(lines: list[str], limit: int, container: str) -> None:
    fence = "\n".join(["```py", *lines, "```"])
    pieces = cut(container + fence.replace("\n", "\n" + container.replace("-", " ")), limit)
    code = [token for piece in pieces for token in parser().parse(piece) if token.type == "fence"]
    assert len(code) == len(pieces)
    assert {token.info for token in code} == {"py"}
    assert letters("".join(token.content for token in code)) == letters("".join(lines))
    for piece in pieces:
        assert len(re.findall(r"^[\s>-]*```", piece, re.MULTILINE)) == 2


def test_a_short_text_stays_as_it_is_written() -> None:
    text = "# Hello\n\n* one\n* two\n\n```py\nx = 1\n```"
    assert cut(text, 4000) == [text]


@pytest.mark.parametrize("nothing", ["", " \n\t\n", "```\n```", "[a]: http://x.y"])
def test_a_text_with_nothing_to_read_gives_no_pieces(nothing: str) -> None:
    assert cut(nothing, 4000) == []


def test_paragraphs_are_kept_whole_where_they_fit() -> None:
    first, second, third = "a " * 20, "b " * 20, "c " * 20
    assert cut(f"{first}\n\n{second}\n\n{third}", 85) == [f"{first}\n\n{second}", third]


def test_a_long_paragraph_breaks_after_a_sentence() -> None:
    assert cut("One two three four. Five six seven eight nine ten.", 34) == [
        "One two three four.",
        "Five six seven eight nine ten.",
    ]


def test_a_long_paragraph_does_not_break_inside_bold_where_it_need_not() -> None:
    pieces = cut("one two three four **five six seven eight** nine", 30)
    assert pieces[0] == "one two three four"
    assert "**five six seven eight**" in pieces[1]


def test_a_cut_does_not_make_a_list_of_a_text() -> None:
    pieces = cut("word " * 6 + "- no list here, and it goes on", 30)
    assert "•" not in "".join(map(shown, pieces))
    assert "- no list" in "".join(map(shown, pieces))


def test_a_numbered_list_goes_on_counting_in_the_next_piece() -> None:
    pieces = cut("\n".join(f"{n}. entry number {n}" for n in range(1, 9)), 60)
    assert len(pieces) > 1
    assert "".join(map(shown, pieces)).count("entry") == 8
    assert shown(pieces[-1]).endswith("8. entry number 8")


def test_a_table_repeats_its_header() -> None:
    rows = "\n".join(f"| item {n} | {n} |" for n in range(20))
    pieces = cut(f"| name | count |\n|---|--:|\n{rows}", 150)
    assert len(pieces) > 1
    assert all(shown(piece).startswith("name") for piece in pieces)


def test_a_link_definition_reaches_the_piece_that_uses_it() -> None:
    text = "word " * 20 + "\n\n" + "more " * 15 + "[here][a]\n\n[a]: https://example.org/"
    pieces = cut(text, 100)
    assert len(pieces) > 1
    assert any("link" in {part.style for part in styled(piece) if not isinstance(part, str)} for piece in pieces)


@pytest.mark.parametrize("letter", ["👨‍👩‍👧", "🇩🇪", "e\u0301", "👍🏽", "1\ufe0f\u20e3"])
def test_a_letter_of_several_code_points_is_not_cut(letter: str) -> None:
    text = letter * 30
    for room in range(len(letter), len(text), 3):
        assert best_break(text, room) % len(letter) == 0


@pytest.mark.parametrize(("text", "length"), [("abc", 3), ("é", 1), ("👍", 2), ("漢", 1), ("\ud83d", 1)])
def test_length_is_counted_in_utf16_units(text: str, length: int) -> None:
    assert utf16_length(text) == length


MARKS = (
    "[",
    "![",
    "](",
    "[]",
    "**",
    "*a ",
    "_a",
    "~~a",
    "`",
    "```\n",
    "> ",
    ">",
    "- ",
    "-\n",
    "1. ",
    "|a",
    "|-|\n",
    "<a ",
    "&",
    "\\",
    "#",
    "\n",
)
CPU_SECONDS = 4.0
"""For a reply of some 13,000 letters; what this guards against took 5 to 60."""


def _nested_list(levels: int, mark: str = "- ") -> str:
    return "\n".join(" " * (len(mark) * level) + f"{mark}item {level} with some words to it" for level in range(levels))


@settings(max_examples=examples(40))
@given(
    st.lists(st.sampled_from(MARKS), min_size=1, max_size=4),
    st.sampled_from([300, 2000, 4096]),
    st.sampled_from(["length", "newline"]),
)
@example(["![", "["], 4096, "length")
@example(["["], 4096, "length")
@example(["> ", "[", "**"], 4096, "newline")
@example([">"], 4096, "length")
@example(["- ", "> ", "1. "], 2000, "length")
def test_a_reply_of_nothing_but_marks_is_cut_in_time(marks: list[str], limit: int, mode: str) -> None:
    text = ("".join(marks) * 13_000)[:13_000] + "\n\nthe end"
    before = time.process_time()
    pieces = cut(text, limit, apart=mode == "newline")
    assert time.process_time() - before < CPU_SECONDS
    assert all(utf16_length(shown(piece)) <= limit for piece in pieces)
    assert "the end" in "".join(pieces)


@settings(max_examples=examples(40))
@given(st.text(st.sampled_from("[]()!*_~`>#-|<&\\ ab1.\n"), min_size=50, max_size=200), st.sampled_from([300, 4096]))
def test_any_mixture_of_marks_is_cut_in_time(unit: str, limit: int) -> None:
    text = unit * (13_000 // len(unit))
    before = time.process_time()
    pieces = cut(text, limit)
    assert time.process_time() - before < CPU_SECONDS
    assert all(utf16_length(shown(piece)) <= limit for piece in pieces)
    assert is_subsequence(re.sub(r"[^ab]", "", shown(text)), re.sub(r"[^ab]", "", "".join(pieces)))


@parametrize_some(4, "levels", [1, 5, 20, 40, 59, 61, 80, 120, 160, 400])
@pytest.mark.parametrize("mark", ["- ", "1. ", "> "])
def test_however_deep_a_reply_is_nested_it_is_said_in_few_messages(levels: int, mark: str) -> None:
    text = "\n".join("> " * n + f"line {n}" for n in range(1, levels + 1)) if mark == "> " else _nested_list(levels, mark)
    pieces = cut(text, 4096)
    assert len(pieces) <= 5 + 2 * len(text) // 4096
    assert all(0 < utf16_length(shown(piece)) <= 4096 for piece in pieces)
    assert re.findall(r"(?:item|line) (\d+)", "\n".join(pieces)) == [str(n + (mark == "> ")) for n in range(levels)]


def test_a_text_of_megabytes_takes_time_in_proportion() -> None:
    part = "## Heading\n\nSome **bold** words, a [link](https://example.org/x) and `code`.\n\n- one\n- two\n\n"

    def seconds(times: int) -> float:
        before = time.process_time()
        assert "".join(map(shown, cut(part * times, 4096))).count("Heading") == times
        return time.process_time() - before

    seconds(10)
    assert seconds(2000) < 20 * max(seconds(200), 0.05)


def test_a_long_code_block_stays_code_from_the_first_message_to_the_last() -> None:
    lines = [f"print({n})  # some code that goes on" for n in range(2000)]
    pieces = cut("before\n\n```py\n" + "\n".join(lines) + "\n```\n\nafter", 4096)
    code = [token for piece in pieces for token in parser().parse(piece) if token.type == "fence"]
    assert {token.info for token in code} == {"py"}
    assert "".join(token.content for token in code).split("\n")[:-1] == lines
    assert shown(pieces[-1]).endswith("after")
