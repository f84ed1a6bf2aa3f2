"""Patterns by which an agent is called: what they match, and that none takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gateway.settings.mention_patterns import Pattern, by_name, called

JUDGE = TypeAdapter(Pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("@?homebody", "what do you think, HomeBody?"),
        (r"\bhb\b", "hb: rain?"),
        (r"^(hey|hi|hello)\s+(bot|agent)\b", "Hey   agent, are you there"),
        (r"(?i)clawd[.:,]?", "clawd, listen"),
        (r"bot\d{1,3}", "ask bot42"),
        (r"[@#](?:one|two){1,3}?x?", "#one"),
        (r"(hey|hi|hello)\s+\w+ (bot|agent)\b", "hey you bot"),
        (r"(?P<who>bot)!+", "bot!!!"),
    ],
)
def test_a_text_calls(pattern: str, text: str) -> None:
    assert JUDGE.validate_python(pattern) == pattern
    assert called(text, (pattern,))
    assert not called("nothing of the kind", (pattern,))


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(a|a)*b",
        r"(.*)*x",
        r"(x+x+)+y",
        r".*foo.*bar",
        r"(?:a?){30}b",
        r"a*a*b",
        r"(a)\1",
        r"(?=a)b",
        r"(?<=a)b",
        r"(?:(?:a{1,20}){1,20}){1,20}b",
        "(",
        ")",
        "a" * 201,
        "",
        "x*",
        "a|",
    ],
)
def test_a_pattern_that_could_take_long_or_matches_everything_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        JUDGE.validate_python(pattern)


def test_a_name_calls_where_it_stands_alone() -> None:
    pattern = (by_name("Homebody (dev)"),)
    assert called("so, @homebody (dev), what now", pattern)
    assert not called("my homebody (development) is fine", pattern)


def test_a_call_at_the_end_of_a_long_text_is_heard() -> None:
    assert called("word " * 5000 + "what do you say, homebody?", ("homebody",))
    assert not called("word " * 500 + "homebody " + "word " * 500, ("homebody",)), "not in its midst: that is no address"


ATOMS = st.sampled_from(["a", "b", ".", r"\w", "[ab]", "(a|b)", "(ab)", "(a?b)"])
PIECES = st.tuples(ATOMS, st.sampled_from(["", "*", "+", "?", "{2,5}", "{3}", "*?"])).map("".join)


@given(st.lists(PIECES, min_size=1, max_size=6).map("".join), st.sampled_from(["a", "ab", "aab", " a"]))
def test_whatever_is_accepted_is_quick_on_texts_made_to_be_slow(pattern: str, unit: str) -> None:
    try:
        JUDGE.validate_python(pattern + "z")
    except ValidationError:
        return
    before = time.process_time()
    called(unit * 200, (pattern + "z",))
    assert time.process_time() - before < 1.0, "of CPU; a catastrophe takes longer than anybody waits"


@given(st.text(max_size=30))
def test_no_text_makes_the_judge_fail_in_another_way(pattern: str) -> None:
    try:
        JUDGE.validate_python(pattern)
    except ValidationError:
        return
    assert re.compile(pattern)
