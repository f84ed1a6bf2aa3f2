"""The program that reads one part of one document, in a process of its own that may open no file and reach no network.

Documents are foreign input to large parsers. Reads a JSON line ``{kind, page, offset, limit, room}`` and then the bytes; writes what
``excerpt`` returns as JSON, or ``{error}`` to stand behind the words "it is".
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import mimetypes
import resource
import signal
import sys
import warnings
from typing import IO, Any, Final, NoReturn

from gateway.documents.excerpt import Document, OutOfTime, Unreadable, excerpt
from gateway.documents.kinds import LIBRARIES
from gateway.sandbox.sealing import seal

CPU_SECONDS: Final = 30
MAX_MEMORY: Final = 1024 * 1024 * 1024
"""Bytes of addresses; a workbook of a million cells needs half of it."""
_MODULES: Final = {"pdf": "pdf", "docx": "word", "xlsx": "sheets", "pptx": "slides"}
_USED_LATER: Final[dict[str, tuple[str, ...]]] = {
    "pdf": (
        "pypdf.generic",
        "pypdf._text_extraction",
        "pypdf.filters",
        "PIL.Image",
        "encodings.utf_16_be",
        "encodings.latin_1",
    ),
    "docx": ("mammoth.images", "xml.dom.minidom", "xml.dom.expatbuilder", "xml.sax"),
    "xlsx": ("openpyxl.utils", "openpyxl.reader.excel", "openpyxl.styles.numbers"),
    "pptx": ("pptx.oxml", "lxml.etree"),
}
"""What libraries import when they need it; the time that this takes is not to count, and Python may keep it compiled."""


def read(wish: dict[str, Any], data: bytes) -> dict[str, Any]:
    """Return the wanted part of a document. Raises Unreadable, and whatever the libraries raise over damaged files."""
    document = opened(wish["kind"], data)
    return excerpt(document, page=wish["page"], offset=wish["offset"], limit=wish["limit"], room=wish["room"])


def opened(kind: str, data: bytes) -> Document:
    """Open a document of a kind."""
    if kind in _MODULES:
        found: Document = importlib.import_module(f"gateway.documents.{_MODULES[kind]}").document(data)
        return found
    from gateway.documents import pages

    return {"html": pages.web_page, "epub": pages.book, "text": pages.plain}[kind](data)


def _load(kind: str) -> None:
    for name in (*LIBRARIES[kind], *_USED_LATER.get(kind, ())):
        importlib.import_module(name)
    importlib.import_module(f"gateway.documents.{_MODULES.get(kind, 'pages')}")
    mimetypes.init()  # reads files of the system


def _limit_resources() -> None:
    def over(_number: int, _frame: object) -> NoReturn:
        raise OutOfTime

    signal.signal(signal.SIGXCPU, over)
    used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_SECONDS, used + CPU_SECONDS + 3))
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def main(source: IO[bytes], answers: IO[str]) -> None:
    """Answer one request."""
    wish = json.loads(source.readline())
    data = source.read()
    logging.disable()  # libraries complain of damaged files at length
    warnings.simplefilter("ignore")
    _load(wish["kind"])
    _limit_resources()
    sealed = seal()
    try:
        answer = read(wish, data) | {"sealed": sealed}
    except Unreadable as refused:
        answer = {"error": str(refused)}
    except OutOfTime:
        answer = {"error": "made so that it takes too long to read", "slow": True}
    except (MemoryError, RecursionError):
        answer = {"error": "made so that it takes too much memory to read"}
    except Exception:  # noqa: BLE001 - parsers fail over foreign bytes in whatever way they like
        answer = {"error": "damaged"}
    json.dump(answer, answers)


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout)
