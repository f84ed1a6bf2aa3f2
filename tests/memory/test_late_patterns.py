"""Regular expressions are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from memory.text.late_pattern import LatePattern


def test_a_late_pattern_finds_what_the_pattern_itself_finds() -> None:
    text = "one Two, three"
    late, own = LatePattern(r"t(\w+)", re.IGNORECASE), re.compile(r"t(\w+)", re.IGNORECASE)
    assert late.match(text) is own.match(text) is None
    assert (found := late.search(text)) is not None
    assert found.group(1) == "wo"
    assert late.findall(text) == own.findall(text) == ["wo", "hree"]
    assert [one.span() for one in late.finditer(text)] == [one.span() for one in own.finditer(text)]
    assert late.sub("-", text) == own.sub("-", text) == "one -, -"


def test_a_late_pattern_is_compiled_when_it_is_first_used() -> None:
    late = LatePattern("(")
    with pytest.raises(re.error):
        late.match("one")
