"""PDF files, page by page. Runs in the parser's process.

Text that a page holds but does not paint is left out: render modes 3 and 7 of the operator ``Tr``, and white on white. A page all of whose
text is unpainted is a scan whose text a program recognised, and is read.
"""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass
from typing import Any, Final

from gateway.documents.excerpt import MOST_CONTENTS, Document, OutOfTime, Unreadable

_UNPAINTED: Final = frozenset({3, 7})
UNPAINTED: Final = "text that is on a page but not painted was left out"
WHITE: Final = "white text on white was left out"
ON_COLOUR: Final = "some text is white, on something painted before it: people may not see it"
SCAN: Final = (
    "[no text on this page: it is a picture, probably a scan, and letters in pictures are not read. Ask for a version with recognised text "
    "(OCR), or for a photo of the page.]"
)
_FILLS: Final = frozenset({b"g", b"rg", b"k", b"sc", b"scn"})
_PAINTS: Final = frozenset({b"f", b"F", b"f*", b"B", b"B*", b"b", b"b*", b"Do", b"sh", b"BI", b"INLINE IMAGE"})
_UNKNOWN: Final = frozenset({b"Do", b"sh", b"BI", b"INLINE IMAGE"})
"""Steps that paint in colours of their own."""
_NEARLY: Final = 0.97
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
        except library.errors.LimitReachedError:
            return "[this page is not read: a part of it expands too far, as a ZIP bomb does]"
        except Exception:  # noqa: BLE001 (a damaged page fails in whatever way it likes; the others are read)
            return "[this page cannot be read: it is damaged]"

    return Document(count=count, unit="page", text=text, contents=_outline(reader), notes=notes)


def _page(library: Any, reader: Any, index: int, notes: list[str]) -> str:
    page = reader.pages[index]
    content = page.get_contents()
    if content is None:
        return "[no text on this page]"
    left_out: list[str] = []
    if len(content.operations) <= MAX_OPERATIONS:
        found = _sorted(content.operations)
        if (found.unpainted and _shows(found.kept)) or found.white:
            scanned = found.unpainted and not _shows(found.kept)
            content.operations = found.scanned if scanned else found.kept
            page[library.generic.NameObject("/Contents")] = content
            left_out += [UNPAINTED] if found.unpainted and not scanned else []
            left_out += [WHITE] if found.white else []
        left_out += [ON_COLOUR] if found.on_colour else []
    text = str(page.extract_text()).strip()
    notes += [note for note in left_out if note not in notes]
    return text or (SCAN if _has_pictures(page) else "[no text on this page]")


@dataclass
class _Sorted:
    """The steps of a page without those that write what nobody sees, and ``scanned`` with those that are unpainted alone.

    And how many were unpainted, white on white, and white on a colour.
    """

    kept: list[Any]
    scanned: list[Any]
    unpainted: int = 0
    white: int = 0
    on_colour: int = 0


def _sorted(operations: Any) -> _Sorted:
    """Sort the steps of a page. White text is on white as long as nothing but white was painted before it."""
    found, saved = _Sorted([], []), list[tuple[int, bool]]()
    mode, white, coloured = 0, False, False
    for operands, operator in operations:
        if operator == b"Tr" and operands:
            mode = int(operands[0])
        elif operator in _FILLS:
            white = _is_white(operands)
        elif operator == b"q":
            saved.append((mode, white))
        elif operator == b"Q" and saved:
            mode, white = saved.pop()
        elif operator in _PAINTS:
            coloured = coloured or not white or operator in _UNKNOWN
        if operator in _SHOWS and mode in _UNPAINTED:
            found.unpainted += 1
            found.scanned.append((operands, operator))
            continue
        if operator in _SHOWS and white and not coloured:
            found.white += 1
            continue
        found.on_colour += operator in _SHOWS and white
        found.kept.append((operands, operator))
        found.scanned.append((operands, operator))
    return found


def _is_white(operands: Any) -> bool:
    """Return whether the operands of a colour are white: of one (grey), three (red, green, blue) or four inks."""
    try:
        values = [float(one) for one in operands]
    except (TypeError, ValueError):  # a pattern
        return False
    if len(values) == 4:  # noqa: PLR2004 -- cyan, magenta, yellow, black
        return max(values) <= 1 - _NEARLY
    return bool(values) and min(values) >= _NEARLY


def _has_pictures(page: Any) -> bool:
    """Return whether there are pictures among what a page draws."""
    try:
        drawn = page["/Resources"].get_object()["/XObject"].get_object()
        return any(one.get_object().get("/Subtype") == "/Image" for one in drawn.values())
    except (KeyError, AttributeError, TypeError):
        return False


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
