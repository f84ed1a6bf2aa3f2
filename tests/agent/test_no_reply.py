from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.no_reply import TOKEN, NoReplyFilter, without_no_reply

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
    assert without_no_reply(said) == heard


@given(PIECES, st.lists(st.integers(min_value=1, max_value=7), min_size=1, max_size=5))
def test_a_stream_shows_what_the_finished_text_says_in_any_chunking(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    gate = NoReplyFilter()
    shown = ""
    place = turn = 0
    while place < len(text):
        size = sizes[turn % len(sizes)]
        shown += gate.feed(text[place : place + size])
        assert without_no_reply(text).rstrip().startswith(shown.rstrip()), (
            "something was shown that the finished reply does not say"
        )
        place += size
        turn += 1
    assert (shown + gate.finish()).rstrip() == without_no_reply(text).rstrip()


_FIRST_LETTERS = "|".join(re.escape(TOKEN[:length]) for length in range(len(TOKEN), 0, -1))
_DOUBTFUL = re.compile(rf"\s*[*`\"']*(?:(?<!\w)(?:{_FIRST_LETTERS})[*`\"'.]*)?\s*\Z")
_ENDS = re.compile(rf"(?<!\w)[*`\"']*{TOKEN}[*`\"'.]*\s*\Z")
_STARTS = re.compile(rf"\s*[*`\"']*{TOKEN}(?!\w)")
_MAY_START = re.compile(rf"\s*[*`\"']*(?:{_FIRST_LETTERS})?\Z")


def _told(text: str) -> str:
    """What of the beginning of a reply may be told: the simple definition."""
    if _MAY_START.match(text) or _STARTS.match(text):
        return ""
    found = _DOUBTFUL.search(text)
    assert found is not None
    return text[: found.start()]


@given(PIECES)
def test_what_is_held_back_is_just_what_the_simple_definition_says(parts: list[str]) -> None:
    gate, text, shown = NoReplyFilter(), "", ""
    for part in parts:
        text += part
        shown += gate.feed(part)
        assert shown == _told(text)


@given(PIECES)
def test_a_finished_reply_is_what_the_simple_definition_says(parts: list[str]) -> None:
    text = "".join(parts)
    simple = "" if _STARTS.match(text) else _ENDS.sub("", text).rstrip() if _ENDS.search(text) else text
    assert without_no_reply(text) == simple


@pytest.mark.parametrize(
    "text",
    [
        ("abcdefgh" + " " * 2_000) * 50,
        " " * 100_000,
        "*" * 100_000,
        "x " + TOKEN + "*" * 100_000 + "x",
        f"x {TOKEN} " * 10_000,
        ("x" + "*" * 2_000) * 50,
    ],
    ids=["blanks in words", "blanks", "marks", "marks behind the token", "tokens", "marks in words"],
)
@pytest.mark.parametrize("size", [1, 50_000])
def test_the_time_for_a_reply_grows_with_its_length_alone(text: str, size: int) -> None:
    before = time.process_time()
    gate = NoReplyFilter()
    for place in range(0, len(text), size):
        gate.feed(text[place : place + size])
    gate.finish()
    without_no_reply(text)
    assert time.process_time() - before < 1.0
