"""Names of months, seasons, days of the week and small numbers in five languages, in lower case and without accents."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

_NAMES = (
    "january jan januar janvier enero gennaio",
    "february feb februar fevrier febrero febbraio",
    "march mar marz mars marzo",
    "april apr avril abril aprile",
    "may mai mayo maggio",
    "june jun juni juin junio giugno",
    "july jul juli juillet julio luglio",
    "august aug aout agosto",
    "september sept sep septembre septiembre settembre",
    "october oct oktober okt octobre octubre ottobre",
    "november nov novembre noviembre",
    "december dec dezember dez decembre diciembre dicembre",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
ONE_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
"""A pattern that matches each of them."""
NUMBERS = {
    word: number
    for number, words in enumerate(
        (
            "a an one einem einer un une una uno",
            "two zwei deux dos due",
            "three drei trois tres tre",
            "four vier quatre cuatro quattro",
            "five funf cinq cinco cinque",
            "six sechs seis sei",
            "seven sieben sept siete sette",
            "eight acht huit ocho otto",
            "nine neun neuf nueve nove",
            "ten zehn dix diez dieci",
            "eleven elf onze once undici",
            "twelve zwolf douze doce dodici",
            "thirteen dreizehn treize trece tredici",
            "fourteen vierzehn quatorze catorce quattordici",
            "fifteen funfzehn quinze quince quindici",
        ),
        1,
    )
    for word in words.split()
}
DAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday montag lundi lunes lunedi",
            "tuesday dienstag mardi martes martedi",
            "wednesday mittwoch mercredi miercoles mercoledi",
            "thursday donnerstag jeudi jueves giovedi",
            "friday freitag vendredi viernes venerdi",
            "saturday samstag sonnabend samedi sabado sabato",
            "sunday sonntag dimanche domingo domenica",
        )
    )
    for name in names.split()
}
SEASONS = {
    name: month
    for month, names in (
        (3, "spring fruhling fruhjahr printemps primavera"),
        (6, "summer sommer ete verano estate"),
        (9, "autumn fall herbst automne otono autunno"),
        (12, "winter hiver invierno inverno"),
    )
    for name in names.split()
}
DAY_ENDING = r"(?:st|nd|rd|th|er|\.)"
"""What may stand behind the figure of a day of a month."""
ONE_SEASON, ONE_DAY = "|".join(SEASONS), "|".join(DAYS)
OTHER_WORDS = frozenset({"may", "march", "mar", "fall", "mai", "mars", "sept", "ete"})
"""Names of months and seasons that are common words in one of the languages: they need a word that leads to a time, or a capital letter."""
_DECEMBER, _MOST_FIGURES = 12, 2


def number_of(word: str) -> int | None:
    """Return the number of up to two figures that a word or figures say, if any."""
    return (int(word) if len(word) <= _MOST_FIGURES else None) if word.isdecimal() else NUMBERS.get(word.lower())


def season_of(year: int, month: int) -> tuple[date, date]:
    """Return the first and last day of the season that begins in a month of a year."""
    after = date(year, month + 3, 1) if month < _DECEMBER else date(min(year + 1, 9999), 3, 1)
    return date(year, month, 1), after - timedelta(days=1)


def month_of(year: int, month: int) -> tuple[date, date]:
    """Return the first and last day of a month."""
    return date(year, month, 1), date(year, month, monthrange(year, month)[1])
