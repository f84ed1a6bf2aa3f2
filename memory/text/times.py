"""Whether a question asks when something was, and whether a line names a time: English, German, French, Spanish and Italian."""

from __future__ import annotations

import re

_ASKS = re.compile(
    r"\bwhen\b|\b(?:what|which) (?:date|day|month|season|year|time|week)|\bhow long\b"
    r"|\bwann\b|\bwie lange\b|\ban welchem tag\b|\bquand\b|\bquel jour\b|\bdepuis combien\b"
    r"|\bcuando\b|\bque dia\b|\bcuanto tiempo\b|\bquando\b|\bche giorno\b|\bda quanto\b"
)
_TELLS = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|recently|since|soon|week|weekend|month|year|morning|summer|winter|spring|autumn"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|january|february|march|april|may|june|july|august|september|october|november|december|(?:19|20)\d\d"
    r"|gestern|vorgestern|heute|morgen|neulich|letzte[nrs]?|nachste[nrs]?|woche|wochenende|monat|jahr|montag|dienstag|mittwoch|donnerstag"
    r"|freitag|samstag|sonntag|januar|februar|marz|mai|juni|juli|oktober|dezember|sommer|fruhling|herbst"
    r"|hier|avant-hier|aujourd'hui|demain|dernier|derniere|prochain|prochaine|semaine|mois|lundi|mardi|mercredi|jeudi|vendredi|samedi"
    r"|dimanche|janvier|fevrier|mars|avril|juin|juillet|aout|septembre|octobre|novembre|decembre|ete|hiver|printemps|automne"
    r"|ayer|anteayer|hoy|manana|pasado|pasada|proximo|proxima|semana|mes|ano|lunes|martes|miercoles|jueves|viernes|sabado|domingo"
    r"|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|verano|invierno|primavera|otono"
    r"|ieri|oggi|domani|scorso|scorsa|prossimo|prossima|settimana|mese|anno|lunedi|martedi|mercoledi|giovedi|venerdi|sabato|domenica"
    r"|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|estate|inverno|autunno)\b"
)


def asks_when(question: str) -> bool:
    """Return whether a question asks for a time. ``question`` is in lower case and without diacritics."""
    return bool(_ASKS.search(question))


def tells_time(line: str) -> bool:
    """Return whether a line names a time by a word or a year. ``line`` is in lower case and without diacritics."""
    return bool(_TELLS.search(line))
