"""Tidying of notes: lines as a model is shown them, the changes that it proposes, and carrying out those that the owner accepted.

A proposal changes lines that were shown, and nothing else: each of its edits names a line by its text and its neighbours. It is refused
if that line is gone, was changed or is one of several like it. Applying it is one version of each note, which can be undone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from memory.errors import MemoryTrouble, MemoryUnreadable
from memory.notes.note_reader import NoteContent, read_note
from memory.notes.sources import FOLDER, LONG_TERM, NoteSources, audience_of
from memory.text.folding import folded

Trusted = Callable[[str, str], Collection[str]]
"""Takes the path and the text of a note, and returns the lines of it that hold nothing untrusted."""
Kind = Literal["merge", "contradiction", "stale", "promote"]
Effect = Literal["joining", "rewording", "removal", "promotion"]

_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LONGEST_LINE: Final = 600
_MOST_LINES: Final = 12
"""Lines that one proposal may concern."""
_MEANT_TO_LOSE: Final = frozenset({"contradiction", "stale"})
_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_CAPITALIZED: Final = re.compile(r"(?<!\w)(?=[^\W\d_])[^\W_]{2,}")
_TITLE_OF_NAME: Final = re.compile(r"\b(?:Dr|Prof|Mr|Mrs|Ms|St|Hr|Fr|Sr|Sra|Sig|Mme)\.$")
"""What ends with a full stop before a name, such as "Dr."."""
_EDGE: Final = "\n"
"""What stands for the line before the first one, and after the last one."""
_TITLE: Final = "# Memory\n\n"
_TARGET: Final = LONG_TERM[0]


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of a note: its number, its text without the line end, and the lines beside it."""

    path: str
    number: int
    text: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """How the model names it."""
        return f"{self.path}:{self.number}"


@dataclass(frozen=True, slots=True)
class Edit:
    """The change of one line; ``new`` None removes it. With ``line`` None, ``new`` is added to the end of the note.

    With the line's own text as ``new`` it stays, and has to: what becomes of other lines relies on it.
    """

    path: str
    line: ShownLine | None
    new: str | None

    @property
    def stays(self) -> bool:
        """Whether the line stays as it is."""
        return self.line is not None and self.new == self.line.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the owner may accept or reject as a whole. ``id`` follows from what it changes, wherever the lines stand."""

    kind: Kind
    why: str
    edits: tuple[Edit, ...]
    id: str = field(default="")

    def __post_init__(self) -> None:
        """Set the id."""
        if not self.id:
            changes = [edit for edit in self.edits if not edit.stays]
            said = json.dumps([(edit.path, edit.line.text if edit.line else None, edit.new) for edit in changes])
            object.__setattr__(self, "id", hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:8])

    @property
    def effect(self) -> Effect:
        """What becomes of its lines, whatever the words."""
        if self.kind == "promote":
            return "promotion"
        if all(edit.new is None for edit in self.edits):
            return "removal"
        return "joining" if len(self.edits) > 1 else "rewording"

    @property
    def lost(self) -> tuple[str, ...]:
        """Numbers and names of lines that are joined or promoted which its text does not have."""
        return () if self.kind in _MEANT_TO_LOSE else _missing(self._old(), self._new())

    @property
    def added(self) -> tuple[str, ...]:
        """Numbers and names of its text that none of its lines has."""
        return _missing(self._new(), self._old())

    def _old(self) -> str:
        return "\n".join(edit.line.text for edit in self.edits if edit.line is not None)

    def _new(self) -> str:
        return "\n".join(
            edit.new for edit in self.edits if edit.new is not None and not (self.kind == "promote" and edit.stays)
        )

    def diff(self) -> str:
        """Return it as the lines of a diff, by note."""
        rows: list[str] = []
        for path in dict.fromkeys(edit.path for edit in self.edits):
            rows.append(f"@@ {path} @@")
            for edit in self.edits:
                if edit.path == path and edit.stays:
                    rows.append(f" {edit.new}")
                elif edit.path == path:
                    rows += [f"-{edit.line.text}"] if edit.line is not None else []
                    rows += [f"+{edit.new}"] if edit.new is not None else []
        return "\n".join(rows)


@dataclass(frozen=True, slots=True)
class Rejection:
    """What the owner does not want to be asked again: an effect on lines, of which the hashes of their texts are kept."""

    effect: Effect
    lines: tuple[str, ...]

    @classmethod
    def of(cls, proposal: Proposal) -> Rejection:
        """Reject a proposal, in whatever words it comes again."""
        texts = (edit.line.text.strip() for edit in proposal.edits if edit.line is not None)
        return cls(
            proposal.effect,
            tuple(sorted(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16] for text in texts)),
        )

    def concerns(self, proposal: Proposal) -> bool:
        """Whether a proposal does the same to these lines, alone or among others."""
        other = Rejection.of(proposal)
        return self.effect == other.effect and Counter(self.lines) <= Counter(other.lines)


def shown_lines(sources: NoteSources, trusted: Trusted, *, most_chars: int) -> tuple[list[ShownLine], int]:
    """Return the lines of the owner's own notes that a model may be shown, and how many notes did not fit.

    MEMORY.md comes first, then the newest daily notes. Left out are notes of groups and guests, files outside of the workspace, lines that
    ``trusted`` does not return, and notes that are not plain UTF-8, which would not be written back as they are.
    """
    paths = [one.path for one in sources.walk() if not one.trouble and _is_own(one.path)]
    long_term = [path for path in paths if path in LONG_TERM]
    rest = sorted((path for path in paths if path not in LONG_TERM), reverse=True)
    found: list[ShownLine] = []
    used = left_out = 0
    for path in (*long_term, *rest):
        lines = _lines_of(sources, path, trusted)
        size = _size(lines)
        if used + size > most_chars:
            left_out += 1
            continue
        used += size
        found += lines
    return found, left_out


def notes_left_out(sources: NoteSources) -> dict[str, str]:
    """Return the owner's own notes of which no line can be shown, with the reason and what mends it."""
    found: dict[str, str] = {}
    for one in sources.walk():
        if not _is_own(one.path):
            continue
        try:
            if one.trouble:
                found[one.path] = one.trouble
            elif reason := not_plain(read_note(sources, one.path)):
                found[one.path] = reason
        except MemoryUnreadable as error:
            found[one.path] = str(error)
    return found


