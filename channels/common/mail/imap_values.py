"""Reads the nested values of IMAP responses (RFC 3501, section 4): lists, quoted strings, literals, atoms."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

Value: TypeAlias = "bytes | int | list[Any] | None"
"""A string or atom, a number, NIL, or a list of values."""
MOST_VALUES: Final = 50_000
DEEPEST: Final = 100
"""Lists within lists: a mail of more nested parts than that is made to do harm."""
_TOKEN: Final = re.compile(
    rb"""\s*(?: (?P<open>\() | (?P<close>\)) | "(?P<quoted>(?:[^"\\]|\\.)*)" | (?P<literal>\{\d+\+?\})\s*\Z
    | (?P<atom>(?:[^\s()"\[{]|\[[^\]]*\])+(?:<\d+>)?) )""",
    re.VERBOSE | re.DOTALL,
)
_OPEN: Final = object()
_CLOSE: Final = object()
Piece: TypeAlias = "bytes | tuple[bytes, bytes] | None"
"""What ``imaplib`` gives for a response: text, or text that ends in the length of a literal, and the literal."""


class NotReadable(ValueError):
    """A response does not follow the grammar, or holds more than is read."""


def values_of(pieces: Sequence[Piece]) -> list[Value]:
    """Return all values of responses, one after the other. Raises NotReadable."""
    top: list[Value] = []
    stack: list[list[Value]] = [top]
    for count, token in enumerate(_tokens(pieces), 1):
        if count > MOST_VALUES:
            raise NotReadable("too many values")
        if token is _OPEN:
            fresh: list[Value] = []
            stack[-1].append(fresh)
            stack.append(fresh)
            if len(stack) > DEEPEST:
                raise NotReadable("too many lists within lists")
        elif token is _CLOSE:
            if len(stack) == 1:
                raise NotReadable("a list is closed that was not opened")
            stack.pop()
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise NotReadable("a list is not closed")
    return top


def _tokens(pieces: Sequence[Piece]) -> Iterator[Any]:
    for piece in pieces:
        if piece is None:
            continue
        text, literal = piece if isinstance(piece, tuple) else (piece, None)
        yield from _tokens_of(text)
        if literal is not None:
            yield literal


def _tokens_of(text: bytes) -> Iterator[Any]:
    place = 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotReadable(f"unexpected {text[place : place + 20]!r}")
        place = match.end()
        match match.lastgroup:
            case "open":
                yield _OPEN
            case "close":
                yield _CLOSE
            case "quoted":
                yield re.sub(rb"\\(.)", rb"\1", match["quoted"], flags=re.DOTALL)
            case "atom":
                yield _atom(match["atom"])


def _atom(text: bytes) -> bytes | int | None:
    if text.upper() == b"NIL":
        return None
    return int(text) if text.isdigit() and len(text) < 20 else text  # noqa: PLR2004 -- longer than any number of IMAP


def fetched(pieces: Sequence[Piece]) -> list[dict[str, Value]]:
    """Return the data of each message of a FETCH response, by item in capital letters. Raises NotReadable.

    ``BODY[HEADER]<0>`` and the like become ``BODY[]``: one body is asked for at a time.
    """
    found: list[dict[str, Value]] = []
    for value in values_of(pieces):
        if not isinstance(value, list):
            continue
        items: dict[str, Value] = {}
        for name, content in zip(value[::2], value[1::2], strict=False):
            if not isinstance(name, bytes):
                raise NotReadable("an item has no name")
            key = name.decode("ascii", "replace").upper()
            items["BODY[]" if key.startswith("BODY[") else key] = content
        found.append(items)
    return found


def uid_of(items: dict[str, Value]) -> int:
    """Return the number of a message; 0 where the server did not say it."""
    value = items.get("UID")
    return value if isinstance(value, int) else 0


def body_of(items: dict[str, Value]) -> bytes:
    """Return the content that was asked for."""
    body = items.get("BODY[]")
    return body if isinstance(body, bytes) else str(body).encode() if isinstance(body, int) else b""


def check_of(validity: int) -> str:
    """Return four characters that stand for a folder's UIDVALIDITY."""
    return base64.b32encode(hashlib.blake2b(str(validity).encode(), digest_size=5).digest()).decode().lower()[:4]
