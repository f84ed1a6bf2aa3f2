"""Takes somebody's words out of transcripts, for good: the one exception to their being append-only, at its speaker's and owner's will."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from agent.messages import Text, UserMessage
from agent.taint import source
from agent.transcript.entries import Entry, InvalidEntry, Said, decode, encode, with_body_values
from agent.transcript.stored_transcript import StoredTranscript

REMOVED: Final = "[removed at the wish of who said it]"
_LONG_ENOUGH: Final = 12
"""Characters from which a line counts as somebody's own words wherever it is repeated; a shorter one, such as “yes”, is said by many."""
_FREE: Final = frozenset({"text", "notes", "pins", "summary", "thinking", "arguments"})
"""Fields of entries that hold text."""
_NAMES: Final = frozenset({"label", "sender", "taint"})
"""Fields of entries that hold names that the model chose."""
NAMELESS: Final = "removed"
_SHORTEST_FORM: Final = 4
"""Characters of another form of the words, in which it is looked for: a shorter one is within too many other words."""
_HEADING: Final = re.compile(r"(#{2,6})\s")
"""A heading of a part, which goes with the last line below it; that of the whole note stays."""
_BEFORE: Final = "[Said in this group before, not to you]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Whose words are taken out: the platform's id of a person, as the head of a message shows it, and their name for lines of context."""

    channel: str
    id: str
    name: str

    def said(self, message: UserMessage) -> bool:
        """Return whether a message is theirs."""
        return f" {self.channel}:{self.id}, " in message.sender


@dataclass(frozen=True, slots=True)
class Words:
    """What is taken out: every message of a speaker, or with ``phrase`` what holds that; and the ``labels`` of sub-agents that name it."""

    speaker: Speaker
    phrase: str = ""
    labels: tuple[str, ...] = ()

    @property
    def names(self) -> re.Pattern[str] | None:
        """What is taken out of labels and names of sources."""
        return _any_of(self.forms) if self.forms else None

    @property
    def forms(self) -> set[str]:
        """The words and labels as they are, and as they are within names of sources, where blanks and signs are replaced."""
        given = {one for one in (self.phrase, *self.labels) if one}
        others = {source("", one).removeprefix(":").rstrip("…") for one in given if re.search(r"\w", one)}
        return given | {one for one in others if len(one) >= _SHORTEST_FORM}

    def holding(self, lines: Sequence[str]) -> Callable[[str], bool]:
        """Return what says whether a text holds the words, or one of the speaker's ``lines``, or a line of context that is theirs."""
        pattern, prefix = _pattern(lines, self), f"{self.speaker.name}: "

        def holds(text: str) -> bool:
            if pattern is not None and pattern.search(text):
                return True
            return bool(self.speaker.name) and any(
                line.startswith(prefix) and self.takes(line.removeprefix(prefix)) for line in text.splitlines()
            )

        return holds

    def without_names(self, name: str) -> str:
        """Return a label or the name of a source without the words."""
        pattern = self.names
        return name if pattern is None else pattern.sub(NAMELESS, name)

    def takes(self, text: str) -> bool:
        """Return whether a text of the speaker is taken out."""
        return not self.phrase or self.phrase.casefold() in text.casefold()


def own_lines(transcripts: Sequence[StoredTranscript], words: Words) -> list[str]:
    """Return the lines that the speaker wrote in these transcripts and that are taken out, to find repetitions. Raises OSError."""
    found: dict[str, None] = {}
    for stored in transcripts:
        for entry in _entries(stored):
            if isinstance(entry.body, Said) and isinstance(entry.body.message, UserMessage):
                found |= dict.fromkeys(_lines_of(entry.body.message, words))
    return list(found)


def take_out(stored: StoredTranscript, words: Words, lines: Sequence[str]) -> int:
    """Rewrite one transcript without the words, and return how many messages of the speaker were emptied. Raises OSError.

    ``lines`` are the speaker's own (``own_lines``): wherever else one is repeated, it is taken out as well. The session must not be open.
    """
    pattern = _pattern(lines, words)
    emptied, fresh, changed = 0, [], False
    for line in _lines(stored):
        try:
            entry = decode(line)
        except InvalidEntry:
            fresh.append(line + b"\n")
            continue
        new, own = _without(entry, words, pattern)
        emptied += own
        changed = changed or new is not entry
        fresh.append(line + b"\n" if new is entry else encode(new))
    if changed:
        stored.replace(b"".join(fresh))
    return emptied


def empty(stored: StoredTranscript) -> None:
    """Rewrite one transcript to its beginning alone. Raises OSError. The session must not be open."""
    lines = _lines(stored)
    if len(lines) > 1:
        stored.replace(lines[0] + b"\n")