def why_without_promotions(sources: NoteSources, unread: Mapping[str, str], trusted: Trusted, *, most_chars: int) -> str:
    """Return why nothing can be proposed for MEMORY.md, which the model was not shown; "" if it was, or if there is none yet.

    ``unread`` are the ``notes_left_out``.
    """
    for path in LONG_TERM:
        if path in unread:
            return f"{path}: {unread[path].removeprefix(f'{path} ')}"
        if _size(_lines_of(sources, path, trusted)) > most_chars:
            return f"{path}: it is too long to be shown"
    return ""


def not_plain(content: NoteContent) -> str:
    """Return why a note must not be changed here: its bytes are not those of its text as UTF-8. "" if they are."""
    return "" if _is_plain(content) else "it is not plain UTF-8; save it as UTF-8 without a byte order mark"


def _size(lines: Iterable[ShownLine]) -> int:
    return sum(len(line.name) + len(line.text) + 2 for line in lines)


def listed_in(answer: str) -> list[Any]:
    """Return the elements of the list in a model's answer; of one that was cut off, those that came before.

    Raises:
        MemoryTrouble: there is no list in it.
    """
    start, end = answer.find("["), answer.rfind("]")
    try:
        raw = json.loads(answer[start : end + 1])
    except ValueError as error:
        whole = _before_the_cut(answer[start:]) if start >= 0 else []
        if not whole:
            raise MemoryTrouble("the model's answer is not a list of proposals", hint="homebody memory tidy --again") from error
        return whole
    return raw if isinstance(raw, list) else []


def _before_the_cut(cut: str) -> list[Any]:
    found, at, decoder = list[Any](), 1, json.JSONDecoder()
    while (at := cut.find("{", at)) >= 0:
        try:
            one, at = decoder.raw_decode(cut, at)
        except ValueError:
            break
        found.append(one)
    return found


