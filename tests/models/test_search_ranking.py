"""Which line of what was found answers a question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.models.notebook.search_ranking import recall
from tests.models.conversation import texts, values


def hits(*found: dict[str, Any]) -> list[str]:
    return [json.dumps({"results": [{"path": "memory/2026-11-20.md", "startLine": 1, "score": 0.4, **hit} for hit in found]})]


def test_the_line_with_most_of_the_question_is_taken_with_its_number() -> None:
    found = recall(
        "where is the spare key?",
        hits({"startLine": 5, "snippet": "## 14:05\n\n- The front door key is new\n- The spare key is here"}),
    )
    assert [(line.text, line.number) for line in found.lines] == [("The spare key is here", 8)]
    assert found.sure


@pytest.mark.parametrize(("asked", "noted"), [("keys", "key"), ("Topfes", "Topf"), ("ключа", "ключ"), ("parked", "park")])
def test_forms_of_a_word_are_the_same_word(asked: str, noted: str) -> None:
    assert recall(asked, hits({"snippet": f"- {noted} xyz"})).sure


def test_questions_headings_and_templates_are_no_answers() -> None:
    found = recall(
        "the key",
        hits({"snippet": "# The key\n- where is the key?"}, {"path": "memory/TEMPLATE-daily.md", "snippet": "the key"}),
    )
    assert found.lines == ()


def test_a_hit_by_meaning_alone_is_shown_as_the_nearest() -> None:
    found = recall("where is my automobile", hits({"snippet": "- The Volvo is on level three", "score": 0.8}))
    assert [line.text for line in found.lines] == ["The Volvo is on level three"]
    assert not found.sure


def test_the_same_line_in_two_hits_is_told_once() -> None:
    assert len(recall("key", hits({"snippet": "- the key"}, {"snippet": "- The key", "path": "MEMORY.md"})).lines) == 1


@pytest.mark.parametrize("answer", ["", "no JSON", "[]", "{}", '{"results": 5}', "null"])
def test_what_is_no_search_result_is_refused(answer: str) -> None:
    with pytest.raises(ValueError, match="no list of results"):
        recall("key", [answer])


@given(texts, st.lists(st.fixed_dictionaries({"snippet": texts}, optional={"path": texts, "extra": values}), max_size=4))
def test_every_answer_of_a_search_is_read(question: str, found: list[dict[str, Any]]) -> None:
    lines = recall(question, hits(*found)).lines
    assert len(lines) <= 3
