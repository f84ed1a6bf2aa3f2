from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.context.workspace_files import workspace_templates
from gateway.agents.memory_stores import template_lines
from memory.text.chunks import chunk, informative_lines, split_lines

TEMPLATE = template_lines()
LINE = st.sampled_from(
    ["# Day", "## Decisions", "### Later", "- REST it is", "", "```", "#hash", "## 2026-03-18", "---", *sorted(TEMPLATE)[:8]]
)


def said(text: str) -> list[str]:
    lines = split_lines(text)
    return [line for line, tells in zip(lines, informative_lines(lines, TEMPLATE), strict=True) if tells]


def test_an_untouched_template_says_nothing() -> None:
    for name in ("MEMORY.md", "memory/TEMPLATE-daily.md"):
        lines = split_lines((workspace_templates() / name).read_text())
        assert chunk(lines, tokens=200, overlap=40, template=TEMPLATE) == []


def test_headings_of_a_template_say_what_stands_under_them_is_about() -> None:
    text = "# What lasts\n\n## Preferences\n\n## Decisions\n\n### Travel\n\nNo flights\n\n## People\n"
    assert said(text) == ["## Decisions", "### Travel", "No flights"]


def test_what_somebody_wrote_as_a_heading_is_said() -> None:
    assert said("# 2026-03-18\n\n## Call the plumber\n\n## Decisions\n") == ["# 2026-03-18", "## Call the plumber"]
    assert said("# Wednesday, 18 March 2026\n") == []


@given(st.lists(LINE, max_size=30))
def test_nothing_that_is_no_heading_template_or_punctuation_is_lost(lines: list[str]) -> None:
    for line, tells in zip(lines, informative_lines(lines, TEMPLATE), strict=True):
        assert tells or line not in {"- REST it is", "#hash"}
        assert not tells or line.strip(" #`-")


@given(st.lists(LINE, max_size=30), st.integers(16, 60))
def test_the_words_of_a_chunk_are_its_lines_that_say_something(lines: list[str], tokens: int) -> None:
    tells = informative_lines(lines, TEMPLATE)
    for piece in chunk(lines, tokens=tokens, overlap=0, template=TEMPLATE):
        of_chunk = range(piece.start_line - 1, piece.end_line)
        if piece.part == 0 and piece.words:
            assert piece.words == "\n".join(lines[n] for n in of_chunk if tells[n])
        elif piece.part == 0:
            assert all(tells[n] for n in of_chunk if lines[n].strip())
