"""The XML of WebDAV: reads answers without entities and within limits, and writes the few requests that are made.

The parser is expat of the standard library. A document type is refused as soon as it begins, so that no entity is ever declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.parsers import expat  # DOCTYPE is refused below, and with it every entity
from xml.sax.saxutils import escape

DAV: Final = "DAV:"
CAL: Final = "urn:ietf:params:xml:ns:caldav"
CARD: Final = "urn:ietf:params:xml:ns:carddav"
MAX_DEPTH: Final = 40
MAX_ELEMENTS: Final = 400_000
_PREFIXES: Final = {"D": DAV, "C": CAL, "A": CARD}
_BLOCK: Final = 1 << 16


class InvalidXml(ValueError):
    """What a server sent is no XML that is read. The message continues after "what it sent"."""


@dataclass(slots=True)
class Node:
    """An element. ``tag`` is namespace and name with a blank between; ``text`` is all text directly in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[Node] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Node]:
        """Yield the direct children with a tag."""
        return (child for child in self.children if child.tag == tag)

    def first(self, *path: str) -> Node | None:
        """Return the first element below, one tag for each level; None if there is none."""
        found: Node | None = self
        for tag in path:
            found = next(found.all(tag), None) if found is not None else None
        return found

    def text_of(self, *path: str) -> str:
        """Return the text of the first element below, without blanks around it; "" if there is none."""
        found = self.first(*path)
        return found.text.strip() if found is not None else ""


def dav(name: str) -> str:
    """Return the tag of an element of WebDAV."""
    return f"{DAV} {name}"


class _Builder:
    def __init__(self) -> None:
        self.root = Node("")
        self._open = [self.root]
        self._texts: list[list[str]] = [[]]
        self._count = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) > MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise InvalidXml("is nested too deeply or has too many elements")
        node = Node(tag, attributes)
        self._open[-1].children.append(node)
        self._open.append(node)
        self._texts.append([])

    def end(self, _tag: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def characters(self, text: str) -> None:
        self._texts[-1].append(text)

    @staticmethod
    def doctype(*_: object) -> None:
        raise InvalidXml("declares a document type, which is refused, as entities could be in it")


def read_xml(body: bytes) -> Node:
    """Return the root element. Takes a while with a large body: call it in a thread.

    Raises:
        InvalidXml: it is no well-formed XML, declares a document type, or is beyond the limits.
    """
    builder = _Builder()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        for start in range(0, len(body), _BLOCK):
            parser.Parse(body[start : start + _BLOCK], False)  # noqa: FBT003 -- expat takes it by position only
        parser.Parse(b"", True)  # noqa: FBT003 -- likewise
    except expat.ExpatError as error:
        raise InvalidXml(f"is no valid XML ({error})") from error
    except (ValueError, LookupError) as error:
        raise error if isinstance(error, InvalidXml) else InvalidXml(f"is no valid XML ({error})") from error
    return builder.root.children[0]


def propfind(*names: str) -> bytes:
    """Write a PROPFIND for properties, such as ``D:displayname`` and ``C:calendar-home-set``."""
    return _document("D:propfind", f"<D:prop>{''.join(f'<{name}/>' for name in names)}</D:prop>")


def calendar_query(start: str, end: str) -> bytes:
    """Write a REPORT for all events of a calendar between two instants, as ``20260301T000000Z``."""
    wanted = "<D:prop><D:getetag/><C:calendar-data/></D:prop>"
    inner = f'<C:comp-filter name="VEVENT"><C:time-range start="{escape(start)}" end="{escape(end)}"/></C:comp-filter>'
    return _document(
        "C:calendar-query", f'{wanted}<C:filter><C:comp-filter name="VCALENDAR">{inner}</C:comp-filter></C:filter>'
    )


def addressbook_query() -> bytes:
    """Write a REPORT for all cards of an address book."""
    return _document("A:addressbook-query", "<D:prop><D:getetag/><A:address-data/></D:prop>")


def _document(tag: str, inner: str) -> bytes:
    spaces = " ".join(f'xmlns:{prefix}="{space}"' for prefix, space in _PREFIXES.items())
    return f'<?xml version="1.0" encoding="utf-8"?>\n<{tag} {spaces}>{inner}</{tag}>'.encode()


@dataclass(frozen=True, slots=True)
class Response:
    """One resource of a multistatus answer: its address as sent, its status if it has one of its own, and properties that were found."""

    href: str
    status: int
    properties: Node

    def text_of(self, *path: str) -> str:
        """Return the text of a property."""
        return self.properties.text_of(*path)


def responses(root: Node) -> Sequence[Response]:
    """Return the resources of a multistatus answer. Raises InvalidXml where it is none."""
    if root.tag != dav("multistatus"):
        raise InvalidXml("is no multistatus answer of WebDAV")
    return [_response(one) for one in root.all(dav("response"))]


def _response(one: Node) -> Response:
    found = Node("")
    for stat in one.all(dav("propstat")):
        if _status(stat.text_of(dav("status"))) // 100 == 2 and (properties := stat.first(dav("prop"))) is not None:  # noqa: PLR2004
            found.children += properties.children
    return Response(one.text_of(dav("href")), _status(one.text_of(dav("status"))), found)


def _status(line: str) -> int:
    """Read a status line such as ``HTTP/1.1 200 OK``; 0 where there is none."""
    words = line.split(" ")
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() and len(words[1]) < 4 else 0  # noqa: PLR2004
