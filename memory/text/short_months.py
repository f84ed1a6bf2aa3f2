"""Short names of months in a question, behind the figure of a day: "5. Okt. 2025", "le 5 janv. 2026", "il 5 ott. 2025"."""

from __future__ import annotations

import re
from functools import cache

from memory.text.calendar_names import DAY_ENDING, MONTHS
from memory.text.year_words import plain_words

_WHOLE_NAMES = (
    "gen/gennaio genn/gennaio ene/enero janv/janvier fevr/fevrier febbr/febbraio mrz/marz avr/avril abr/abril mag/maggio magg/maggio "
    "giu/giugno juil/juillet lug/luglio ago/agosto set/settembre sett/settembre ott/ottobre dic/dicembre"
)
_WHOLE = dict(pair.split("/") for pair in _WHOLE_NAMES.split())
"""Those that are common words, or names of people, without the figure of a day."""
_SHORT = frozenset(name for name in MONTHS if len(name) <= len("sept"))


def with_whole_months(question: str) -> str:
    """Return a query with whole names of months for the short ones that only stand behind a day, and without dots before a year."""
    plain, words = plain_words(question)
    if words.isdisjoint(_WHOLE) and ("." not in plain or words.isdisjoint(_SHORT)):
        return question
    for match in reversed(list(_pattern().finditer(plain))):
        start, end = match.span("name") if match["name"] else match.span("name2")
        name = _WHOLE.get(plain[start:end].lower(), question[start:end])
        question = f"{question[:start]}{name}{question[end + len(match['dot'] or '') :]}"
    return question


@cache
def _pattern() -> re.Pattern[str]:
    """A short name with a dot, or with a year or an article besides the day."""
    day, year = (
        rf"(?<![\d.,])(?:\d{{1,2}}){DAY_ENDING}?[º°]?(?:\s|(?<=\.))(?:de\s|di\s)?",
        r",?\s(?:del?\s)?(?:19|20)\d\d(?!\d)",
    )
    only, any_short = "|".join(_WHOLE), "|".join(sorted(_SHORT, key=len, reverse=True))
    lead = r"(?:il|el|le|del|dal|al|du|au|dia|am|vom|den|dem)"
    return re.compile(
        rf"(?:{day}(?P<name>(?:{only})(?=\.|{year})|(?:{any_short})(?=\.{year}))|(?<!\w){lead}\s{day}(?P<name2>{only}))(?P<dot>\.)?(?!\w)",
        re.IGNORECASE,
    )
