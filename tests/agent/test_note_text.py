"""What a flush adds to a note: everything the model wrote, in whatever Markdown, and nothing twice."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.context.note_writer import fresh_text

MARKS = "#-*+>|`~_: \t"
WORDS = st.sampled_from(["tea", "REST", "Anna", "Bob", "port 8443", "2026-03-01", "nicht", "gut", "v2.3.0", "`x`", "**b**"])
WORDS_LINE = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
HEADINGS = st.builds(lambda n, text: f"{'#' * n} {text}", st.integers(1, 4), st.one_of(WORDS_LINE, st.just("10:30")))
ITEMS = st.builds(
    lambda pad, mark, text: f"{pad}{mark} {text}", st.sampled_from(["", "  "]), st.sampled_from("-*+"), WORDS_LINE
)
LINES = st.one_of(
    WORDS_LINE, HEADINGS, ITEMS, ITEMS, st.just(""), st.just(""), WORDS_LINE.map(lambda s: f"{s}:"), WORDS_LINE.map("1. {}".format),
    WORDS_LINE.map("> {}".format), WORDS_LINE.map("#{}".format), st.sampled_from(["```", "~~~", "---", "| a | b |", "|---|---|"]),
)  # fmt: skip
NOTES = st.lists(LINES, max_size=14).map("\n".join)
ANY = st.one_of(NOTES, st.text(max_size=120))


def said(text: str) -> list[str]:
    """The lines of a text that say something, whatever their spacing and marks."""
    lines = (" ".join(line.split()) for line in text.splitlines() if not re.fullmatch(r" {0,3}#+( [\d:# -]*)?", line))
    return [bare for line in lines if (bare := re.sub(r"^\d+[.)]", "", line).strip(MARKS))]


def added(existing: str, content: str) -> str:
    """The note as it is after an append, which puts a newline before what it adds where one is missing."""
    fresh = fresh_text(existing, content, "12:00")
    gap = "" if not existing or existing.endswith("\n") else "\n"
    return existing + gap + fresh if fresh else existing


@given(ANY, ANY)
@example("", "## 10:30 AM - API\nDecision: use REST.\n\n## 2:15 PM - Deploy\nDeployed v2.3.0.\n")
@example("", "# 2026-03-01\n\n## A\ntext")
@example("", "## Decisions\n- REST")
@example("", "#decision REST")
def test_whatever_a_model_writes_is_in_the_note_afterwards_once(existing: str, content: str) -> None:
    after = added(existing, content)
    assert after.startswith(existing)
    missing = set(said(content)) - set(said(after))
    assert not missing
    assert added(after, content) == after, "the same again adds nothing"


@pytest.mark.parametrize(
    ("existing", "content", "wanted"),
    [
        ("- REST\n", "- REST\n- Postgres\n", "- Postgres\n"),
        ("## 10:30\n- the key is blue\n", "## 11:45\n- the key is blue\n", ""),
        ("## 10:30\n\n- a\n- b\n", "- a\n- b\n- c\n", "- c\n"),
        ("## Anna\n- likes tea\n", "## Bob\n- likes tea\n", "\n## Bob\n\n- likes tea\n"),
        ("Anna:\n- likes tea\n", "Bob:\n- likes tea\n", "\nBob:\n- likes tea\n"),
        ("- Anna\n  - likes tea\n", "- Bob\n  - likes tea\n", "- Bob\n  - likes tea\n"),
        ("## Anna\n\nlikes tea\n", "- the cat is Mio\n", "\n## 12:00\n\n- the cat is Mio\n"),
        ("- [ ] call Anna\n", "- [x] call Anna\n", "- [x] call Anna\n"),
        ("# Day\n\nprose\n", "more\n", "\n## 12:00\n\nmore\n"),
        ("plain line\n", "## Kept word for word\n\n- one\n", "\n## Kept word for word\n\n- one\n"),
        ("The password is aBc.\n", "The password is abc.\n", "\nThe password is abc.\n"),
    ],
)
def test_what_is_added_stands_where_it_belongs(existing: str, content: str, wanted: str) -> None:
    assert fresh_text(existing, content, "12:00") == wanted
