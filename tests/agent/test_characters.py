from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.characters import is_blank, without_controls


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\u2060", "\u3000\u00a0", "\ufeff", "\0\x1b", "\ufe0f", "\U000e0041"])
def test_what_shows_nothing_is_blank(text: str) -> None:
    assert is_blank(text)


def test_every_letter_digit_and_sign_is_seen_and_no_invisible_format_character_is() -> None:
    fillers = set("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5")
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        kind = unicodedata.category(letter)
        if letter in fillers or kind in {"Zs", "Zl", "Zp", "Cc"}:
            assert is_blank(letter), hex(code)
        elif kind[0] in "LNPS":
            assert not is_blank(letter), hex(code)
    assert is_blank("".join(map(chr, range(0x2060, 0x2070))))
    assert not is_blank("\u0600"), "an Arabic number sign is drawn"


@given(st.text())
def test_the_look_of_a_text_stays_but_for_controls(text: str) -> None:
    clean = without_controls(text)
    assert len(clean) == len(text)
    assert all(new in {old, "\ufffd"} for new, old in zip(clean, text, strict=True))
    assert not any(unicodedata.category(letter) == "Cc" for letter in clean if letter not in "\n\r\t")
