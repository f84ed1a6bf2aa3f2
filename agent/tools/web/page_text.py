"""Turns the bytes of a page into text: HTML, PDF, JSON, plain text. Runs in a process of its own, which ``page_reader`` starts.

A page is foreign input to large parsers: one made for the purpose can take ages or all memory, which a thread could not be kept from.
Reads a JSON line ``{kind, charset, url, marked, whole}`` and then the bytes; writes a JSON object ``{title, text, notes}`` or ``{error}``.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import json
import re
import resource
import signal
import sys
from typing import IO, Any, Final, NoReturn

from agent.characters import without_smuggled
from agent.tools import encoding_guess

MAX_TEXT: Final = 1_000_000
MAX_TITLE: Final = 200
MAX_PAGES: Final = 1000
CPU_SECONDS: Final = 15
MAX_MEMORY: Final = 768 * 1024 * 1024
_CODEC_NAMES: Final = (
    "ascii big5 big5hkscs cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp866 cp874 cp932 cp949 euc_jp euc_kr gb18030 "
    "gb2312 gbk iso2022_jp koi8-r koi8-u mac-cyrillic mac-roman shift_jis tis-620 utf-16 utf-16-be utf-16-le utf-8"
)
_CODECS: Final = frozenset(_CODEC_NAMES.split()) | {f"iso8859-{number}" for number in range(1, 17)}
"""Python's names of the encodings of the web; its other codecs, such as ``zlib`` or ``unicode_escape``, decode no pages."""
_LIBRARIES: Final = {"html": ("justhtml",), "pdf": ("pypdf",)}
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META: Final = re.compile(rb"<(?:meta|\?xml)[^>]{0,400}?(?:charset|encoding)\s*=\s*[\"']?\s*([\w:.-]{2,40})", re.IGNORECASE)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""Characters that no text has; the escape character is in recorded terminal output."""
_HTML: Final = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)


class OutOfTime(Exception):
    """The CPU time of the process is used up."""


def read(wish: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Return what a page says, as ``title``, ``text`` and ``notes`` about what was left out; or ``error``, after the words "it is"."""
    kind = kind_of(wish["kind"], body)
    if kind == "pdf":
        return _pdf(body)
    text, guess = decoded_as(body, wish["charset"], html=kind == "html")
    notes = [guess_told(guess)] if guess else []
    if kind == "html":
        return _html(text, wish, notes)
    if text.count("\0") * 100 > len(text) or len(_CONTROLS.findall(text)) * 20 > len(text):
        return {"error": "a binary file"}
    return _result("", text, notes)


def kind_of(media_type: str, body: bytes) -> str:
    """Tell "pdf", "html" and "text" apart: by what the server says, by the content where it says nothing or is wrong about a PDF."""
    if media_type == "application/pdf" or b"%PDF-" in body[:1024]:
        return "pdf"
    if media_type in {"text/html", "application/xhtml+xml"}:
        return "html"
    if media_type in {"", "application/octet-stream", "text/plain"} and _HTML.match(body[:2048]):
        return "html"
    return "text"


def decoded(body: bytes, charset: str, *, html: bool) -> str:
    """Return the text of ``decoded_as`` alone."""
    return decoded_as(body, charset, html=html)[0]


def guess_told(encoding: str) -> str:
    """Return what a model is told of an encoding that was guessed."""
    return f"its encoding is not said and was guessed: {encoding}"


