"""Whatever the sizes, following the marks shows all of a document, each line once and in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.documents.excerpt import MAX_LINE, Document, OutOfTime, Unreadable, excerpt, wrapped

TEXTS = st.lists(
    st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=80), max_size=30), min_size=1, max_size=8
)


@given(TEXTS, st.integers(1200, 3000), st.none() | st.integers(1, 7))
def test_all_lines_are_shown_once(pages: list[list[str]], room: int, limit: int | None) -> None:
    texts = ["\n".join(lines).strip("\n") for lines in pages]
    document = Document(count=len(texts), unit="page", text=lambda number: texts[number - 1])
    seen: list[str] = []
    at: list[int] | None = [1, 1]
    for _ in range(5000):
        if at is None:
            break
        part = excerpt(document, page=at[0], offset=at[1], limit=limit, room=room)
        assert len(part["text"]) <= room
        assert part["next"] is None or part["next"] > at
        seen += [line for line in part["text"].split("\n") if not line.startswith("[page ")]
        at = part["next"]
    wanted = [line for text in texts if text for line in text.split("\n")]
    assert [line for line in seen if line] == [line for line in wanted if line and not line.startswith("[page ")]


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=5 * MAX_LINE))
def test_wrapping_loses_nothing_but_the_spaces_at_which_it_cuts(line: str) -> None:
    pieces = wrapped(line)
    assert all(len(piece) <= MAX_LINE for piece in pieces)
    at = 0
    for piece in pieces:
        at = at if line.startswith(piece, at) else at + 1
        assert line.startswith(piece, at)
        at += len(piece)
    assert at == len(line)


def test_what_lies_behind_the_end_is_an_error() -> None:
    document = Document(count=2, unit="page", text=lambda _: "a\nb")
    with pytest.raises(Unreadable, match="shorter: it has 2 pages"):
        excerpt(document, page=3, offset=1, limit=None, room=2000)
    with pytest.raises(Unreadable, match="shorter: page 2 has 2 lines"):
        excerpt(document, page=2, offset=3, limit=None, room=2000)


def test_a_part_that_takes_too_long_ends_what_is_shown_before_it() -> None:
    def text(number: int) -> str:
        if number == 2:
            raise OutOfTime
        return "a"

    document = Document(count=3, unit="page", text=text)
    assert excerpt(document, page=1, offset=1, limit=None, room=2000)["next"] == [2, 1]
    with pytest.raises(OutOfTime):
        excerpt(document, page=2, offset=1, limit=None, room=2000)


def test_a_long_table_of_contents_leaves_room_for_text() -> None:
    document = Document(count=1, unit="page", text=lambda _: "text", contents=[("x" * 200, 1)] * 1000)
    part = excerpt(document, page=1, offset=1, limit=None, room=2000)
    assert len(part["contents"]) <= 500
    assert part["contents"].endswith("more entries]")
    assert part["text"] == "[page 1 of 1]\ntext"
