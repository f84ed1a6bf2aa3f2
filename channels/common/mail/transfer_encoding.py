"""Decodes the content of parts as it comes, in pieces, whatever is wrong with it."""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from typing import Final

_NOT_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/]+")
_NEITHER_BLANK: Final = re.compile(rb"[^A-Za-z0-9+/=\s]")
_LETTER: Final = re.compile(rb"[A-Za-z0-9+/]")


class Decoder:
    """Decodes one part. Base64 is decoded as it comes, the rest at the end; nothing in it makes it fail."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._rest = bytearray()
        self._decoded = bytearray()
        self._ended = False
        self.damaged = False
        """Whether its base64 is broken: characters that are none, content behind its end, or a part of a byte at the end."""

    @property
    def size(self) -> int:
        """How much there is so far."""
        return len(self._decoded) + len(self._rest)

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        if self._encoding != "base64":
            self._rest += data
            return
        self._look(data)
        self._rest += _NOT_BASE64.sub(b"", data)
        whole = len(self._rest) // 4 * 4
        self._decoded += base64.b64decode(bytes(self._rest[:whole]))
        del self._rest[:whole]

    def _look(self, data: bytes) -> None:
        before, mark, behind = data.partition(b"=")
        wrong = _NEITHER_BLANK.search(data) or _LETTER.search(behind) or (_LETTER.search(before) if self._ended else None)
        self.damaged |= wrong is not None
        self._ended |= bool(mark)

    def end(self) -> bytes:
        """Return the whole content."""
        if self._encoding == "base64":
            rest = bytes(self._rest)
            self.damaged |= len(rest) == 1
            if len(rest) > 1:
                self._decoded += base64.b64decode(rest + b"=" * (4 - len(rest)))
            return bytes(self._decoded)
        if self._encoding == "quoted-printable":
            return quopri.decodestring(bytes(self._rest))
        if self._encoding in {"x-uuencode", "uuencode", "x-uue"}:
            return _uudecoded(bytes(self._rest))
        return bytes(self._rest)


def decoded(data: bytes, encoding: str) -> bytes:
    """Return the content of a part that is there as a whole."""
    decoder = Decoder(encoding)
    decoder.add(data)
    return decoder.end()


def _uudecoded(data: bytes) -> bytes:
    out = bytearray()
    for line in data.splitlines():
        if line.startswith((b"begin ", b"end")) or not line.strip():
            continue
        try:
            out += binascii.a2b_uu(line)
        except binascii.Error:
            continue
    return bytes(out)
