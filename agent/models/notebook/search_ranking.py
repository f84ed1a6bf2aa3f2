"""Ranks the lines that a search found by how well they answer a question, for the notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from memory.text.late_pattern import LatePattern

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]")
_ASKING = LatePattern(
    r"(?:在)?(?:哪里|哪裡|哪儿|哪)|什么|什麼|谁|誰|几点|幾點|多少|怎么|怎麼|为什么|吗|嗎|呢"
    r"|(?:は)?(?:どこ|なに|何|いつ|だれ)(?:ですか|でしたか)?|ですか|ますか|어디(?:에)?|무엇|언제|누구"
)
"""Question words that stand within a run of signs."""
_GAP = re.compile(r"\[… line (\d+)\]")
"""Stands between lines of a result that do not follow one another."""
_STEM = 4
_SURE = 0.6
"""Share of the question's words that a line must hold to be given as the answer rather than as the nearest note."""
_CLOSE = 0.6
"""Score from which a hit without a word in common is worth showing: it came by meaning."""
_STOP_WORDS = {
    "en": """
        a an the my our your his her their its of in on at to for from with by and or is are was were am be been do
        does did has have had i we you he she it they me us him them what where when who whom whose which why how that
        this these those there about any can could will would should please remember know tell told said say find note
        notes all many much s ve re m ll
    """,
    "de": """
        der die das den dem des ein eine einen einem einer und oder ist sind war waren bin bist hat habe haben hast
        hatte wo was wann wer wem wen wie warum wieso welche welcher welches mein meine meinen meiner unser unsere
        dein deine ich du er sie es wir ihr mir mich dir dich uns im in am an auf zu zum zur von vom mit für über
        weißt kennst kommt steht liegt gibt muss musst müssen soll sollen kann können will wollen darf noch nochmal bitte alles alle
    """,
    "es": "el la los las un una unos unas es son está están de en y o a mi mis tu su dónde qué cuándo quién cómo cuál hay",
    "fr": "le la les un une des de du et ou est sont à en mon ma mes ton ta où quoi quand qui comment quel quelle il elle",
    "it": "il lo la gli le i un una uno di e o è sono in mio mia miei tuo dove che cosa quando chi come quale",
    "pt": "o a os as um uma de em e ou é são está meu minha teu onde que quando quem como qual",
    "ru": "где что когда кто как мой моя мои моё в на и или это есть у меня",
}
"""Words that no note is looked for by, language by language: "mia" is one in Italian, and a name elsewhere."""
_STOPS = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_IRREGULAR = {
    form: row.split()[0]
    for row in (
        "be was were been",
        "begin began begun",
        "bring brought",
        "build built",
        "buy bought",
        "catch caught",
        "choose chose chosen",
        "come came",
        "cost",
        "do did done",
        "drink drank drunk",
        "drive drove driven",
        "eat ate eaten",
        "fall fell fallen",
        "feel felt",
        "find found",
        "fly flew flown",
        "forget forgot forgotten",
        "get got gotten",
        "give gave given",
        "go went gone",
        "grow grew grown",
        "hear heard",
        "hide hid hidden",
        "hold held",
        "keep kept",
        "know knew known",
        "leave left",
        "lend lent",
        "lose lost",
        "make made",
        "mean meant",
        "meet met",
        "pay paid",
        "put",
        "read",
        "run ran",
        "say said",
        "see saw seen",
        "sell sold",
        "send sent",
        "sit sat",
        "sleep slept",
        "speak spoke spoken",
        "spend spent",
        "stand stood",
        "swim swam swum",
        "take took taken",
        "teach taught",
        "tell told",
        "think thought",
        "wear wore worn",
        "win won",
        "write wrote written",
    )
    for form in row.split()
}
"""Forms of English verbs that do not begin alike, each to its first form."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a note: its text without list marks, where it stands, and which share of the question it holds."""

    text: str
    path: str
    number: int
    share: float


@dataclass(frozen=True, slots=True)
class Recall:
    """What was found. ``sure`` says that the lines hold most of what was asked; ``note`` is what the search said besides."""

    lines: tuple[Line, ...]
    sure: bool
    note: str = ""


def content_words(question: str) -> list[str]:
    """Return the words of a question that a note would hold, in their order: without articles, question words and the like."""
    words = _WORD.findall(_ASKING.sub(" ", question))
    stops = _stops_of(words)
    return [word for place, word in enumerate(words) if not _is_stop(word, stops, first=place == 0)] or words


def _stops_of(words: Sequence[str]) -> frozenset[str]:
    """Return the stop words of the language that most of ``words`` belong to; of equals the first in the table."""
    return max(_STOPS.values(), key=lambda stops: sum(word.casefold() in stops for word in words))


