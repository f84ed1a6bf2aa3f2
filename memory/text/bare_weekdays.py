"""Days of the week without a word before them, and ranges of them: "Qu'ai-je fait mardi ?", "Montagabend", "from Tuesday to Thursday".

They are days of the past in a question in the past tense, or where nothing else is said: others are of each week, or to come.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from functools import cache

from msgspec import Struct

from memory.text.calendar_names import DAYS
from memory.text.day_ranges import DayRange
from memory.text.open_ranges import bound_before, is_since
from memory.text.relative_days import Counted
from memory.text.year_words import plain_words

_WORDS = re.compile(r"[^\W_]+")
_NAMES = {
    "English": "monday tuesday wednesday thursday friday saturday sunday",
    "German": "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag",
    "French": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "Spanish": "lunes martes miercoles jueves viernes sabado",
    "Italian": "lunedi martedi mercoledi giovedi venerdi sabato",
}
"""Not "domingo" and "domenica", which are names of people, too."""
_PARTS = {
    "English": r"\s(?:morning|noon|afternoon|evening|night)",
    "German": r"\s?(?:fruh|morgen|vormittag|mittag|nachmittag|abend|nacht)",
    "French": r"\s(?:matin|midi|apres-midi|soir)",
    "Spanish": r"\spor\sla\s(?:manana|tarde|noche)",
    "Italian": r"\s(?:mattina|pomeriggio|sera)",
}
_GERMAN_PARTS = ("fruh", "morgen", "vormittag", "mittag", "nachmittag", "abend", "nacht")
_PAST = {
    "English": (
        r"\b(?:did|was|were|had|didn|wasn|weren|went|came|said|told|got|gave|took|made|saw|met|left|bought|sent|wrote|ate|(?:i|we|who)\s\w+ed"
        r"|happened)\b"
    ),
    "German": (
        r"\b(?:war|waren|warst|hatte|hatten|hattest|ging|kam)\b"
        r"|\b(?:habe?|habt|haben|hast|hat|bin|bist|ist|sind|seid)\b.*\b(?:\w*ge\w+|be\w+|ver\w+|er\w+|ent\w+|zer\w+|\w+ier)(?:t|en)\b"
    ),
    "French": (
        r"\b(?:ai|as|avons|avez|ont|avait|avais|avaient|etait|etais|etaient|a-t)\b"
        r"|\b(?:suis|est|sommes|etes|sont|a)\b(?!-ce).*\b\w+(?:e|ee|es|i|ie|is|it|u|ue|us|ert)\b"
    ),
    "Spanish": r"\b(?:hice|hizo|hicimos|hicieron|fui|fue|fuimos|fueron|estuve|estuvo|estuvimos|paso|habia)\b",
    "Italian": (
        r"\b(?:ho|hai|abbiamo|avete|hanno|ero|era|eravamo|erano|aveva|avevo)\b"
        r"|\b(?:sono|sei|e|siamo|siete|ha)\b.*\b\w+(?:[aiu]t|ss|st|tt|rs|rt|lt|nt)[oaie]\b"
    ),
}
_NOT_AFTER = frozenset(
    """
    a an the every each any some no my your his her our their next coming black good ash super palm fat which what of is are was were did
    has had got met saw gave told took made left bought sent wrote ate said by named and or der die das ein eine einen jeden jeder
    jedes kein mein meinen nachsten kommenden frau herr heisst mr mrs
    le la les un une chaque tous du des ce prochain el los las cada proximo lo il gli ogni prossimo prossima e est
    """.split()  # noqa: SIM905 - a list literal of them is longer
)
"""Words before one that is a name, is of each week, or is to come."""
_ALSO = re.compile(r",?\s(?:(?:and|or|und|oder|et|ou|e|o|y)\s)?", re.IGNORECASE)
_GOES_ON = {
    "English": r"\s(?:with|at|in|about|for|to|from|before|after|when|that|by|and|or)\b",
    "German": r"\s(?-i:[a-z])",
    "French": r"\s(?:avec|chez|a|au|aux|en|dans|pour|sur|et|ou)\b",
    "Spanish": r"\s(?:con|a|al|en|para|y|o)\b",
    "Italian": r"\s(?:con|da|dal|a|al|in|per|nel|nella|e|o)\b",
}
"""What may follow one in a sentence: other words make it part of a name ("the Friday novel", "mardi gras")."""
_LEAD = r"(?<!\w)(?:from|between|von|vom|zwischen|de|du|desde|del|entre|da|dal|tra|fra)\s"
_THE, _TO = (
    r"(?:(?:the|dem|den|le|el|il)\s)?",
    r"\s(?:to|until|till|through|bis|bis\szum|a|au|al|hasta|fino\sa|and|und|et|y|e)\s",
)


class _Patterns(Struct, frozen=True):
    alone: re.Pattern[str]
    two: re.Pattern[str]
    one: re.Pattern[str]
    past: re.Pattern[str]


def weekday_ranges(question: str, today: date) -> Iterator[DayRange]:
    """Yield the ranges of days of the week in a query. They end before today."""
    plain, words = plain_words(question)
    for patterns in _patterns_for(words):
        for match in patterns.two.finditer(plain):
            alone = not plain[: match.start()].strip() and not plain[match.end() :].strip(" ?!.")
            if alone or patterns.past.search(plain):
                last = _newest(today, match["last"])
                yield DayRange(*match.span(), _newest(last, match["first"]), last)


def bare_weekdays(question: str, today: date) -> Iterator[Counted]:
    """Yield the days of the week in a query without other phrases for days. They are before today."""
    plain, words = plain_words(question)
    for patterns in _patterns_for(words):
        whole = patterns.alone.fullmatch(plain)
        past = whole or patterns.past.search(plain)
        end = 0
        for match in [whole] if whole else patterns.one.finditer(plain):
            start = match.start("phrase")
            bound = bound_before(plain, start)
            goes_on = end and _ALSO.fullmatch(plain, end, start)
            free = past and (goes_on or not _NOT_AFTER.intersection(_WORDS.findall(plain[:start].lower())[-1:]))
            if (past or is_since(bound[1])) if bound else free:
                day, end = _newest(today, match["day"]), match.end("phrase")
                yield Counted(start, end, day, day)


def _patterns_for(words: AbstractSet[str]) -> Iterator[_Patterns]:
    """Yield the patterns of the languages in which some words are days of the week."""
    for language in {_languages()[word] for word in words & _languages().keys()}:
        yield _patterns()[language]


def _newest(today: date, name: str) -> date:
    """Return the last such day before a day."""
    return date.fromordinal(max(1, today.toordinal() - ((today.weekday() - DAYS[name.lower()]) % 7 or 7)))


@cache
def _languages() -> Mapping[str, str]:
    """Return the languages of the words of which a question with such a day has one."""
    return {
        f"{day}{part}": language
        for language, days in _NAMES.items()
        for day in days.split()
        for part in ("", *(_GERMAN_PARTS if language == "German" else ()))
    }


@cache
def _patterns() -> Mapping[str, _Patterns]:
    """Return how a day is written alone, how a range is, and how one is in a sentence; and what tells that it is of the past."""
    found = {}
    for language, days in _NAMES.items():
        name, part = rf"(?:{days.replace(' ', '|')})", rf"(?:{_PARTS[language]})?"
        ends = [rf"(?P<{end}>{name}){part}" for end in ("first", "last")]
        written = (
            rf"\W*(?P<phrase>(?P<day>{name}){part})\W*",
            rf"{_LEAD}{_THE}{ends[0]}{_TO}{_THE}{ends[1]}(?!\w)",
            rf"(?<![\w-])(?P<phrase>(?P<day>{name}){part})(?!\w)(?=\W*\Z|\s?[?!.,;:]|{_GOES_ON[language]})",
            _PAST[language],
        )
        found[language] = _Patterns(*(re.compile(text, re.IGNORECASE) for text in written))
    return found
