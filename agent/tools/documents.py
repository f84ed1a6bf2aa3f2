"""What the tool ``read`` needs to read documents such as PDF and Word files, and how it tells what it read."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from agent.errors import WorkspaceFileError

MAX_BYTES: Final = 50_000_000
"""Largest document that is read, in bytes."""
MARK_CHARS: Final = 400
"""Characters kept free for what is said around the text."""


class DocumentRefused(WorkspaceFileError):
    """A document cannot be read. The message goes behind the words "it is"."""


class DocumentWish(Struct, frozen=True, kw_only=True):
    """Which part of a document to read: whole lines from line ``offset`` of part ``page`` on, at most ``limit`` of them.

    They have at most ``room`` characters. ``kind`` is what ``DocumentReader.kind`` returned.
    """

    kind: str
    page: int
    offset: int
    limit: int | None
    room: int


class DocumentPart(Struct, frozen=True, kw_only=True):
    """A part of a document. ``unit`` says what its parts are ("page", "slide", "sheet", "chapter"), "" where it has one only.

    ``first``, ``last`` and ``following`` (where to go on, or None) are a part and a line, both from 1; ``lines`` is how many lines the last
    part has. ``notes`` say what was left out, each a sentence without its full stop. ``confined_by`` names what the kernel confined the
    reading process with.
    """

    kind: str
    text: str
    contents: str
    unit: str
    count: int
    first: tuple[int, int]
    last: tuple[int, int]
    lines: int
    following: tuple[int, int] | None
    notes: tuple[str, ...] = ()
    confined_by: tuple[str, ...] = ()


class DocumentReader(Protocol):
    """Reads documents."""

    def kind(self, data: bytes, name: str, *, received: bool) -> str | None:
        """Return what kind of document this is; None where it is none. ``received``: it came from outside.

        Raises:
            DocumentRefused: it is one that is never read.
        """
        ...

    async def read(self, data: bytes, wish: DocumentWish) -> DocumentPart:
        """Read a part.

        Raises:
            DocumentRefused: it is damaged, locked, too much to read, or what reads it is not installed.
        """
        ...


def part_text(part: DocumentPart) -> str:
    """Return a part as the model is told of it: what was left out, the table of contents, the text, and how to go on."""
    many = f", {part.count} {part.unit}{'s' if part.count > 1 else ''}" if part.unit else ""
    head = f"[{part.kind}{many}{''.join(f'; {note}' for note in part.notes)}]" if many or part.notes else ""
    return "\n".join(filter(None, (head, part.contents, part.text or "[no text]", _how_to_go_on(part))))


def _how_to_go_on(part: DocumentPart) -> str:
    if part.following is None:
        return ""
    page, line = part.following
    if not part.unit:
        return f"[lines {part.first[1]}-{part.last[1]} of {part.lines}; go on with offset {line}]"
    place = f"page {page}" if line == 1 else f"page {page} and offset {line}"
    shown = f"{part.unit} {part.first[0]}" if part.first[0] == part.last[0] else f"{part.unit}s {part.first[0]}-{part.last[0]}"
    return f"[{shown} of {part.count}; go on with {place}]"
