"""HTML, EPUB and plain text. Runs in the parser's process."""

from __future__ import annotations

import importlib
import posixpath
import zipfile
from typing import Final
from urllib.parse import unquote

from agent.characters import without_smuggled
from agent.tools.web.html_markdown import markdown_of, plain_text
from agent.tools.web.page_text import decoded, decoded_as, guess_told
from agent.tools.web.visible_html import remove_invisible
from gateway.documents.excerpt import Document, Unreadable
from gateway.documents.zip_archive import attribute, children, local, opened, xml_of

MAX_CHAPTER: Final = 8_000_000
"""Bytes of one chapter of a book."""


def web_page(data: bytes) -> Document:
    """Open a web page that was saved."""
    text, hidden = visible(decoded(data, "", html=True))
    notes = [f"{hidden:,} characters that the page hides from its readers were left out"] if hidden else []
    return Document(count=1, text=lambda _: text, notes=notes)


def plain(data: bytes) -> Document:
    """Open a text that is not UTF-8."""
    found, guess = decoded_as(data, "", html=False)
    text = without_smuggled(found.replace("\r\n", "\n").replace("\r", "\n"))
    return Document(count=1, text=lambda _: text, notes=[guess_told(guess)] if guess else [])


def book(data: bytes) -> Document:
    """Open an EPUB file: a chapter for each entry of its spine. Raises Unreadable."""
    archive = opened(data, declares=True)
    folder, order = _spine(archive)
    chapters = [
        name for href in order if (name := posixpath.normpath(posixpath.join(folder, unquote(href)))) in archive.NameToInfo
    ]
    if not chapters:
        raise Unreadable("damaged: it lists no chapters")
    hidden: list[str] = []

    def text(number: int) -> str:
        entry = archive.getinfo(chapters[number - 1])
        if entry.file_size > MAX_CHAPTER:
            return f"[this chapter is too large to read: {entry.file_size:,} bytes]"
        found, count = visible(decoded(archive.read(entry), "", html=True))
        if count and not hidden:
            hidden.append("text that the book hides from its readers was left out")
        return found

    return Document(count=len(chapters), unit="chapter", text=text, notes=hidden)


def _spine(archive: zipfile.ZipFile) -> tuple[str, list[str]]:
    container = xml_of(archive, "META-INF/container.xml")
    found = (one for one in container.iter() if local(one.tag) == "rootfile") if container is not None else iter(())
    path = next((attribute(one, "full-path") or "" for one in found), "")
    package = xml_of(archive, path)
    if package is None:
        raise Unreadable("damaged: it has no list of its parts")
    manifest, order = {}, []
    for section in package:
        if local(section.tag) == "manifest":
            manifest = {attribute(one, "id"): attribute(one, "href") or "" for one in children(section, "item")}
        elif local(section.tag) == "spine":
            order = [attribute(one, "idref") for one in children(section, "itemref")]
    return posixpath.dirname(path), [manifest[name] for name in order if name in manifest]


def visible(html: str) -> tuple[str, int]:
    """Return a page as Markdown, and how many characters it hides."""
    library = importlib.import_module("justhtml")
    parsed = library.JustHTML(html, sanitize=False)
    hidden = remove_invisible(parsed.root, library.matches)
    title = next((plain_text(node) for node in parsed.query("title")), "")
    text = without_smuggled(markdown_of(parsed.root, "", links=True))
    return (f"# {title}\n\n{text}" if title and not text.startswith("# ") else text), hidden


def markdown(html: str) -> str:
    """Return HTML of our own making as Markdown."""
    library = importlib.import_module("justhtml")
    return without_smuggled(markdown_of(library.JustHTML(html, sanitize=False).root, "", links=True))
