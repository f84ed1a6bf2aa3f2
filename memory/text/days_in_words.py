"""Days of months in words in a question, in figures instead: "le trois novembre", "am dritten November", "the first of November"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from memory.text.calendar_names import MONTHS, ONE_DAY
from memory.text.year_words import plain_words

_ENGLISH = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth "
    "seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth "
    "twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
)
_GERMAN = (
    "erste zweite dritte vierte funfte sechste siebte achte neunte zehnte elfte zwolfte dreizehnte vierzehnte funfzehnte "
    "sechzehnte siebzehnte achtzehnte neunzehnte zwanzigste einundzwanzigste zweiundzwanzigste dreiundzwanzigste "
    "vierundzwanzigste funfundzwanzigste sechsundzwanzigste siebenundzwanzigste achtundzwanzigste neunundzwanzigste "
    "dreißigste einunddreißigste"
)
_FRENCH = (
    "premier deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf vingt "
    "vingt-et-un vingt-deux vingt-trois vingt-quatre vingt-cinq vingt-six vingt-sept vingt-huit vingt-neuf trente trente-et-un"
)
_SPANISH = (
    "primero dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete dieciocho "
    "diecinueve veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete veintiocho veintinueve treinta "
    "treinta-y-uno"
)
_ITALIAN = (
    "primo due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciassette diciotto "
    "diciannove venti ventuno ventidue ventitre ventiquattro venticinque ventisei ventisette ventotto ventinove trenta trentuno"
)
_WEEKDAY = rf"(?:{ONE_DAY})"
_LEADS = (
    (_ENGLISH, r"\b", r"\sof"),
    (_GERMAN, r"\b(?:am|vom|zum|den|dem|der|des|seit|bis|ab)\s", ""),
    (_FRENCH, rf"(?:\b(?:le|du|au|{_WEEKDAY})\s|^(?=premier))", ""),
    (_SPANISH, rf"(?:\b(?:el|del|al|dia|{_WEEKDAY})\s|^(?=primero))", r"\sde"),
    (_ITALIAN, rf"(?:\b(?:il|dal|al|del|{_WEEKDAY})\s|\b(?:d|da|de|a)?l?l'|^(?=primo))", r"(?:\sdi)?"),
)
"""Days of each language, what leads to one, and what stands between it and its month."""
_SHORT_NAMES = frozenset({"may", "mai"})
_MONTH = rf"(?:{'|'.join(name for name in MONTHS if len(name) > len('jan') or name in _SHORT_NAMES)})\b"
"""Not the short forms of their names, which are people's, too ("the third Jan")."""
_OTHER_DAY = (
    r"\s?,?\s(?:to|and|until|till|through|bis|und|auf|au|et|al|y|e|hasta|or|oder|ou|o|fino\sal?)\s"
    rf"(?:the\s|zum\s|dem\s|den\s|der\s|el\s|le\s|il\s|l')?\d{{1,2}}\s(?:de\s)?{_MONTH}"
)


def with_days_in_figures(question: str) -> str:
    """Return a query with figures in the place of words for days of a month: "the 3 November" for "the third of November"."""
    plain, words = plain_words(question)
    if words.isdisjoint(MONTHS) or words.isdisjoint(_beginnings()):
        return question
    for pattern in _patterns():
        while match := pattern.search(plain):
            start, end = match.span("day")
            day = str(_days()[re.sub(r"\s", "-", match["word"].lower())])
            question, plain = (f"{text[:start]}{day}{text[end:]}" for text in (question, plain))
    return question


@cache
def _days() -> dict[str, int]:
    """Return the day that each word means: in lower case, without accents, and with hyphens between its parts."""
    return {form: day for words, _, _ in _LEADS for day, word in enumerate(words.split(), 1) for form in _forms(word, words)}


def _forms(word: str, words: str) -> Sequence[str]:
    if words != _GERMAN:
        return (word,)
    return [f"{stem}{ending}" for stem in (word, word.replace("ß", "ss")) for ending in ("", "n", "r")]


@cache
def _beginnings() -> frozenset[str]:
    return frozenset(word.split("-")[0] for word in _days())


@cache
def _patterns() -> Sequence[re.Pattern[str]]:
    """Return how days are written before a month, in English also behind one, and before another day of it."""
    written = []
    for words, lead, between in _LEADS:
        forms = sorted((form for word in words.split() for form in _forms(word, words)), key=len, reverse=True)
        one = rf"(?P<word>{'|'.join(forms)})".replace("-", r"[\s-]")
        written.append(rf"{lead}(?P<day>{one}{between})(?=\s{_MONTH})")
        if words == _ENGLISH:
            before = r"(?:^|\b(?:on|since|until|till|by|before|after|from|to|and|through)\s|,\s)"
            after = r"(?=\s*(?:$|[?.!,;]|\s(?:last|this|and|to|until|through|19|20)))"
            written.append(rf"{before}{_MONTH}\s(?P<day>{one}){after}")
        written.append(rf"{lead}(?P<day>{one})(?={_OTHER_DAY})")
    return [re.compile(text, re.IGNORECASE) for text in written]
