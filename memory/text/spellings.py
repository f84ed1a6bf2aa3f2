"""German spellings of a word: ss for ß, and ae, oe, ue for umlauts, as keyboards without them and Swiss people write."""

from __future__ import annotations

import re
from itertools import product

from memory.text.folding import folded

_PLACES = re.compile("ss|ß|ae|oe|ue|ä|ö|ü")
_OTHER = {"ss": "ß", "ß": "ss", "ae": "ä", "oe": "ö", "ue": "ü", "ä": "ae", "ö": "oe", "ü": "ue"}
_MOST_PLACES = 4
_SHORTEST = 5
"""A shorter word would become another one: "toe" is no "tö"."""


def other_spellings(word: str) -> tuple[str, ...]:
    """Return the other spellings of a word, as the index folds words."""
    word = word.lower()
    if len(word) < _SHORTEST:
        return ()
    places = list(_PLACES.finditer(word))[:_MOST_PLACES]
    found: dict[str, None] = {}
    for choice in product((False, True), repeat=len(places)):
        text, at = "", 0
        for place, other in zip(places, choice, strict=True):
            text += word[at : place.start()] + (_OTHER[place[0]] if other else place[0])
            at = place.end()
        found[folded(text + word[at:])] = None
    return tuple(one for one in found if one != folded(word))
