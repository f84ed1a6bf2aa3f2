"""Which lines of what a search found answer a question, and how surely: for the notebook, which has no language model to judge."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_CJK = re.compile(r"[぀-ヿ㐀-鿿가-힯]")
_ASKING = re.compile(
    r"(?:在)?(?:哪里|哪裡|哪儿|哪)|什么|什麼|谁|誰|几点|幾點|多少|怎么|怎麼|为什么|吗|嗎|呢"
    r"|(?:は)?(?:どこ|なに|何|いつ|だれ)(?:ですか|でしたか)?|ですか|ますか|어디(?:에)?|무엇|언제|누구"
)
"""Question words that stand within a run of signs."""
_STEM = 4
_SURE = 0.6
"""Share of the question's words that a line must hold to be given as the answer rather than as the nearest note."""
_CLOSE = 0.6
"""Score from which a hit without a word in common is worth showing: it came by meaning."""
_STOP_WORDS = """
a an the my our your his her their its of in on at to for from with by and or is are was were am be been do does did
has have had i we you he she it they me us him them what where when who whom whose which why how that this these those
there about any can could will would should please remember know tell told said say find note notes der die das den
dem ein eine ist sind war wo was wann wer wie mein meine el la los las un una es son está están dónde qué cuándo quién
cómo mi mis de le les des du et est sont où quoi quand qui comment mon ma mes il lo gli che dove quando chi come mio
mia где что когда кто как мой моя мои o os as é onde quem meu minha"""
_STOP = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a note: its text without list marks, where it stands, and which share of the question it holds."""

    text: str
    path: str
    number: int
    share: float


@dataclass(frozen=True, slots=True)
class Recall:
    """What was found. ``sure`` says that the lines hold most of what was asked."""

    lines: tuple[Line, ...]
    sure: bool


def content_words(question: str) -> list[str]:
    """Return the words of a question that a note would hold, in their order: without articles, question words and the like."""
    words = _WORD.findall(_ASKING.sub(" ", question))
    return [word for word in words if word.casefold() not in _STOP] or words


def recall(question: str, answers: Sequence[str], *, most: int = 3) -> Recall:
    """Pick the best lines from the JSON texts of memory searches. Raises ValueError when one is no such text."""
    wanted = _terms(" ".join(content_words(question)))
    hits = [hit for answer in answers for hit in _hits(answer)]
    ranked = [
        (line, -rank) for rank, hit in enumerate(hits) for line in _lines(hit, wanted) if line.text.rstrip()[-1:] not in "?？؟"
    ]
    if not ranked:
        return Recall((), sure=False)
    best = max(line.share for line, _ in ranked)
    if best == 0:
        close = max(float(hit.get("score", 0.0)) for hit in hits) >= _CLOSE
        return Recall((ranked[0][0],) if close else (), sure=False)
    kept = sorted((pair for pair in ranked if pair[0].share == best), key=lambda pair: (pair[1], pair[0].path), reverse=True)
    distinct = {line.text.casefold(): line for line, _ in reversed(kept)}
    newest = sorted(distinct.values(), key=lambda line: line.path, reverse=True)
    return Recall(tuple(newest[:most]), sure=best >= _SURE)


def _hits(answer: str) -> list[dict[str, Any]]:
    try:
        results = json.loads(answer)["results"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError("the search gave no list of results") from error
    if not isinstance(results, list):
        raise ValueError("the search gave no list of results")  # noqa: TRY004  (to callers it is a wrong value like the others)
    return [hit for hit in results if isinstance(hit, dict) and "TEMPLATE-" not in str(hit.get("path", ""))]


def _lines(hit: dict[str, Any], wanted: frozenset[str]) -> Iterator[Line]:
    first = int(hit.get("startLine", 1))
    for offset, raw in enumerate(str(hit.get("snippet", "")).splitlines()):
        text = re.sub(r"^\s*(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s+)?", "", raw).strip()
        if text and not text.startswith(("#", "---", "```")):
            yield Line(text, str(hit.get("path", "")), first + offset, _share(wanted, text))


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
    """Words that carry meaning; pairs of signs where words are not divided by blanks."""
    terms: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if _CJK.search(word):
            terms.update({first + second for first, second in pairwise(word)} or {word})
        elif word not in _STOP:
            terms.add(word)
    return frozenset(terms)
