"""What of a question, and of a note, the keyword index sees: words, pairs of ideographs, and code."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f"
)
"""Scripts that are written without blanks, or glue their endings on: their pairs of characters serve as words."""

_RUN = re.compile(f"[{UNSPACED}\U00020000-\U0003ffff]+")
_WORD = re.compile(r"[^\W_]+")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#$%+-]*[A-Za-z0-9]")
_LOOKS_LIKE_CODE = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]|[_/:@#$%+]|[A-Za-z0-9]\.[A-Za-z0-9]|[a-z][A-Z]|[0-9]{3}")
_MOST_TERMS = 64
_TRIGRAM = 3

_FUNCTION_WORDS = (
    "a about after again all also am an and any are aren as at be because been before being between both but by can "
    "cannot could couldn d did didn do does doesn doing don down during each else ever few for from further get gets "
    "getting got had hadn has hasn have haven having he her here hers herself him himself his how however i if in into is "
    "isn it its itself just ll m me might mightn more most much must mustn my myself no nor not of off on once only or "
    "other our ours ourselves out over own please re s same shall shan she should shouldn so some such t tell than that "
    "the their theirs them themselves then there these they this those through to too under until up upon ve very was "
    "wasn we were weren what when where which while who whom whose why will with won would wouldn yet you your yours "
    "yourself yourselves"
)
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words. Words of other languages stay in the query; their frequency makes them weigh little."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A question, taken apart. All lists are without repeats, in the order of the question.

    ``words`` go to the stemmed text, ``pairs`` to its column of character pairs, ``code`` (and runs of three or more
    unspaced characters) to the trigram table.
    """

    words: tuple[str, ...]
    pairs: tuple[str, ...]
    code: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.words or self.pairs or self.code)


def terms(question: str) -> Terms:
    """Take a question apart. Stop words go, unless nothing else is left; no syntax of any query language survives."""
    runs = _RUN.findall(question)
    words = [word.casefold() for word in _WORD.findall(_RUN.sub(" ", question))]
    content = [word for word in words if word not in STOP_WORDS]
    pairs = [pair for run in runs for pair in pairs_of(run)]
    if not content and not pairs:
        content = words
    code = codes(question) + [run for run in runs if len(run) >= _TRIGRAM]
    return Terms(_first(content), _first(pairs), _first(code))


def pairs_of(run: str) -> list[str]:
    """Return the neighbouring pairs of a run of characters; a single one stands for itself."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def pair_text(text: str) -> str:
    """Return what the column of pairs holds for ``text``: pairs and single characters, so that either can be asked for."""
    if text.isascii():
        return ""
    return " ".join(" ".join((*pairs_of(run), *(run if len(run) > 1 else ""))) for run in _RUN.findall(text))


def codes(text: str) -> list[str]:
    """Return what looks like an identifier, a path, a version or a number rather than a word."""
    return [token for token in _CODE.findall(text) if len(token) >= _TRIGRAM and _LOOKS_LIKE_CODE.search(token)]


def trigram_text(text: str) -> str:
    """Return what the trigram table holds for ``text``: code and unspaced runs only, which keeps that table small."""
    found = codes(text)
    if not text.isascii():
        found += [run for run in _RUN.findall(text) if len(run) >= _TRIGRAM]
    return "\n".join(dict.fromkeys(found))


def quoted(term: str) -> str:
    """Return ``term`` as an FTS5 string, whatever is in it."""
    return '"' + term.replace("\x00", " ").replace('"', '""') + '"'


def _first(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))[:_MOST_TERMS]
