"""Office and EPUB files are ZIP files of XML: opened only where neither is a bomb."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from gateway.documents.excerpt import Unreadable

MAX_ENTRIES: Final = 10_000
MAX_EXPANDED: Final = 200_000_000
"""Bytes of all entries together. Spreadsheets of a million cells have about a fifth."""
MAX_RATIO: Final = 100
"""An entry that expands to more than this many times its size is a bomb, beyond ``FREE``."""
FREE: Final = 1_000_000
"""Bytes up to which an entry may expand as it likes: short and repetitive XML packs very well."""
MAX_XML: Final = 64_000_000
"""Bytes of one XML part that is parsed as a whole."""
_DECLARES: Final = re.compile(rb"<!(?:DOCTYPE|ENTITY)|<\x00!\x00[DE]\x00|\x00<\x00!\x00[DE]", re.IGNORECASE)
"""Office files declare no entities; only XML bombs and readers of other files do. Also in UTF-16."""
_BLOCK: Final = 1 << 16
_XML: Final = (".xml", ".rels", ".opf", ".ncx", ".vml")


def opened(data: bytes, *, declares: bool = False) -> zipfile.ZipFile:
    """Open a ZIP file after a look at all that it says and does. ``declares``: its XML may have document types, as EPUB does.

    Raises:
        Unreadable: it is damaged, a bomb, or encrypted.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise Unreadable("damaged: it is no whole ZIP file, as files of this kind are") from error
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise Unreadable(f"not read: it has {len(entries):,} entries, more than {MAX_ENTRIES:,}")
    if sum(entry.file_size for entry in entries) > MAX_EXPANDED:
        raise Unreadable(f"not read: it expands to more than {MAX_EXPANDED // 1_000_000} MB, as a ZIP bomb does")
    for entry in entries:
        if entry.flag_bits & 1:
            raise Unreadable("locked with a password")
        if entry.file_size > max(FREE, MAX_RATIO * entry.compress_size):
            raise Unreadable(f"not read: a part of it expands to more than {MAX_RATIO} times its size, as a ZIP bomb does")
    for entry in entries:
        if not declares and entry.filename.lower().endswith(_XML):
            _refuse_declarations(archive, entry)
    return archive


def _refuse_declarations(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    tail = b""
    with archive.open(entry) as part:
        while block := part.read(_BLOCK):
            if _DECLARES.search(tail + block):
                raise Unreadable("not read: its XML declares entities, as an XML bomb does")
            tail = block[-32:]


def xml_of(archive: zipfile.ZipFile, name: str) -> ET.Element | None:
    """Parse one part; None where there is none. Raises Unreadable for one that is too large, ParseError for one that is not XML."""
    try:
        entry = archive.getinfo(name)
    except KeyError:
        return None
    if entry.file_size > MAX_XML:
        raise Unreadable(f"not read: a part of it has {entry.file_size // 1_000_000} MB")
    return ET.fromstring(archive.read(entry))  # noqa: S314 (entities are refused above, and the process has limits)


def local(tag: str) -> str:
    """Return the name of an element without its namespace."""
    return tag.rpartition("}")[2]


def attribute(element: ET.Element, name: str) -> str | None:
    """Return an attribute, whatever its namespace."""
    return next((value for key, value in element.attrib.items() if local(key) == name), None)


def children(element: ET.Element, name: str) -> Iterator[ET.Element]:
    """Yield the direct children of a name, whatever their namespace."""
    return (child for child in element if local(child.tag) == name)


def child(element: ET.Element | None, *names: str) -> ET.Element | None:
    """Follow a path of names; None where it ends."""
    for name in names:
        element = None if element is None else next(children(element, name), None)
    return element
