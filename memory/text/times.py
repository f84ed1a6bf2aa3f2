"""Whether a question asks when something was, and whether a line names a time: English, German, French, Spanish and Italian."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ASKS = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:date|day|month|season|year|time|week)|\bhow long\b"
    r"|\bwann\b|\bwie lange\b|\ban welchem tag\b|\bquand\b|\bquel jour\b|\bdepuis combien\b"
    r"|\bcuando\b|\bque dia\b|\bcuanto tiempo\b|\bquando\b|\bche giorno\b|\bda quanto\b"
)
_TELLS = frozenset(
    """
    yesterday today tonight tomorrow ago last next recently since soon week weekend month year morning summer winter
    spring autumn monday tuesday wednesday thursday friday saturday sunday january february march april may june july
    august september october november december gestern vorgestern heute morgen neulich letzte letzten letzter
    letztes nachste nachsten nachster nachstes woche wochenende monat jahr montag dienstag mittwoch donnerstag freitag
    samstag sonntag januar februar marz mai juni juli oktober dezember sommer fruhling herbst hier aujourd demain dernier
    derniere prochain prochaine semaine mois lundi mardi mercredi jeudi vendredi samedi dimanche janvier fevrier mars
    avril juin juillet aout septembre octobre novembre decembre ete hiver printemps automne ayer anteayer hoy manana
    pasado pasada proximo proxima semana mes ano lunes martes miercoles jueves viernes sabado domingo enero febrero marzo
    abril mayo junio julio agosto septiembre octubre noviembre diciembre verano invierno primavera otono ieri oggi domani
    scorso scorsa prossimo prossima settimana mese anno lunedi martedi mercoledi giovedi venerdi sabato domenica gennaio
    febbraio aprile maggio giugno luglio settembre ottobre dicembre estate inverno autunno
    """.split()  # noqa: SIM905 - a list literal of them is three times as long
) | {str(year) for year in range(1900, 2100)}

_ASKS_WHAT = frozenset(
    """
    happened happen done geschah passierte unternommen erlebt
    gemacht passiert geschehen getan los fait passe arrive hicimos hice hizo hecho paso ocurrio
    sucedio fatto fatta successo accaduto
    """.split()  # noqa: SIM905 - a list literal of them is longer
)


def asks_what(words: Iterable[str]) -> bool:
    """Return whether words only ask what was done or happened. They are in lower case and without diacritics."""
    return _ASKS_WHAT.issuperset(words)


def asks_when(question: str) -> bool:
    """Return whether a question asks for a time. ``question`` is in lower case and without diacritics."""
    return bool(_ASKS.search(question))


def tells_time(words: Iterable[str]) -> bool:
    """Return whether one of the words of a line names a time. They are in lower case and without diacritics."""
    return not _TELLS.isdisjoint(words)