def _is_stop(word: str, stops: frozenset[str], *, first: bool) -> bool:
    """A capital within a sentence marks a name ("Will"), but for the words that are always written so ("I")."""
    named = word[:1].isupper() and not first and len(word) > 1
    return word.casefold() in stops and not named


def forms(word: str) -> list[str]:
    """Return a word with the other forms of the irregular verb that it is one of."""
    first = _IRREGULAR.get(word.casefold())
    return (
        [word, *(form for form, lead in _IRREGULAR.items() if lead == first and form != word.casefold())] if first else [word]
    )


def recall(question: str, answers: Sequence[str], *, most: int = 3) -> Recall:
    """Pick the best lines from the JSON texts of memory searches. Raises ValueError when one is no such text."""
    wanted = _terms(" ".join(content_words(question)))
    note = "; ".join(dict.fromkeys(filter(None, map(_note, answers))))
    hits = [hit for answer in answers for hit in _hits(answer)]
    meant = any(_by_meaning(answer) for answer in answers)
    ranked = [
        (line, -rank) for rank, hit in enumerate(hits) for line in _lines(hit, wanted) if line.text.rstrip()[-1:] not in "?？؟"
    ]
    if not ranked:
        return Recall((), sure=False, note=note)
    best = max(line.share for line, _ in ranked)
    if best == 0:
        close = meant and max(float(hit.get("score", 0.0)) for hit in hits) >= _CLOSE
        return Recall((ranked[0][0],) if close else (), sure=False, note=note)
    kept = sorted((pair for pair in ranked if pair[0].share == best), key=lambda pair: (pair[1], pair[0].path), reverse=True)
    distinct = {line.text.casefold(): line for line, _ in reversed(kept)}
    newest = sorted(distinct.values(), key=lambda line: line.path, reverse=True)
    return Recall(tuple(newest[:most]), sure=best >= _SURE, note=note)


def grepped(text: str) -> list[Line]:
    """Return the lines of the result of a ``grep`` (``path:number: text``), without headings and templates."""
    found = [re.match(r"(?P<path>[^:\n]+\.md):(?P<number>\d+): (?P<text>.*)$", line) for line in text.splitlines()]
    lines = [Line(_without_mark(one["text"]), one["path"], int(one["number"]), 0.0) for one in found if one]
    return [line for line in lines if line.text and not line.text.startswith("#") and "TEMPLATE-" not in line.path]


def _note(answer: str) -> str:
    """Return what a search says about notes that could not be read; the state of vectors is of no use in a notebook."""
    try:
        note = str(json.loads(answer).get("note") or "")
    except (json.JSONDecodeError, AttributeError):
        return ""
    return note if "read" in note else ""


def _by_meaning(answer: str) -> bool:
    return str(json.loads(answer).get("provider", "unknown")) != "none"


def _hits(answer: str) -> list[dict[str, Any]]:
    try:
        results = json.loads(answer)["results"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError("the search gave no list of results") from error
    if not isinstance(results, list):
        raise ValueError("the search gave no list of results")  # noqa: TRY004  (to callers it is a wrong value like the others)
    notes = [hit for hit in results if isinstance(hit, dict) and hit.get("source", "memory") == "memory"]
    return [hit for hit in notes if "TEMPLATE-" not in str(hit.get("path", ""))]


def _lines(hit: dict[str, Any], wanted: frozenset[str]) -> Iterator[Line]:
    number = int(hit.get("startLine", 1)) - 1
    for raw in str(hit.get("snippet", "")).splitlines():
        if gap := _GAP.fullmatch(raw):
            number = int(gap[1]) - 1
            continue
        number += 1
        text = _without_mark(raw)
        if text and not text.startswith(("#", "---", "```")):
            yield Line(text, str(hit.get("path", "")), number, _share(wanted, text))


def _without_mark(line: str) -> str:
    return re.sub(r"^\s*(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s+)?", "", line).strip()


def _share(wanted: frozenset[str], text: str) -> float:
    if not wanted:
        return 0.0
    present = _terms(text)
    return sum(any(_same(term, word) for word in present) for term in wanted) / len(wanted)


def _same(one: str, other: str) -> bool:
    """Two words that begin alike are forms of the same one, near enough for a note ("key", "keys"; "Topf", "Topfes")."""
    short, long = sorted((one, other), key=len)
    if one == other:
        return True
    return long.startswith(short) and (len(long) - len(short) <= 2 if len(short) < _STEM else len(long) - len(short) <= _STEM)  # noqa: PLR2004


def _terms(text: str) -> frozenset[str]:
    """Words, verbs by their first form; pairs of signs where words are not divided by blanks."""
    terms: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if _CJK.search(word):
            terms.update({first + second for first, second in pairwise(word)} or {word})
        else:
            terms.add(_IRREGULAR.get(word, word))
    return frozenset(terms)
