"""Tells, without a model, which sentences tell something that is worth keeping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agent.context import small_talk

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_KINDS = (
    r"https?://[^\s<>\"')\]]+",
    r"[\w.+-]+@[\w-]+\.[\w.-]+",
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d)?",
    r"\d{1,2}[./]\d{1,2}[./]\d{2,4}",
    rf"\d{{1,2}}\.? {_MONTH}(?: \d{{4}})?",
    rf"{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?",
    r"\d{1,2}:\d\d(?::\d\d)?",
    r"[$€£¥]\s?\d[\d.,]*",
    r"\d[\d.,]*\s?(?:EUR|USD|GBP|CHF|JPY|€|£|%|km|kg|[kMGT]B|euros?|dollars?)",
    r"(?:~|\.{1,2})?(?:/[\w.@-]+){2,}",
    r"[\w-]+(?:/[\w.-]+)+\.\w{1,5}",
    r"\+\d[\d \-]{6,}\d",
    r"(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{3,}",
    r"\d{4,}",
)
_PARTICULAR = re.compile("|".join(rf"(?<![A-Za-z0-9])(?:{kind})" for kind in _KINDS), re.ASCII)
NEGATED = re.compile(
    r"n['’]t\b|\bn['’]\w|\bne \w|\b(?:not|never|no|none|nothing|nobody|without|neither|nor|cannot|nicht|nichts|kein\w*|nie|niemals|niemand|"
    r"ohne|"
    r"weder|pas|jamais|sans|nunca|sin|non|mai|senza|rien|personne|aucune?|plus jamais|nada|nadie|niente|nessuno|não|niet|geen)\b",
    re.IGNORECASE,
)
CUE = re.compile(
    r"\b(?:decid\w+|decision|agree[ds]?|chose|choose|chosen|settled?|go(?:ing)? (?:with|for)|let['’]?s|we(?:['’]ll| will| shall)|"
    r"i(?:['’]ll| will| shall)|"
    r"(?:i|he|she|we|they) takes?|instead|rather|promis\w+|remind|remember|always|prefer\w*|favou?rite|likes?|loves?|hates?|wants?|needs?|"
    r"allerg\w+|afraid|must|should|don['’]t forget|deadline|due|from now on|actually|correction|moved|changed?|called|named|lives?|"
    r"works?|my|our|entschieden|entscheid\w+|beschlossen|nehmen?|nimmt|versproch\w+|verspreche\w*|merk dir|erinner\w*|immer|lieber|"
    r"lieblings\w*|mag|mögen|liebt?e?|hass\w*|allerg\w*|vertr[aä]g\w*|muss|müssen|soll\w*|statt\w*|sondern|vergiss|heißt|heisst|"
    r"wohnt|arbeitet|mein\w*|unser\w*)\b|决定|答应|记住|喜欢|過敏|过敏|約束|決め|覚えて|好き|嫌い",
    re.IGNORECASE,
)
"""Words that tell a decision, a promise, a wish, a habit or whose something is: English, German, Chinese, Japanese."""
_NAME = re.compile(r"(?<=[\w,;:)”\"'-] )(?!I\b)[A-ZÀ-ÖØ-Þ][\w'’-]+")

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÀ-ÖØ-Þ\"'“„(\d])|\n+|(?<=[。！？])")
_NO_END = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|\d{1,2}|Dr|Mr|Mrs|Ms|Prof|St|Str|Nr|No|Fr|Hr|Tel|approx|ca|bzw|vs|etc|e\.g|i\.e|z\. ?B|d\. ?h|u\. ?a)\.$"
)
"""What ends with a dot and is no end of a sentence: initials, ordinal numbers, abbreviations."""


def particulars(text: str) -> Iterator[str]:
    """Find identifiers, dates, amounts, paths and addresses."""
    for match in _PARTICULAR.finditer(text):
        yield match[0].rstrip(".,;:")


def is_telling(sentence: str) -> bool:
    """Whether a sentence tells something by itself.

    A figure or a path always does. What is no small talk, question or request of the moment does with a decision, a wish, a
    promise, a refusal, or where it is in the first person or has its subject in front; a request does only with a name.
    """
    if any(letter.isdigit() for letter in sentence) or next(particulars(sentence), ""):
        return True
    if small_talk.is_small_talk(sentence):
        return False
    named = bool(_NAME.search(sentence))
    negated = bool(NEGATED.search(small_talk.without_interjection(sentence)))
    if small_talk.is_request(sentence) and not negated:
        return named and not small_talk.is_german_request(sentence)
    return named or negated or small_talk.is_standing(sentence) or bool(CUE.search(sentence)) or small_talk.declares(sentence)


def sentences_of(texts: Iterable[str]) -> Iterator[str]:
    """Take texts apart into sentences and lines, without list marks; headings are left out."""
    for text in texts:
        start = 0
        for cut in [*_SENTENCE.finditer(text), None]:
            end = len(text) if cut is None else cut.start()
            if cut is not None and "\n" not in cut[0] and _NO_END.search(text[start:end]):
                continue
            bare = text[start:end].strip().removeprefix("- ").strip()
            start = end if cut is None else cut.end()
            if bare and not bare.startswith("#"):
                yield " ".join(bare.split())
