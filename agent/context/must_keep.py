"""Finds, without a model, what a summary or note must keep: names, dates, amounts, paths, and the statements that hold them."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from agent.messages import AssistantMessage, Message, ToolMessage, is_of_a_person
from memory.text import stop_words
from memory.text.terms import UNSPACED

HEAD = "## Kept word for word"
LINE_CHARS = 240
"""Longest line that is kept of a sentence."""
_FILES = 20
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
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÀ-ÖØ-Þ\"'“„(\d])|\n+|(?<=[。！？])")
_NO_END = re.compile(
    r"(?:^|[\s(])(?:[A-Za-z]|\d{1,2}|Dr|Mr|Mrs|Ms|Prof|St|Str|Nr|No|Fr|Hr|Tel|approx|ca|bzw|vs|etc|e\.g|i\.e|z\. ?B|d\. ?h|u\. ?a)\.$"
)
"""What ends with a dot and is no end of a sentence: initials, ordinal numbers, abbreviations."""
_CHANGES = frozenset({"write", "edit", "patch", "apply_patch"})


def particulars(text: str) -> Iterator[str]:
    """Find identifiers, dates, amounts, paths and addresses."""
    for match in _PARTICULAR.finditer(text):
        yield match[0].rstrip(".,;:")


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


def around(sentence: str, lost: Sequence[str]) -> str:
    """Shorten a long sentence to the first thing that would be lost, with what stands around it; name the others."""
    at = max(0, sentence.find(lost[0]) - LINE_CHARS // 2)
    piece = sentence[at : at + LINE_CHARS]
    others = [found for found in lost if found not in piece][:10]
    return f"{'…' if at else ''}{piece}…" + (f" (also: {', '.join(others)})" if others else "")


def files_of(dropped: Sequence[Message], known: str) -> Iterator[str]:
    """Return which files were changed and read, as far as ``known`` does not name them."""
    there = _normal(known)
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    failed = {message.call_id for message in dropped if isinstance(message, ToolMessage) and message.is_error}
    for message in dropped:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            path = (call.arguments or {}).get("path")
            if isinstance(path, str) and call.id not in failed and _normal(path) not in there:
                (changed if call.name in _CHANGES else read)[path] = None
    if changed:
        yield f"- Files changed: {', '.join(list(changed)[-_FILES:])}"
    if read:
        yield f"- Files read: {', '.join(list(read)[-_FILES:])}"


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()


PASTED_CHARS = 4000
"""A longer message counts as pasted or dictated: only sentences that tell something for themselves are kept of it."""
MOST_OF_A_MESSAGE = 4000
"""Characters that are kept of one message at most; sentences that tell a decision, a wish or a promise come first."""
MOST_LINES = 120
"""Lines of people that are put behind a summary at most."""
MOST_OF_THE_AGENT = 20
"""The same of the former summary, and of what the agent said."""
LONGEST_SENTENCE = 400
"""A longer one is cut into several lines."""
_OF_THE_AGENT = "### What the agent said"
_ASKED = ("?", "？")
_LEAST_WORDS = 3
"""A sentence of fewer words says something only where it holds a name, a number or the like."""
_MISSING = 0.4
"""A sentence counts as noted when no more than this share of its ordinary words is missing in the line of the note."""
_MISSING_OF_ALL = 0.2
"""The same where the model noted nothing: in a short sentence no word may be missing then."""
_ASKED_TO_KEEP = re.compile(
    r"(?:please|bitte|also|and|und)?,?\s*(?:remember|note|keep in mind|don['’]t forget|merk(?:e)? dir|notier(?:e)?|denk(?:e)? daran|"
    r"vergiss nicht|souviens-toi|n['’]oublie pas|recuerda|ricorda(?:ti)?)\b(?:\s*,?\s*(?:that|dass|que|che)\b)?[\s:,]*",
    re.IGNORECASE,
)
"""How a sentence begins that asks for something to be kept; what comes behind it is what is kept."""
_NO = "\0no"
_NEGATED = re.compile(
    r"n['’]t\b|\b(?:not|never|no|none|nothing|nobody|without|neither|nor|cannot|nicht|nichts|kein\w*|nie|niemals|niemand|ohne|"
    r"weder|pas|jamais|sans|nunca|sin|non|mai|senza)\b",
    re.IGNORECASE,
)
_CUE = re.compile(
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
_TOKEN = re.compile(rf"[{UNSPACED}]{{1,2}}|[^\W_](?:[\w.@/:'’-]*[^\W_])?")
_NAME = re.compile(r"(?<=[\w,;:)”\"'-] )(?!I\b)[A-ZÀ-ÖØ-Þ][\w'’-]+")
_DENSE = re.compile(f"[{UNSPACED}]{{4,}}")


def kept_statements(statements: Sequence[str], known: str, *, everything: bool = False) -> list[str]:
    """Return the sentences that ``known`` does not tell yet, in their order. Questions and commands are passed over.

    Those count that hold a name, a number, a path or the like, or tell a decision, a wish, a promise, a refusal; with
    ``everything`` (the model noted nothing) all that say something. A sentence is told when what is particular in it and most
    of its other words stand together in one line, with the line's heading, and are negated where it is. A line that was kept word
    for word tells it only with all of its words in a row, as one word may be the news.
    """
    notes = _Told(known, missing=_MISSING_OF_ALL if everything else _MISSING)
    kept: list[str] = []
    for text in statements:
        if text.lstrip().startswith("/"):
            continue
        pieces = [piece for sentence in sentences_of([text]) for piece in _cut_up(sentence)]
        wanted = [one for one in pieces if _is_statement(one, everything=everything and len(text) <= PASTED_CHARS)]
        for sentence in _within(wanted, MOST_OF_A_MESSAGE):
            if not notes.tells(sentence):
                notes.add(sentence)
                kept.append(sentence)
    return kept


def kept_lines(dropped: Sequence[Message], former: str, known: str, most_chars: int) -> str:
    """Return what to put behind a summary: sentences that tell something which neither it nor memory (``known``) holds.

    First come the lines of people that were kept so behind the summary before (``former``), whatever else is new; then what
    people said, the newest where it is too much; then, apart, particulars of what the agent said and of the former summary. What
    tools gave counts only where one of them took it up.
    """
    summary, _, before = former.partition(HEAD)
    of_people, _, of_agent = before.partition(_OF_THE_AGENT)
    known_words = _Told(known)
    left = most_chars

    def taken(sentences: Iterable[str], most: int) -> list[str]:
        nonlocal left
        lines: list[str] = []
        for sentence in sentences:
            line = f"- {shortened(sentence)}"
            if len(lines) < most and len(line) < left and is_telling(sentence) and not known_words.tells(sentence):
                known_words.add(sentence)
                lines.append(line)
                left -= len(line) + 1
        return lines

    people = taken(_lines_of(of_people), MOST_LINES)
    people += reversed(taken(_newest(m.text for m in dropped if is_of_a_person(m)), MOST_LINES))
    left -= len(_OF_THE_AGENT) + 1
    said = _newest(m.text for m in dropped if isinstance(m, AssistantMessage))
    agent = [*reversed(taken(_particular(said, known), MOST_OF_THE_AGENT))]
    agent += taken(_particular([*sentences_of([summary]), *_lines_of(of_agent)], known), MOST_OF_THE_AGENT)
    agent += [line for line in files_of(dropped, known) if len(line) < left]
    lines = [*people, *([_OF_THE_AGENT, *agent] if agent else [])]
    return f"{HEAD}\n" + "\n".join(lines) if lines else ""


def _lines_of(kept: str) -> list[str]:
    return [line.removeprefix("- ") for line in kept.splitlines() if line.startswith("- ") and not line.startswith("- Files ")]


def _newest(texts: Iterable[str]) -> Iterator[str]:
    sentences = [sentence for sentence in sentences_of(texts) if not sentence.endswith(_ASKED)]
    return reversed(sentences)


def _particular(sentences: Iterable[str], known: str) -> Iterator[str]:
    there = " ".join(known.split()).casefold()
    return (s for s in sentences if any(one.casefold() not in there for one in particulars(s)))


def as_note(sentences: Sequence[str]) -> str:
    """Return sentences as the lines of a note, under their heading."""
    return f"{HEAD}\n\n" + "".join(f"- {sentence}\n" for sentence in sentences) if sentences else ""


def shortened(sentence: str) -> str:
    """Return a sentence, or what stands around the first particular of one that is too long for a line."""
    return sentence if len(sentence) <= LINE_CHARS else around(sentence, list(particulars(sentence)) or [sentence[:1]])


def is_telling(sentence: str) -> bool:
    """Whether a sentence tells something by itself: a name, a figure, a path; a decision, a wish, a promise, a refusal."""
    return bool(
        any(letter.isdigit() for letter in sentence)
        or _CUE.search(sentence)
        or _NEGATED.search(sentence)
        or _NAME.search(sentence)
        or next(particulars(sentence), "")
    )


def _is_statement(sentence: str, *, everything: bool) -> bool:
    if sentence.endswith(_ASKED):
        return False
    if is_telling(sentence):
        return True
    return everything and (len(sentence.split()) >= _LEAST_WORDS or bool(_DENSE.search(sentence)))


def _cut_up(sentence: str) -> list[str]:
    """Cut what is too long for one line, such as a dictation without a stop, between words."""
    return [sentence] if len(sentence) <= LONGEST_SENTENCE else textwrap.wrap(sentence, LINE_CHARS)


def _within(sentences: Sequence[str], most: int) -> list[str]:
    """Return the sentences of a message that fit, those that tell a decision or a wish before mere figures, in their order."""
    if sum(map(len, sentences)) <= most:
        return list(sentences)
    ranked = sorted(range(len(sentences)), key=lambda n: (not _CUE.search(sentences[n]), not _NEGATED.search(sentences[n]), n))
    fitting = []
    for n in ranked:
        most -= len(sentences[n])
        if most < 0:
            break
        fitting.append(n)
    return [sentences[n] for n in sorted(fitting)]


class _Words(Struct, frozen=True):
    """The words of a text that tell something: those that must be found (names, figures, a negation), the others, and all in a row.

    The mark of a negation is not in the row.
    """

    strong: frozenset[str]
    other: frozenset[str]
    row: tuple[str, ...]


class _Line(Struct, frozen=True):
    """The words of a line, with those of its heading before them. ``exact``: it tells a sentence with all of its words alone."""

    row: tuple[str, ...]
    bag: frozenset[str]
    exact: bool


class _Told:
    """Known lines, indexed by their words. ``missing``: the share of a sentence's ordinary words that a line may lack and tell it."""

    def __init__(self, known: str, *, missing: float = _MISSING) -> None:
        self._missing = missing
        self._lines: list[_Line] = []
        self._where: dict[str, set[int]] = defaultdict(set)
        heading = _words("")
        kept = False
        for line in known.splitlines():
            words = _words(line)
            if line.lstrip().startswith("#"):
                heading, kept = words, line.strip() == HEAD
                self._add([words], exact=kept)
            else:
                self._add([heading, words], exact=kept)

    def add(self, line: str) -> None:
        self._add([_words(line)], exact=True)

    def _add(self, parts: Sequence[_Words], *, exact: bool) -> None:
        row = tuple(word for part in parts for word in part.row)
        line = _Line(row, frozenset[str]().union(*(part.strong | part.other for part in parts)), exact)
        for word in line.bag:
            self._where[word].add(len(self._lines))
        self._lines.append(line)

    def tells(self, sentence: str) -> bool:
        asked = _ASKED_TO_KEEP.match(sentence)
        words = _words(sentence[asked.end() :] if asked else sentence)
        if not words.strong | words.other:
            return True
        found = [self._where.get(word, set()) for word in words.strong or words.other]
        at = set.intersection(*found) if words.strong else set().union(*found)
        return any(
            _stand_in(words, line) if line.exact else len(words.other - line.bag) <= self._missing * len(words.other)
            for line in map(self._lines.__getitem__, at)
        )


def _stand_in(words: _Words, line: _Line) -> bool:
    """Whether words stand in a line in a row, negated where they are and nowhere else."""
    negated_alike = (_NO in line.bag) == (_NO in words.strong)
    return negated_alike and f" {' '.join(words.row)} " in f" {' '.join(line.row)} "


def _words(text: str) -> _Words:
    tokens = _TOKEN.findall(text)
    plain = [_bare(token) for token in tokens]
    empty = stop_words.of(plain)
    strong: set[str] = {_NO} if _NEGATED.search(text) else set()
    other: set[str] = set()
    for n, (token, word) in enumerate(zip(tokens, plain, strict=True)):
        if word in empty or (len(word) == 1 and not word.isdigit() and word.isascii()):
            continue
        named = token[0].isupper() and not (n == 0 and _CUE.fullmatch(token))
        particular = named or any(letter.isdigit() for letter in token)
        (strong if particular else other).add(word)
    return _Words(frozenset(strong), frozenset(other), tuple(word for word in plain if word in strong or word in other))


def _bare(token: str) -> str:
    word = token.casefold().replace("’", "'").removesuffix("'s")
    return word.removesuffix("'")
