"""Finds, without a model, what a summary or note must keep: names, dates, amounts, paths, and the statements that hold them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from msgspec import Struct

from agent.context import corrections, small_talk
from agent.context.telling import CUE, NEGATED, is_telling, particulars, sentences_of
from agent.context.told import HEAD, Told
from agent.messages import AssistantMessage, Message, ToolMessage, is_of_a_person
from memory.text.terms import UNSPACED

LINE_CHARS = 240
"""Longest line that is kept of a sentence."""
_FILES = 20
_CHANGES = frozenset({"write", "edit", "patch", "apply_patch"})


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
_EDITED = " (edited)"
_OF_THE_AGENT = "### What the agent said"
_ASKED = ("?", "？")
_LEAST_WORDS = 2
"""A single word says something only where it holds a name, a number or the like, or is a line of several."""
_LIST_HEAD = re.compile(r"[\w'’)\"”»*]\s*:\s*\**$")
_ITEM = re.compile(r"\s{0,3}(?:(?:[-*•>+–]|\d{1,2}[.)]|\[[ xX]?\])\s*)*\w[^(){}\[\]=;<>]{0,80}$")
"""A line of a list as people write it; not one of a program."""
_MARKED = re.compile(r"\s*(?:[-*•+–]|\d{1,2}[.)]|\[[ xX]?\])\s")
_SHORT = 6
"""Words of a line of a list at most, where nothing but its lines says that it is one."""
_MOST_ITEMS = 40
_LABELLED = re.compile(r"[*_]*\w[\w '’./&()-]{1,40}[*_]*:[*_]*\s+\S")
"""What is written as a name and a value."""
_ACCESS = re.compile(
    r"\b(?:pass ?(?:words?|phrase|code)|pass(?:wort|wörter)|kennwort|code ?(?:word|wort|name)?s?|pin|log ?in|user ?name|"
    r"benutzername|zugang|wi-?fi|wlan|mots? de passe|identifiant|contraseña|usuario|parola|senha|wachtwoord)\b",
    re.IGNORECASE,
)
"""Words for what opens something: what stands beside them is often no name and no figure."""
_DENSE = re.compile(f"[{UNSPACED}]{{4,}}")


class Saying(Struct, frozen=True):
    """Something that was said. ``speaker`` is a name where several write, else ""; ``edited``: it takes the place of earlier words."""

    text: str
    speaker: str = ""
    edited: bool = False


def kept_statements(statements: Sequence[str | Saying], known: str, *, everything: bool = False) -> list[str]:
    """Return the sentences that ``known`` does not tell yet, in their order. Questions and commands are passed over.

    Those count that hold a name, a number, a path or the like, tell a decision, a wish, a promise, a refusal, or correct a known
    line, and lists below a line that ends with a colon; with ``everything`` (the model noted nothing) all that say something.
    A short correction is kept in one line with the sentence of the same person before it. Whether a line tells a sentence already is
    for ``told.py``.
    """
    notes = Told(known, strict=everything)
    kept: list[str] = []
    for message in _messages([Saying(one) if isinstance(one, str) else one for one in statements], everything=everything):
        wanted = [
            one
            for one in message.said
            if one in message.corrections
            or one in message.lines
            or _is_statement(one, everything=everything and message.short)
            or _corrects(one, notes)
        ]
        for sentence in _within(wanted, MOST_OF_A_MESSAGE):
            corrected, line = message.corrections.get(sentence), message.line(sentence)
            if not (notes.tells_corrected(line, *corrected) if corrected else notes.tells(line)):
                line += _EDITED if message.saying.edited else ""
                notes.add(line)
                kept.append(line)
    return kept


@dataclass(slots=True)
class _Message:
    """Its sentences, which of them are lines of lists, and which have a correction, with what was said before that and with it."""

    said: list[str]
    lines: frozenset[str]
    short: bool
    corrections: dict[str, tuple[str, str]]
    saying: Saying

    def line(self, sentence: str) -> str:
        """The sentence with who said it."""
        return f"{self.saying.speaker}: {sentence}" if self.saying.speaker else sentence


def _messages(statements: Sequence[Saying], *, everything: bool) -> list[_Message]:
    """Take messages apart into sentences; what only corrects the sentence before it is put behind that, also of an earlier message."""
    found: list[_Message] = []
    last: dict[str, tuple[_Message, int]] = {}
    for saying in statements:
        text, speaker = saying.text, saying.speaker
        if text.lstrip().startswith("/"):
            continue
        short = len(text) <= PASTED_CHARS
        message = _Message([], _lists_of(text, everything=everything) if short else frozenset(), short, {}, saying)
        for one in (piece for sentence in sentences_of([text]) for piece in _cut_up(sentence)):
            asked = one.endswith(_ASKED)
            if speaker in last and short and not asked and one not in message.lines and corrections.refers_back(one):
                owner, at = last[speaker]
                first = owner.said[at]
                owner.said[at] = f"{first} – {one}"
                owner.corrections[owner.said[at]] = (first, corrections.without_opening(one))
                continue
            message.said.append(one)
            if asked:
                last.pop(speaker, None)
            elif any(letter.isalnum() for letter in one) and not small_talk.is_small_talk(one):
                last[speaker] = message, len(message.said) - 1
        found.append(message)
    return found


def kept_lines(dropped: Sequence[Message], former: str, known: str, most_chars: int) -> str:
    """Return what to put behind a summary: sentences that tell something which neither it nor memory (``known``) holds.

    First come the lines of people that were kept so behind the summary before (``former``), whatever else is new; then what
    people said, the newest where it is too much; then, apart, particulars of what the agent said and of the former summary. What
    tools gave counts only where one of them took it up.
    """
    summary, _, before = former.partition(HEAD)
    of_people, _, of_agent = before.partition(_OF_THE_AGENT)
    known_words = Told(known)
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


def _is_statement(sentence: str, *, everything: bool) -> bool:
    if sentence.endswith(_ASKED):
        return False
    if is_telling(sentence) or _LABELLED.match(sentence) or _ACCESS.search(sentence):
        return True
    return everything and (len(sentence.split()) >= _LEAST_WORDS or bool(_DENSE.search(sentence)))


def _lists_of(text: str, *, everything: bool) -> frozenset[str]:
    """Return the lines of lists in a message, with what stands above them; with ``everything`` all of a message of several lines."""
    found: set[str] = set()
    for block in re.split(r"\n\s*\n", text):
        rows = block.strip("\n").split("\n")
        heads = [0] if everything or _is_list(rows) else [at for at, row in enumerate(rows) if _LIST_HEAD.search(row)]
        for head in heads:
            items = list(takewhile(_ITEM.match, rows[head + 1 : head + 1 + _MOST_ITEMS]))
            if items:
                found |= {one for one in sentences_of(["\n".join([rows[head], *items])]) if not one.endswith(_ASKED)}
    return frozenset(found)


def _is_list(rows: Sequence[str]) -> bool:
    """Whether lines are a list without a head: short ones that have list marks, or of which one says something by itself."""
    if len(rows) < 2 or not all(_ITEM.match(row) and len(row.split()) <= _SHORT for row in rows):  # noqa: PLR2004 - a list
        return False
    return all(_MARKED.match(row) for row in rows) or any(_is_statement(row.strip(), everything=False) for row in rows)


def _corrects(sentence: str, notes: Told) -> bool:
    return not sentence.endswith(_ASKED) and notes.turns(sentence)


def _cut_up(sentence: str) -> list[str]:
    """Cut what is too long for one line, such as a dictation without a stop, between words."""
    return [sentence] if len(sentence) <= LONGEST_SENTENCE else textwrap.wrap(sentence, LINE_CHARS)


def _within(sentences: Sequence[str], most: int) -> list[str]:
    """Return the sentences of a message that fit, those that tell a decision or a wish before mere figures, in their order."""
    if sum(map(len, sentences)) <= most:
        return list(sentences)
    ranked = sorted(range(len(sentences)), key=lambda n: (not CUE.search(sentences[n]), not NEGATED.search(sentences[n]), n))
    fitting = []
    for n in ranked:
        most -= len(sentences[n])
        if most < 0:
            break
        fitting.append(n)
    return [sentences[n] for n in sorted(fitting)]
