"""Numbers and ordinals in English and German words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final

_ONES: Final = (
    ("one", "ein"),
    ("two", "zwei"),
    ("three", "drei"),
    ("four", "vier"),
    ("five", "fünf"),
    ("six", "sechs"),
    ("seven", "sieben"),
    ("eight", "acht"),
    ("nine", "neun"),
    ("ten", "zehn"),
    ("eleven", "elf"),
    ("twelve", "zwölf"),
    ("thirteen", "dreizehn"),
    ("fourteen", "vierzehn"),
    ("fifteen", "fünfzehn"),
    ("sixteen", "sechzehn"),
    ("seventeen", "siebzehn"),
    ("eighteen", "achtzehn"),
    ("nineteen", "neunzehn"),
)
_TENS: Final = (("twenty", "zwanzig"), ("thirty", "dreißig"), ("forty", "vierzig"), ("fifty", "fünfzig"))


def _counted() -> dict[str, int]:
    found = {word: number for number, words in enumerate(_ONES, 1) for word in words} | {"eins": 1}
    for (ten, (english, german)), (one, (unit, einer)) in product(enumerate(_TENS, 2), enumerate(_ONES[:9], 1)):
        found |= {english: 10 * ten, german: 10 * ten, f"{einer}und{german}": 10 * ten + one}
        found |= {f"{english}{between}{unit}": 10 * ten + one for between in "- "}
    ascii_of = str.maketrans({"ü": "ue", "ö": "oe", "ß": "ss"})
    return found | {word.translate(ascii_of): number for word, number in found.items()}


COUNTED: Final[Mapping[str, int]] = _counted()
"""The numbers from 1 to 59 by their words. An article is none of them: "at a time" names no hour."""
NUMBERS: Final[Mapping[str, float]] = {
    **{word: float(number) for word, number in COUNTED.items()},
    **dict.fromkeys(["half", "½", "halben", "halbe"], 0.5),
    **dict.fromkeys(["a", "an", "eine", "einem", "einen", "einer"], 1.0),
    **dict.fromkeys(["anderthalb", "eineinhalb"], 1.5),
}
"""Numbers and fractions that count a span: "half an hour", "a minute"."""
ORDINALS: Final[Mapping[str, int]] = {
    word: number
    for number, words in (
        (1, "first 1st ersten erster erste 1."),
        (2, "second 2nd zweiten zweiter zweite 2."),
        (3, "third 3rd dritten dritter dritte 3."),
        (4, "fourth 4th vierten vierter vierte 4."),
        (5, "fifth 5th fünften fünfter fünfte fuenften 5."),
        (-1, "last letzten letzter letzte"),
    )
    for word in words.split()
}
"""Places in a month; -1 is the last."""


def any_of(words: Iterable[str]) -> str:
    """Return a pattern for any of these words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def number_of(word: str) -> float:
    """Return the number that a word or figures say."""
    return NUMBERS[word] if word in NUMBERS else float(word.replace(",", "."))