def without_lines(text: str, words: Words, lines: Sequence[str]) -> tuple[str, int]:
    """Return a note without the lines that hold the words, or that name the speaker where everything is taken out; and how many went.

    A heading below which nothing is left goes with them.
    """
    pattern = _pattern(lines, words)
    name = words.speaker.name.strip()
    named = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE) if name and not words.phrase else None
    kept: list[str] = []
    gone = since = 0
    emptied: int | None = None
    """Where the last heading is, if nothing but blank lines is kept below it."""
    for line in [*text.splitlines(keepends=True), ""]:
        heading = _HEADING.match(line)
        taken = (pattern is not None and pattern.search(line) is not None) or (
            named is not None and named.search(line) is not None
        )
        if taken and not line.lstrip().startswith("#"):
            gone += 1
            continue
        if emptied is not None and gone > since and (not line or (heading and len(heading[1]) <= _depth(kept[emptied]))):
            del kept[emptied:]
        if heading:
            emptied, since = len(kept), gone
        elif line.strip():
            emptied = None
        kept.append(line)
    return "".join(kept), gone


def _depth(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))


def _without(entry: Entry, words: Words, pattern: re.Pattern[str] | None) -> tuple[Entry, bool]:
    """Return an entry without the words, the same one if it has none; and whether it was a message of the speaker."""
    body = entry.body
    message = body.message if isinstance(body, Said) else None
    if isinstance(message, UserMessage) and words.speaker.said(message) and words.takes(_own(message.text)):
        taint = tuple(words.without_names(one) for one in message.taint)
        if message.text == REMOVED and taint == message.taint:
            return entry, False
        fresh = replace(message, content=(Text(text=REMOVED),), taint=taint)
        return replace(entry, body=Said(message=fresh)), message.text != REMOVED
    values, changed = _scrubbed(json.loads(encode(entry))["body"], words, pattern)
    return (replace(entry, body=with_body_values(values)), False) if changed else (entry, False)


def _scrubbed(value: Any, words: Words, pattern: re.Pattern[str] | None, *, free: bool = False) -> tuple[Any, bool]:
    """Return JSON values without the words, and whether anything changed. A changed thought is left out: it is signed as it was.

    ``free``: it is text, and no name or mark of the format.
    """
    match value:
        case str():
            new = _scrub(value, words, pattern) if free else value
            return new, new != value
        case list():
            parts = [(_scrubbed(one, words, pattern, free=free), one) for one in value]
            kept = [
                new
                for (new, changed), one in parts
                if not (changed and isinstance(one, dict) and one.get("type") == "thinking")
            ]
            return kept, any(changed for (_, changed), _ in parts)
        case dict():
            found = {
                key: _renamed(one, words)
                if key in _NAMES and not free
                else _scrubbed(one, words, pattern, free=free or key in _FREE)
                for key, one in value.items()
            }
            return {key: new for key, (new, _) in found.items()}, any(changed for _, changed in found.values())
        case _:
            return value, False


def _renamed(value: Any, words: Words) -> tuple[Any, bool]:
    """Return a name, or several, without the words. The head of a person's message stays: it tells whose it is."""
    if isinstance(value, list):
        new: Any = [words.without_names(one) if isinstance(one, str) else one for one in value]
    elif isinstance(value, str) and f" {words.speaker.channel}:" not in value:
        new = words.without_names(value)
    else:
        return value, False
    return new, new != value


def _scrub(text: str, words: Words, pattern: re.Pattern[str] | None) -> str:
    if pattern is not None:
        text = REMOVED.join(pattern.sub(REMOVED, part) for part in text.split(REMOVED))
    prefix = f"{words.speaker.name}: "
    if not words.speaker.name or prefix not in text or _BEFORE not in text:
        return text
    lines = text.split("\n")
    return "\n".join(
        f"{prefix}{REMOVED}" if line.startswith(prefix) and words.takes(line.removeprefix(prefix)) else line for line in lines
    )


def _pattern(lines: Sequence[str], words: Words) -> re.Pattern[str] | None:
    wanted = words.forms | {line for line in lines if len(line) >= _LONG_ENOUGH}
    return _any_of(wanted) if wanted else None


def _any_of(wanted: Collection[str]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(one) for one in sorted(wanted, key=len, reverse=True)), re.IGNORECASE)


def _lines_of(message: UserMessage, words: Words) -> Iterator[str]:
    """Yield the lines of a message that are its speaker's own, or lines of context that are."""
    if words.speaker.said(message) and words.takes(_own(message.text)):
        yield from (line.strip() for line in _own(message.text).splitlines() if line.strip() and line.strip() != REMOVED)
    elif _BEFORE in message.text and words.speaker.name:
        prefix = f"{words.speaker.name}: "
        for line in message.text.splitlines():
            if line.startswith(prefix) and words.takes(line.removeprefix(prefix)):
                yield line.removeprefix(prefix).strip()


def _own(text: str) -> str:
    """Return a message's own text, without what is told before it."""
    return text.rpartition("[The message]\n")[2]


def _entries(stored: StoredTranscript) -> Iterator[Entry]:
    for line in _lines(stored):
        try:
            yield decode(line)
        except InvalidEntry:
            continue


def _lines(stored: StoredTranscript) -> list[bytes]:
    return [line[:-1] for line in stored.lines() if line.endswith(b"\n")]
