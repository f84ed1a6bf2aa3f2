from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.silence import TOKEN, Gate, spoken

PIECES = st.lists(
    st.sampled_from([TOKEN, "NO", "NO_", "_REPLY", " ", "\n", "**", "`", ".", "N", "hello", "no", "NO_REPLYING", "é", '"']),
    max_size=12,
)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("NO_REPLY", ""),
        ("  NO_REPLY\nnothing to store", ""),
        ("**NO_REPLY**", ""),
        ("It is done.\n\nNO_REPLY", "It is done."),
        ("NO problem", "NO problem"),
        ("NO_REPLYING is no word", "NO_REPLYING is no word"),
        ("I said NO_REPLY and meant it", "I said NO_REPLY and meant it"),
    ],
)
def test_the_token_is_silent_at_either_edge_and_a_word_elsewhere(said: str, heard: str) -> None:
    assert spoken(said) == heard


@given(PIECES, st.lists(st.integers(min_value=1, max_value=7), min_size=1, max_size=5))
def test_a_stream_shows_what_the_finished_text_says_in_any_chunking(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    gate = Gate()
    shown = ""
    place = turn = 0
    while place < len(text):
        size = sizes[turn % len(sizes)]
        shown += gate.feed(text[place : place + size])
        assert spoken(text).rstrip().startswith(shown.rstrip()), "something was shown that the finished reply does not say"
        place += size
        turn += 1
    assert (shown + gate.finish()).rstrip() == spoken(text).rstrip()
