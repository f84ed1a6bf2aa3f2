"""Word files as Markdown. Runs in the parser's process.

What Word does not show is left out: hidden text, text of one point or less, and white text on white. White text in a table is marked
instead, because tables may be coloured by their style.
"""

from __future__ import annotations

import importlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from gateway.documents.excerpt import Document, Unreadable
from gateway.documents.pages import markdown
from gateway.documents.zip_archive import attribute, child, children, local, opened, xml_of

_PARTS: Final = ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml")
_WHITE: Final = frozenset({"ffffff", "fefefe", "fdfdfd"})
_TINY: Final = 2
"""Half points: text of this size or less cannot be read."""
_OFF: Final = frozenset({"0", "false", "off", "none"})
MARK: Final = "[written in white: "


@dataclass
class _Look:
    """Styles that hide their text, and how much was left out."""

    hiding: frozenset[str] = frozenset()
    coloured: bool = False
    left_out: int = 0
    spaces: dict[str, str] = field(default_factory=dict)


def document(data: bytes) -> Document:
    """Open a Word file. Raises Unreadable."""
    archive = opened(data)
    if "word/document.xml" not in archive.namelist():
        raise Unreadable("damaged: it has no text part")
    cleaned, hidden = _without_hidden(archive)
    library = importlib.import_module("mammoth")
    pictures = library.images.img_element(lambda _: {"src": ""})
    converted = library.convert_to_html(
        io.BytesIO(cleaned), convert_image=pictures, include_embedded_style_map=False, external_file_access=False
    )
    text = markdown(converted.value)
    notes = [f"{hidden:,} characters that Word does not show were left out"] if hidden else []
    return Document(count=1, text=lambda _: text, notes=notes)


def _without_hidden(archive: zipfile.ZipFile) -> tuple[bytes, int]:
    """Return the file without hidden text, and how many characters that was."""
    look = _Look(hiding=_hiding_styles(archive))
    changed: dict[str, bytes] = {}
    for name in _PARTS:
        root = xml_of(archive, name)
        if root is None:
            continue
        background = child(root, "background")
        look.coloured = background is not None and (attribute(background, "color") or "").lower() not in {"", "auto", *_WHITE}
        _clean(root, look)
        changed[name] = ET.tostring(root)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as out:  # not packed again: it is read once and thrown away
        for name in archive.namelist():
            if name.endswith((".xml", ".rels")):
                out.writestr(name, changed.get(name) or archive.read(name))
    return made.getvalue(), look.left_out


def _hiding_styles(archive: zipfile.ZipFile) -> frozenset[str]:
    root = xml_of(archive, "word/styles.xml")
    styles = children(root, "style") if root is not None else iter(())
    return frozenset(attribute(style, "styleId") or "" for style in styles if _on(child(style, "rPr", "vanish")))


def _clean(root: Element, look: _Look) -> None:
    """Take hidden runs out of a tree, without recursion: files may be nested as deep as they like."""
    waiting: list[tuple[Element, bool, bool]] = [(root, False, look.coloured)]
    while waiting:
        element, table, coloured = waiting.pop()
        name = local(element.tag)
        table = table or name == "tbl"
        if name == "p":
            coloured = look.coloured or _shaded(child(element, "pPr"))
            style = child(element, "pPr", "pStyle")
            if style is not None and attribute(style, "val") in look.hiding:
                look.left_out += sum(map(len, element.itertext()))
                element[:] = []
                continue
        kept = [one for one in element if not (local(one.tag) == "r" and _hides(one, look, table=table, coloured=coloured))]
        element[:] = kept
        waiting += [(one, table, coloured) for one in kept]


def _hides(run: Element, look: _Look, *, table: bool, coloured: bool) -> bool:
    """Decide on a run; one that is white in a table is marked."""
    facts = child(run, "rPr")
    if facts is None:
        return False
    style = child(facts, "rStyle")
    hidden = _on(child(facts, "vanish")) or _on(child(facts, "webHidden")) or _tiny(facts)
    hidden = hidden or (style is not None and attribute(style, "val") in look.hiding)
    colour = child(facts, "color")
    white = colour is not None and (attribute(colour, "val") or "").lower() in _WHITE and not coloured and not _shaded(facts)
    if white and table and not hidden:
        _mark(run)
        return False
    if not (hidden or white):
        return False
    look.left_out += sum(map(len, run.itertext()))
    return True


def _mark(run: Element) -> None:
    texts = [one for one in run if local(one.tag) == "t" and one.text]
    if texts:
        texts[0].text = MARK + (texts[0].text or "")
        texts[-1].text = (texts[-1].text or "") + "]"


def _on(switch: Element | None) -> bool:
    return switch is not None and (attribute(switch, "val") or "1").lower() not in _OFF


def _tiny(facts: Element) -> bool:
    size = child(facts, "sz")
    value = "" if size is None else attribute(size, "val") or ""
    return value.isdecimal() and int(value[:6]) <= _TINY


def _shaded(facts: Element | None) -> bool:
    """Return whether a run or a paragraph has a background of its own."""
    for one in _backgrounds(facts):
        fill = (attribute(one, "fill") or attribute(one, "val") or "").lower()
        if fill not in {"", "auto", "clear", "none", "white", *_WHITE}:
            return True
    return False


def _backgrounds(facts: Element | None) -> Iterator[Any]:
    if facts is not None:
        yield from children(facts, "shd")
        yield from children(facts, "highlight")
