"""What people tell of themselves and their things is kept beside a model that notes little; small talk and requests mostly are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context.must_keep import is_telling, kept_statements
from tests.agent.said_sentences import KEEP, NEAR, PASS, sentences

LEAST_KEPT = 0.95
MOST_WRONGLY_KEPT = 0.25
NOTED = "## Talk\n- We talked.\n"


@pytest.mark.parametrize("language", KEEP)
def test_decisions_promises_wishes_refusals_and_facts_are_kept_in_every_language(language: str) -> None:
    said = sentences(KEEP[language])
    kept = kept_statements(said, NOTED)
    lost = [one for one in said if one not in kept]
    assert len(lost) <= (1 - LEAST_KEPT) * len(said), lost


@pytest.mark.parametrize("language", PASS)
def test_small_talk_questions_and_requests_of_the_moment_are_mostly_not_kept(language: str) -> None:
    said = sentences(PASS[language])
    kept = kept_statements(said, NOTED)
    assert len(kept) <= MOST_WRONGLY_KEPT * len(said), kept


@pytest.mark.parametrize("said", sentences(NEAR))
def test_a_fact_that_begins_as_small_talk_does_is_kept(said: str) -> None:
    assert kept_statements([said], NOTED) == [said]


@pytest.mark.parametrize("language", ["English", "German", "French"])
def test_there_are_enough_sentences_to_measure_with(language: str) -> None:
    for said in (sentences(KEEP[language]), sentences(PASS[language])):
        assert len(set(said)) == len(said) >= 100


@given(st.text(max_size=300), st.sampled_from(["2027-03-14", "4711", "~/papers/tax", "anna@example.org"]))
def test_a_sentence_with_a_figure_or_a_path_is_always_kept(text: str, particular: str) -> None:
    assert is_telling(f"{text} {particular}")
