"""PDF files, page by page. Runs in the parser's process.

Text that a page holds but does not paint is left out: render modes 3 and 7 of the operator ``Tr``. A page all of whose text is unpainted is
a scan whose text a program recognised, and is read.
"""

from __future__ import annotations

import importlib
import io
from typing import Any, Final

from gateway.documents.excerpt import MOST_CONTENTS, Document, OutOfTime, Unreadable

_UNPAINTED: Final = frozenset({3, 7})
_SHOWS: Final = frozenset({b"Tj", b"TJ", b"'", b'"'})
MAX_OPERATIONS: Final = 300_000
"""Drawings of more steps are not searched for unpainted text."""


def document(data: bytes) -> Document:
    """Open a PDF file. Raises Unreadable for one that is locked; the library's own errors for a damaged one."""
    library = importlib.import_module("pypdf")
    reader = library.PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("locked with a password")
    count = len(reader.pages)
    if not count:
        raise Unreadable("without any page")
    notes: list[str] = []

    def text(number: int) -> str:
        try:
            return _page(library, reader, number - 1, notes)
        except (OutOfTime, MemoryError, RecursionError):
            raise
        except Exception as error:  # noqa: BLE001 (a damaged page fails in whatever way it likes; the others are read)
            return f"[this page cannot be read ({type(error).__name__})]"

    return Document(count=count, unit="page", text=text, contents=_outline(reader), notes=notes)


def _page(library: Any, reader: Any, index: int, notes: list[str]) -> str:
    page = reader.pages[index]
    content = page.get_contents()
    if content is None:
        return "[no text on this page]"
    hidden = False
    if len(content.operations) <= MAX_OPERATIONS:
        painted, unpainted = _sorted(content.operations)
        if unpainted and _shows(painted):
            content.operations = painted
            page[library.generic.NameObject("/Contents")] = content
            hidden = True
    text = str(page.extract_text()).strip()
    if hidden:
        note = "text that is on a page but not painted was left out"
        notes += [] if note in notes else [note]
    return text or "[no text on this page; it is probably a picture]"


def _sorted(operations: Any) -> tuple[list[Any], int]:
    """Return the steps of a page without those that write unpainted text, and how many those are."""
    mode, saved, kept, dropped = 0, [], [], 0
    for operands, operator in operations:
        if operator == b"Tr" and operands:
            mode = int(operands[0])
        elif operator == b"q":
            saved.append(mode)
        elif operator == b"Q" and saved:
            mode = saved.pop()
        if operator in _SHOWS and mode in _UNPAINTED:
            dropped += 1
            continue
        kept.append((operands, operator))
    return kept, dropped


def _shows(operations: list[Any]) -> bool:
    return any(operator in _SHOWS for _, operator in operations)


def _outline(reader: Any) -> list[tuple[str, int]]:
    """Return the bookmarks with their pages; none where they are broken."""
    found: list[tuple[str, int]] = []
    waiting = list(reversed(_listed(reader)))
    while waiting and len(found) <= MOST_CONTENTS:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += reversed(one)
            continue
        try:
            number = reader.get_destination_page_number(one)
        except Exception:  # noqa: BLE001, S112 (a bookmark that leads nowhere is left out)
            continue
        if number is not None and number >= 0:
            found.append((str(one.title), number + 1))
    return found


def _listed(reader: Any) -> list[Any]:
    try:
        return list(reader.outline)
    except (OutOfTime, MemoryError):
        raise
    except Exception:  # noqa: BLE001 (bookmarks are no reason not to read the pages)
        return []
