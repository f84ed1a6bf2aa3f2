"""Small words that turn the meaning of a sentence, in English, German, French, Spanish, Italian, Dutch and Portuguese.

Two sentences that agree in all other words say different things where these differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

NO = "\0no"
"""The mark of a negation, whatever word it is."""

_NEGATIONS = (
    "no not never none nothing nobody neither nor without cannot "
    "nicht nichts nie niemals niemand ohne weder nein keinesfalls "
    "pas jamais sans rien aucun aucune ni non nunca jamás nada nadie ningún ninguno ninguna sin tampoco "
    "mai senza niente nulla nessun nessuno nessuna né niet nooit niets niemand zonder noch geen "
    "não nenhum nenhuma ninguém sem"
)
_NEGATED_WORD = re.compile(r"n['’]t$|^n['’]|^ne$|^kein\w*$", re.IGNORECASE)
_FRENCH_SECOND = frozenset(["pas", "plus", "jamais", "rien", "aucun", "aucune", "personne", "que", "guère", "ni"])
_BETWEEN_NE_AND_PAS = 4
_DATED = frozenset(["en", "de", "du", "début", "fin", "mi", "au", "il", "di", "a", "in", "dal", "al"])
"""Before "mai" it is the French month, not the Italian "never"; so it is beside a figure."""

_MARKS = (
    "before after until=till since against less=fewer more least most only except=but unless if whether maybe perhaps probably "
    "instead cancelled=canceled "
    "vor=bevor nach=nachdem bis seit=seitdem gegen weniger mehr mindestens höchstens nur außer=ausser falls wenn vielleicht "
    "wahrscheinlich statt=anstatt=stattdessen abgesagt "
    "avant après jusque=jusqu'à=jusqu'au depuis contre moins plus seulement sauf si peut-être probablement annulé=annulée "
    "antes después hasta desde contra menos más solo=sólo salvo quizás=quizá cancelado=cancelada "
    "prima dopo fino=finché contro meno più solo=soltanto tranne se forse annullato=annullata "
    "voor na tot sinds tegen minder meer minstens hoogstens alleen behalve als misschien afgezegd "
    "depois até mais apenas exceto talvez "
    "almost=nearly half hardly=barely=scarcely rarely=seldom sometimes=occasionally other second=2nd third=3rd fourth=4th twice "
    "supposedly=allegedly=apparently temporarily partly=partially early late want=wants=wanted "
    "fast=beinahe=nahezu halb kaum selten manchmal angeblich=vermutlich vorübergehend teilweise früh spät "
    "zweite=zweiter=zweites=zweiten dritte=dritter=drittes=dritten zweimal dreimal möchte=möchten wollen "
    "presque moitié peine rarement parfois soi-disant=censément temporairement bientôt deuxième=seconde troisième veut=voudrait "
    "casi medio apenas raramente supuestamente temporalmente pronto segundo tercer=tercero=tercera quiere "
    "quasi mezzo=mezza appena raramente provvisoriamente presto secondo terzo=terza vuole "
    "bijna nauwelijks zelden soms tijdelijk vroeg laat tweede derde wil=wilt "
    "quase meio=meia raramente temporariamente cedo terceiro=terceira quer"
)
"""A line must hold the same of these as a sentence, before the same words. What stands behind "=" means the same."""

_OPPOSITES = """
am=a.m pm=p.m
on=onto in=into=inside out=outside under=underneath=beneath=below over=above off beside=next behind front
from to
he=him=his=himself she=her=hers=herself
me=my=mine=i you=your=yours
can=may=could must should
will='ll might
is=are=am=isn't was=were=wasn't
ist=sind war=waren
est=sont était=étaient
es=está=son era=estaba
è=sono era=erano
all=every=each=everybody=everyone some=few half
win=wins=won lose=loses=lost
auf unter über neben hinter im=in=ins aus an=am=ans
von=vom zu=zum=zur nach
er=ihm=ihn=sein=seine=seinen=seinem sie=ihr=ihre=ihren=ihrem
ich=mir=mich=mein=meine=meinen=meinem du=dir=dich=dein=deine=deinen
darf=kann=dürfen=können=darfst muss=müssen=musst soll=sollen
öffnet=offen=auf schließt=geschlossen=zu
ein=eine=einen zwei drei vier fünf sechs sieben acht neun zehn elf zwölf halb
sur=dessus sous=dessous dans devant derrière hors
de=du=d'=depuis à=au=aux vers
il=lui elle
je=j'=moi=mon=ma=mes tu=toi=ton=ta=tes
un=une deux trois quatre cinq six sept huit neuf dix onze douze
sobre=encima bajo=debajo dentro fuera detrás delante
por para contra
él ella
yo=mi=mí=me tú=tu=te
sopra=su=sul=sulla sotto dentro fuori dietro davanti
da=dal=dalla a=al=alla
lui=lo lei=la
io=mi=mio=mia=me tu=ti=tuo=tua=te
due tre quattro cinque sei sette otto nove dieci
op onder boven naast achter
van naar
hij=hem=zijn zij=haar
ik=mij=mijn jij=jou=jouw
"""
"""Small words of which one excludes the others, a line each. A line of a note that holds another one than the sentence contradicts it.

Only groups with a stop word are here: any other word in the place of one that was said is seen without a list (``told.py``).
"""


@cache
def _negations() -> frozenset[str]:
    return frozenset(_NEGATIONS.split())


@cache
def _marks() -> dict[str, str]:
    return {word: one.split("=", 1)[0] for one in _MARKS.split() for word in one.split("=")}


@cache
def _opposites() -> dict[str, list[tuple[int, int]]]:
    """To each word its groups, and which of the group's meanings it is."""
    found: dict[str, list[tuple[int, int]]] = {}
    for group, line in enumerate(_OPPOSITES.strip().splitlines()):
        for meaning, one in enumerate(line.split()):
            for word in one.split("="):
                found.setdefault(word, []).append((group, meaning))
    return found


def marks(row: Sequence[str]) -> list[tuple[int, str]]:
    """Return the marks in a row of words in lower case, with their places: a negation, "before", "only", "less" and the like."""
    found: list[tuple[int, str]] = []
    since_ne = len(row)
    for n, word in enumerate(row):
        since_ne += 1
        if word == "ne" or word.startswith("n'"):
            since_ne = 0
        elif since_ne <= _BETWEEN_NE_AND_PAS and word in _FRENCH_SECOND:
            continue
        if is_negation(row, n):
            found.append((n, NO))
        elif mark := _marks().get(word):
            found.append((n, mark))
    return found


def is_negation(row: Sequence[str], n: int) -> bool:
    """Whether the word at a place of a row negates."""
    word = row[n]
    if word == "mai":
        before, after = row[n - 1] if n else "", row[n + 1] if n + 1 < len(row) else ""
        return not (before[:1].isdigit() or after[:1].isdigit() or before in _DATED)
    return word in _negations() or bool(_NEGATED_WORD.search(word))


def contradict(sentence: Iterable[str], line: Iterable[str]) -> bool:
    """Whether a line holds, where a sentence holds one of several words that exclude each other, another one of them."""
    said, noted = _meanings(sentence), _meanings(line)
    return any(group in noted and not meanings <= noted[group] for group, meanings in said.items())


def _meanings(words: Iterable[str]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for word in words:
        for group, meaning in _opposites().get(word, ()):
            found.setdefault(group, set()).add(meaning)
    return found
