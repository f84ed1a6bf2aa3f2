"""What kind of document a file is, by its content; and whether what reads it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import PurePath
from typing import Final, Literal

from agent.tools.read_file import is_binary
from gateway.base.installation import how_to_add

Kind = Literal["pdf", "docx", "xlsx", "pptx", "epub", "html", "text"]

LIBRARIES: Final[dict[str, tuple[str, ...]]] = {
    "pdf": ("pypdf",),
    "docx": ("mammoth", "justhtml"),
    "xlsx": ("openpyxl",),
    "pptx": ("pptx",),
    "epub": ("justhtml",),
    "html": ("justhtml",),
    "text": (),
}
"""Packages that read a kind."""
NAMES: Final[dict[str, str]] = {
    "pdf": "PDF",
    "docx": "Word",
    "xlsx": "Excel",
    "pptx": "PowerPoint",
    "epub": "EPUB",
    "html": "web page",
    "text": "text",
}
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of a compound file: Office files before 2007, and encrypted ones of any age."""
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_PARTS: Final[tuple[tuple[bytes, Kind], ...]] = (
    (b"word/document", "docx"),
    (b"xl/workbook", "xlsx"),
    (b"ppt/presentation", "pptx"),
)
"""The names of main parts, which stand in a ZIP file as they are. The list of its entries is at its end."""
_EPUB: Final = b"mimetypeapplication/epub+zip"
_PAGES: Final = frozenset({".html", ".htm", ".xhtml"})
_PDF_WITHIN: Final = 1024
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b")
"""No text has them, in whatever encoding."""
_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")


def kind_of(data: bytes, name: str, *, received: bool) -> Kind | None:
    """Return the kind of a document; None for everything that is read as it is, or not at all.

    ``received``: it came from outside. Web pages of the agent's own are read as they are, so that they can be edited.
    """
    if b"%PDF-" in data[:_PDF_WITHIN]:
        return "pdf"
    if data.startswith(_ZIP):
        if _EPUB in data[:200]:
            return "epub"
        return next((kind for mark, kind in _PARTS if mark in data and b"[Content_Types].xml" in data), None)
    if received and PurePath(name).suffix.lower() in _PAGES and not is_binary(data):
        return "html"
    return "text" if is_old_text(data) else None


def is_old_text(data: bytes) -> bool:
    """Return whether this is text, but not UTF-8: UTF-16 with its mark, or an encoding of one byte for each letter."""
    if data.startswith(_BOMS):
        return True
    if b"\0" in data[:8192]:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        controls = sum(byte in _CONTROLS for byte in data[:8192])
        return controls == 0
    return False


def refusal_of(data: bytes) -> str:
    """Return why a file of an office program cannot be read, and what mends it, behind the words "it is"; "" for any other file."""
    if not data.startswith(_OLE):
        return ""
    if _ENCRYPTED in data:
        return "locked with a password: ask for it without one"
    return "in the format of Office before 2007: ask for it as .docx, .xlsx, .pptx or PDF"


def missing_for(kind: Kind) -> str:
    """Return the command that installs what reads a kind, where it is missing; "" where all is there."""
    there = all(importlib.util.find_spec(name) is not None for name in LIBRARIES[kind])
    return "" if there else how_to_add("documents")
