"""Tells which short sentences say something only with the one before them: corrections ("no, Friday", "plus maintenant") and answers.

In English, German, French, Spanish, Italian, Dutch and Portuguese.
"""

from __future__ import annotations

import re
from functools import cache

from agent.context import small_talk
from memory.text.calendar_names import DAYS, NUMBERS
from memory.text.folding import folded

MOST_WORDS = 7
"""A longer sentence tells by itself what it is about."""
_OPENINGS = (
    r"wait|sorry|oops|whoops|my (?:mistake|bad)|wrong|i mean|i meant|make (?:it|that)|(?:scratch|strike|forget) (?:it|that)|"
    r"actually|rather|better|instead|er+m?|uh+m?|on second thoughts?|i misspoke|"
    r"doch|sondern|moment|halt|warte|verzeihung|entschuldigung|quatsch|falsch|ich mein(?:t)?e|meinte|äh+m?|stimmt nicht|"
    r"eigentlich|lieber|besser|eher|vielmehr|vergiss (?:es|das)|ich habe mich (?:geirrt|vertan)|mach(?:en)? (?:wir )?(?:da)?raus|"
    r"pardon|désolée?|attends|euh|oups|erreur|plutôt|ou plutôt|en fait|finalement|enfin|je (?:voulais|veux) dire|laisse tomber|"
    r"oublie(?: ça)?|je me suis trompée?|mets plutôt|"
    r"perdón|perdona|disculpa|espera|mejor(?: dicho)?|más bien|digo|quer[ií]a decir|quise decir|en realidad|al final|olvídalo|"
    r"me equivoqué|"
    r"scusa(?:mi)?|perdono|aspetta|anzi|meglio|piuttosto|volevo dire|intendevo|cioè|in realtà|mi sono sbagliat[oa]|"
    r"lascia perdere|facciamo|"
    r"wacht|ik bedoel(?:de)?|bedoelde|eigenlijk|liever|toch|of nee|maak er|vergeet (?:het|dat)|oeps|beter|"
    r"desculpa|desculpe|perdão|quis dizer|queria dizer|aliás|melhor(?: dizendo)?|na verdade|ou melhor|afinal|esquece|enganei-me|"
    r"(?:correction|update|korrektur|corrección|correzione|correctie|correção)\b(?!(?:\W+\w+){5})"
)
_NO = (
    r"(?:no+|nope|nah|not|nein|nee|nö|ne|nicht|non|pas|niet|não|nao)"
    rf"(?=\s*[,;:.!…–—-]|\W+(?:{_OPENINGS})\b|\W+[\w'’-]+(?:\s*,\s*[\w'’-]+)?\W*$)"
)
"""A no before a comma, another opening, or one word, or two that a comma parts: before more it begins a sentence."""
_BEFORE_THEM = r"(?:oh|ah|ach|hm+|well|but|and|aber|und|na|mais|et|pero|y|ay|ma|e|o|maar|en|mas|ai)"
_OPENING = rf"^[^\w]*(?:{_BEFORE_THEM}\b[\s,]*)?(?:(?:{_NO}|{_OPENINGS})\b[\s,;:.…–—-]*)+"
_ENDINGS = (
    r"[,;.…–—-]\s*(?:sorry|rather|actually|i mean(?:t)?|my mistake|entschuldigung|verzeihung|mein(?:t)?e ich|besser gesagt|vielmehr|pardon|"
    r"désolée?|plutôt|je (?:voulais|veux) dire|perdón|digo|mejor|mejor dicho|quería decir|scusa|anzi|volevo dire|meglio|bedoel(?:de)? ik|"
    r"liever|desculpa|perdão|aliás|quis dizer|ou melhor)$"
)
_NO_LONGER = (
    r"\b(?:no longer|not any ?more|any ?more|not now|nicht mehr|nicht länger|kein\w* mehr|nie mehr|plus maintenant|plus du tout|"
    r"ne \w+ plus|n['’]\w+ plus|ya no|non (?:\w+ )?più|niet meer|geen \w* ?meer|já não|agora não|mais não)\b"
)
_MOST_OF_NO_LONGER = 4
_OWN = r"(?:i|ich|je|yo|io|ik|eu)\b|j['’]"
"""Who speaks of themselves needs no sentence before it."""
_MORE_NUMBERS = (
    "twee drie vier vijf zes zeven negen tien elf twaalf dertien veertien vijftien "
    "dois duas três quatro seis oito onze doze treze catorze quatorze quinze "
    "twice thrice zweimal dreimal viermal "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred "
    "zwanzig dreissig dreißig hundert seize vingt trente quarante cinquante soixante cent "
    "dieciséis diecisiete dieciocho diecinueve veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa cien ciento "
    "sedici diciassette diciotto diciannove venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento "
    "honderd dezasseis dezesseis dezessete dezoito dezanove vinte trinta quarenta cinquenta sessenta oitenta noventa cem "
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag segunda-feira terça-feira quarta-feira quinta-feira sexta-feira"
)
_OTHER_WORDS = frozenset({"sei", "once", "quince", "martes"})
"""Numbers and days that are other words as well ("you are", "one time")."""
_COMPOUND = re.compile(r"\w*(?:zehn|zig|ßig|tien|tig|teen|ty-\w+)$")
"""How longer numbers end in German, Dutch and English."""
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_FIRST_OF_THEM = 2
"""The number one is an article, too."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@cache
def _numbers_and_days() -> frozenset[str]:
    small = {word for word, number in NUMBERS.items() if number >= _FIRST_OF_THEM}
    return frozenset(small | set(DAYS) | {folded(word) for word in _MORE_NUMBERS.split()}) - _OTHER_WORDS


def refers_back(sentence: str) -> bool:
    """Whether a short sentence corrects the one before it, or only adds a number or a day to it."""
    if len(sentence.split()) > MOST_WORDS or small_talk.is_small_talk(sentence) or small_talk.is_code(sentence):
        return False
    bare = sentence.strip(" .!…")
    if _compiled(_ENDINGS).search(bare):
        return True
    if len(bare.split()) <= _MOST_OF_NO_LONGER and _compiled(_NO_LONGER).search(bare) and not _compiled(_OWN).match(bare):
        return True
    rest = without_opening(bare)
    if rest != bare:
        return any(letter.isalnum() for letter in rest) and not small_talk.is_small_talk(rest)
    return _has_number_or_day(bare) and not small_talk.is_request(bare) and not small_talk.declares(bare)


def without_opening(sentence: str) -> str:
    """Return a sentence without the words by which it begins as a correction."""
    return _compiled(_OPENING).sub("", sentence, count=1)


def _has_number_or_day(sentence: str) -> bool:
    words = [folded(word) for word in _WORD.findall(sentence)]
    return any(word in _numbers_and_days() or _COMPOUND.fullmatch(word) for word in words)
