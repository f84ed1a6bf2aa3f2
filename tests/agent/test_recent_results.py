"""Results that are kept for a while: never wrong ones, and no more of them than there is room for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.recent_results import RecentResults
from tests.properties import examples


@settings(max_examples=examples(200))
@given(st.lists(st.text(max_size=400), max_size=60))
def test_a_result_is_that_of_its_argument_and_no_more_is_kept_than_there_is_room_for(asked: list[str]) -> None:
    results = RecentResults(str.upper, len, least=2000, most=4000)
    for text in asked:
        assert results(text) == text.upper()
        assert len(results) <= 2 * 4000 / 300 + 2


def test_texts_that_pass_by_once_are_not_kept_for_good() -> None:
    results = RecentResults(str.upper, len, least=20_000, most=1_000_000)
    for number in range(10_000):
        results(f"message {number}")
    assert len(results) <= 2 * 20_000 / 300


def test_a_long_history_that_is_looked_through_again_and_again_is_computed_once() -> None:
    computed: list[str] = []
    results = RecentResults(lambda text: computed.append(text) or text, len, least=20_000, most=1_000_000)
    history = [f"message {number} " + "x" * 200 for number in range(1000)]
    for _ in range(12):
        for text in history:
            results(text)
    computed.clear()
    for text in history:
        results(text)
    assert not computed