def decoded_as(body: bytes, charset: str, *, html: bool) -> tuple[str, str]:
    """Decode by byte order mark, by the server's word, by the page's own, as UTF-8, and then by a guess; never fail.

    The second value is the name of the encoding that was guessed, "" where none was.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace"), ""
    said = _META.search(body[:4096]) if html else None
    for name in (charset, said[1].decode("ascii") if said else ""):
        codec = _codec(name)
        if codec is None or (codec == "ascii" and not body.isascii()):
            continue
        text = body.decode(codec, "replace")
        if text.count("\ufffd") * 50 <= len(text):
            return text, ""
    text = body.decode("utf-8", "replace")
    whole = text.rstrip("\ufffd")  # the last character may be cut
    broken = whole.count("\ufffd")
    good = sum(char > "\x7f" for char in whole) - broken
    if text.isascii() or (good and broken * 50 <= len(text) and broken <= good):
        return text, ""
    guess = encoding_guess.guessed(body)
    return body.decode(guess, "replace"), encoding_guess.NAMES[guess]


def _codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name.strip()).name if name else ""
    except LookupError:
        return None
    return ("cp1252" if found == "iso8859-1" else found) if found in _CODECS else None


def _html(text: str, wish: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    from agent.tools.web.html_markdown import main_part, markdown_of, plain_text
    from agent.tools.web.visible_html import remove_invisible

    library = importlib.import_module("justhtml")
    document = library.JustHTML(text, sanitize=False)
    title = next((plain_text(node) for node in document.query("title")), "")
    base = next((node.attrs.get("href") or "" for node in document.query("base")), "") or wish["url"]
    hidden = remove_invisible(document.root, library.matches)
    root = document.root if wish["whole"] else main_part(document.root)
    notes = [*notes, *([f"{hidden:,} characters that the page hides from its readers were left out"] if hidden else [])]
    return _result(title, markdown_of(root, base if "://" in base else wish["url"], links=wish["marked"]), notes)


def _pdf(body: bytes) -> dict[str, Any]:
    library = importlib.import_module("pypdf")
    pages: list[str] = []
    notes: list[str] = []
    title = ""
    try:
        reader = library.PdfReader(io.BytesIO(body), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "a PDF file that is locked with a password"}
        count = len(reader.pages)
        title = str((reader.metadata or {}).get("/Title") or "")
        for number in range(min(count, MAX_PAGES)):
            pages.append(f"[page {number + 1} of {count}]\n{reader.pages[number].extract_text().strip()}")
            if sum(map(len, pages)) > MAX_TEXT:
                break
        if len(pages) < count:
            notes.append(f"only {len(pages)} of {count} pages were read")
    except (OutOfTime, MemoryError):
        if not pages:
            raise
        notes.append(f"only {len(pages)} pages were read: the file takes too long or too much memory")
    if not any(page.partition("\n")[2] for page in pages):
        return {"error": "a PDF file without text; its pages are probably pictures"}
    return _result(title, "\n\n".join(pages), notes)


def _result(title: str, text: str, notes: list[str]) -> dict[str, Any]:
    text = without_smuggled(text.replace("\r\n", "\n").replace("\r", "\n")).strip()
    if len(text) > MAX_TEXT:
        notes = [*notes, f"only the first {MAX_TEXT:,} characters were kept"]
    title = " ".join(without_smuggled(title).split())
    return {"title": title[:MAX_TITLE], "text": text[:MAX_TEXT], "notes": notes}


def _limit_resources() -> None:
    def over(_number: int, _frame: object) -> NoReturn:
        raise OutOfTime

    signal.signal(signal.SIGXCPU, over)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 3))
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def main(source: IO[bytes], answers: IO[str]) -> None:
    """Answer one request."""
    wish = json.loads(source.readline())
    body = source.read()
    for name in _LIBRARIES.get(kind_of(wish["kind"], body), ()):  # before the limits, so that Python can keep them compiled
        importlib.import_module(name)
    _limit_resources()
    try:
        answer = read(wish, body)
    except OutOfTime:
        answer = {"error": "made so that it takes too long to read"}
    except MemoryError:
        answer = {"error": "made so that it takes too much memory to read"}
    except Exception:  # noqa: BLE001 - parsers fail over foreign bytes in whatever way they like
        answer = {"error": "damaged"}
    json.dump(answer, answers)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout)
