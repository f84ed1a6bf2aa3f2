"""An opened document, and the part of it that one answer shows. Runs in the parser's process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

MAX_LINE: Final = 1000
"""Longer lines are wrapped, so that any line fits into any answer."""
MOST_CONTENTS: Final = 200
"""Entries of a table of contents that are shown."""
CONTENTS_SHARE: Final = 4
"""It takes at most this part of an answer: a quarter."""
MAX_TITLE: Final = 120


class OutOfTime(Exception):
    """The CPU time of the process is used up."""


class Unreadable(Exception):
    """A document cannot be read. The message goes behind the words "it is"."""


@dataclass(kw_only=True)
class Document:
    """A document in parts, of which the first is 1. ``unit`` says what a part is, such as "page"; "" where there is one part only.

    ``text`` returns one part and may be slow; ``contents`` lists titles with their parts; ``notes`` say what was left out.
    """

    count: int
    text: Callable[[int], str]
    unit: str = ""
    contents: list[tuple[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def excerpt(document: Document, *, page: int, offset: int, limit: int | None, room: int) -> dict[str, Any]:
    """Return whole lines from line ``offset`` of part ``page`` on, at most ``limit`` and within ``room`` characters.

    The answer has ``text``, ``first`` and ``last`` (part and line), ``lines`` (how many the last part has), ``next`` (where to go on, or
    None), ``count``, ``unit``, and ``contents`` at the beginning of the document. A part that takes too long ends the excerpt before it.
    """
    if page > document.count:
        raise Unreadable(f"shorter: it has {document.count} {document.unit or 'part'}{'' if document.count == 1 else 's'}")
    contents = _contents(document, room // CONTENTS_SHARE) if page == 1 and offset == 1 else []
    room -= sum(len(line) + 1 for line in contents)
    shown: list[str] = []
    at, line, lines = page, offset, 0
    last = (page, offset - 1)
    left = limit
    while at <= document.count:
        try:
            found = _lines(document, at)
        except (OutOfTime, MemoryError):
            if not shown:
                raise
            break
        lines = len(found)
        if at == page and offset > max(1, lines):
            raise Unreadable(f"shorter: {document.unit + ' ' + str(at) if document.unit else 'it'} has {lines} lines")
        head = [f"[{document.unit} {at} of {document.count}]"] if document.unit else []
        taken = _fitting([*head, *found[line - 1 :]], room, None if left is None else left + len(head))
        whole = len(taken) == len(head) + len(found) - line + 1
        if (shown and not whole and left is None) or (len(taken) <= len(head) and found[line - 1 :]):
            break  # another answer begins with it
        shown += taken
        room -= sum(len(one) + 1 for one in taken)
        line += len(taken) - len(head)
        left = None if left is None else left - (len(taken) - len(head))
        last = (at, line - 1)
        if line <= lines:
            break
        at, line = at + 1, 1
        if left == 0:
            break
    following = (at, line) if at <= document.count else None
    return {
        "text": "\n".join(shown),
        "contents": "\n".join(contents),
        "first": [page, offset],
        "last": list(last),
        "lines": lines,
        "next": following and list(following),
        "count": document.count,
        "unit": document.unit,
        "notes": document.notes,
    }


def _lines(document: Document, part: int) -> list[str]:
    text = document.text(part).strip("\n")
    return [piece for line in text.split("\n") for piece in wrapped(line)] if text else []


def _fitting(lines: list[str], room: int, limit: int | None) -> list[str]:
    taken: list[str] = []
    for line in lines if limit is None else lines[:limit]:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    return taken


def wrapped(line: str) -> list[str]:
    """Cut a line at spaces into pieces of at most ``MAX_LINE`` characters; joined by a space or nothing they are the line again."""
    pieces = []
    while len(line) > MAX_LINE:
        cut = line.rfind(" ", MAX_LINE // 2, MAX_LINE)
        end = MAX_LINE if cut < 0 else cut
        pieces.append(line[:end])
        line = line[end:] if cut < 0 else line[end + 1 :]
    return [*pieces, line]


def _contents(document: Document, room: int) -> list[str]:
    if not document.contents:
        return []
    lines = [f"- {' '.join(title.split())[:MAX_TITLE]} ({document.unit} {part})" for title, part in document.contents]
    taken = _fitting(["[contents]", *lines], room - 60, MOST_CONTENTS)
    more = len(lines) + 1 - len(taken)
    return [*taken, *([f"[{more} more entries]"] if more else [])]