def proposals_of(listed: Iterable[Any], shown: Iterable[ShownLine], *, promotions: bool = True) -> list[Proposal]:
    """Read what ``listed_in`` an answer; what is not well formed, or concerns a line that was not shown, is left out.

    Of two that change one line, or of which one changes a line that the other relies on, the first stands. Without ``promotions``,
    those are left out.
    """
    known = {line.name: line for line in shown}
    made: dict[str, Proposal] = {}
    taken, relied_on = set[str](), set[str]()
    for one in listed:
        proposal = _proposal(one, known) if isinstance(one, dict) else None
        if proposal is not None and proposal.kind == "promote" and not promotions:
            continue
        if proposal is None:
            continue
        changes = {edit.line.name for edit in proposal.edits if edit.line and not edit.stays}
        relies_on = {edit.line.name for edit in proposal.edits if edit.line and edit.stays}
        if not changes & (taken | relied_on) and not relies_on & taken:
            made[proposal.id] = proposal
            taken |= changes
            relied_on |= relies_on
    return list(made.values())


def applied(proposal: Proposal, texts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the new text of each note that a proposal changes. ``texts`` are the present ones, None where there is no note.

    Raises:
        MemoryTrouble: a line was changed meanwhile; nothing is to be written then.
    """
    changed: dict[str, str] = {}
    for path in dict.fromkeys(edit.path for edit in proposal.edits):
        text = texts.get(path)
        rows = (text or "").split("\n")
        edits = [edit for edit in proposal.edits if edit.path == path]
        places = {_place(edit.line, rows): edit for edit in edits if edit.line is not None}
        if len(places) < sum(edit.line is not None for edit in edits):
            raise MemoryTrouble(f"lines of {path} are gone, so this is not applied", hint="homebody memory tidy --again")
        for number, edit in sorted(places.items(), reverse=True):
            end = "\r" * rows[number].endswith("\r")
            rows[number : number + 1] = [] if edit.new is None else [edit.new + end]
        new = "\n".join(rows)
        for edit in edits:
            if edit.line is None and edit.new is not None:
                new = _with_line(new if text is not None else _TITLE, edit.new)
        if new != text:
            changed[path] = new
    return changed


def as_json(proposals: Sequence[Proposal]) -> list[dict[str, Any]]:
    """Return proposals as JSON values."""
    return [asdict(one) for one in proposals]


def from_json(raw: Iterable[dict[str, Any]]) -> list[Proposal]:
    """Read what ``as_json`` made."""
    return [
        Proposal(
            kind=one["kind"],
            why=one["why"],
            edits=tuple(
                Edit(edit["path"], ShownLine(**edit["line"]) if edit["line"] else None, edit["new"]) for edit in one["edits"]
            ),
        )
        for one in raw
    ]


def _missing(said: str, present: str) -> tuple[str, ...]:
    """Return the numbers and names of a text that another one does not have, as they are written."""
    words = {folded(word.casefold()) for word in _WORD.findall(present)}
    numbers = {_digits(number) for number in _NUMBER.findall(present)}
    found = [number for number in _NUMBER.findall(said) if _digits(number) not in numbers]
    named = (one for one in _CAPITALIZED.finditer(said) if one[0][0].isupper() and not _begins(said, one.start()))
    found += [one[0] for one in named if folded(one[0].casefold()) not in words]
    return tuple(dict.fromkeys(found))


def _digits(number: str) -> str:
    return "".join(character for character in number if character.isdecimal())


def _begins(text: str, place: int) -> bool:
    """Return whether a sentence or an item begins there, where any word has a capital."""
    before = text[:place].rstrip(" \t*_\"'(")
    return not before or (before[-1] in "\n-.!?:" and not _TITLE_OF_NAME.search(before))


def _is_own(path: str) -> bool:
    return not audience_of(path) and (path in LONG_TERM or path.startswith(f"{FOLDER}/"))


def _is_plain(content: NoteContent) -> bool:
    """Whether a note's text would be written back byte for byte."""
    return hashlib.sha256(content.text.encode("utf-8", "surrogatepass")).digest() == content.digest


def _lines_of(sources: NoteSources, path: str, trusted: Trusted) -> list[ShownLine]:
    try:
        content = read_note(sources, path)
    except MemoryUnreadable:
        return []
    if not _is_plain(content):
        return []
    rows = [row.removesuffix("\r") for row in content.text.split("\n")]
    beside, own = [_EDGE, *rows, _EDGE], trusted(path, content.text)
    return [
        ShownLine(path, number, row, beside[number - 1], beside[number + 1])
        for number, row in enumerate(rows, 1)
        if row.strip() and not row.lstrip().startswith("#") and len(row) <= LONGEST_LINE and row in own
    ]


def _proposal(raw: dict[str, Any], known: Mapping[str, ShownLine]) -> Proposal | None:
    kind = next((one for one in _KINDS if one == raw.get("kind")), None)
    names, text = raw.get("lines"), raw.get("text") or ""
    if kind is None or not isinstance(names, list) or not isinstance(text, str):
        return None
    lines = [known[name] for name in dict.fromkeys(map(str, names)) if name in known]
    text = text.strip()
    if not lines or len(lines) != len(set(map(str, names))) or len(lines) > _MOST_LINES or not _is_line(text):
        return None
    why = " ".join(str(raw.get("why") or "").split())[:LONGEST_LINE]
    edits = _edits(kind, lines, text)
    return Proposal(kind=kind, why=why, edits=tuple(edits)) if edits else None


def _edits(kind: Kind, lines: Sequence[ShownLine], text: str) -> list[Edit]:
    """Return the edits: a promotion adds to MEMORY.md and relies on the lines of daily notes, the others change or rely on each line."""
    if kind == "promote":
        daily = all(line.path not in LONG_TERM for line in lines)
        return (
            [*(Edit(line.path, line, line.text) for line in lines), Edit(_TARGET, None, _as_item(text))]
            if text and daily
            else []
        )
    if kind != "stale" and (len(lines) < 2 or not text):  # noqa: PLR2004 - there is nothing to merge
        return []
    candidates = [line for line in lines if line.path in LONG_TERM] or lines
    kept = next((line for line in candidates if line.text.strip() in {text, _as_item(text)}), candidates[0])
    indent = kept.text[: len(kept.text) - len(kept.text.lstrip())]
    edits = [Edit(line.path, line, None) for line in lines if line is not kept or not text]
    new = indent + (_as_item(text) if kept.text.lstrip().startswith(("- ", "* ")) else text)
    if text:
        edits.insert(0, Edit(kept.path, kept, new))
    return edits if any(not edit.stays for edit in edits) else []


def _as_item(text: str) -> str:
    return text if text.startswith(("- ", "* ")) else f"- {text}"


def _is_line(text: str) -> bool:
    return len(text) <= LONGEST_LINE and text.isprintable() and not text.startswith("#")


def _with_line(text: str, line: str) -> str:
    """Return a text with a line at its end, which ends as the last one before it does that has an end."""
    ended = text.split("\n")[:-1]
    end = "\r\n" if ended and ended[-1].endswith("\r") else "\n"
    return f"{text}{'' if not text or text.endswith(chr(10)) else end}{line}{end}"


def _place(line: ShownLine, rows: Sequence[str]) -> int:
    """Return where a line is now, which may be elsewhere after other changes.

    Raises:
        MemoryTrouble: it was changed or removed, or it cannot be told from others like it.
    """
    plain = [row.removesuffix("\r") for row in rows]
    found = [number for number, row in enumerate(plain) if row == line.text]
    beside = [_EDGE, *plain, _EDGE]
    exact = [number for number in found if (beside[number], beside[number + 2]) == (line.before, line.after)]
    chosen = found if len(found) == 1 else [line.number - 1] if line.number - 1 in exact else exact
    if len(chosen) != 1:
        reason = "was changed meanwhile" if not found else "occurs several times, and what stands beside it has changed"
        raise MemoryTrouble(f"{line.name} {reason}, so this is not applied", hint="homebody memory tidy --again")
    return chosen[0]
