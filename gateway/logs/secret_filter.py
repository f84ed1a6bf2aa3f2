"""Finds and withholds known secrets in what is about to leave the machine, however they are written.

They may be encoded, spaced out, or in pieces. They are withheld from replies, captions, blocks, previews, files and tool arguments, and
the owner is told.

Text is compared by its letters and figures alone, so that white space, punctuation, markup and invisible characters between the parts of a
secret do not hide it. Not found: a secret that is encrypted, compressed (but for zip and gzip files), encoded twice, or spelled in words.
"""

from __future__ import annotations

import base64
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final
from urllib.parse import quote, unquote

from gateway.logs.redaction import REDACTED, Redactor

LEAST: Final = 12
"""A secret with fewer letters and figures is looked for as it is written alone: in bare letters it might be ordinary words."""
RUN: Final = 12
"""So many letters and figures of a secret in a row are withheld, or three fifths of a shorter one."""
SHARE: Final = 0.6
"""Pieces that make up this share of a secret are withheld, wherever they stand."""
HELD_BACK: Final = 4
"""Letters and figures with which a secret may begin: what ends with them is not sent before more is known."""
REMEMBERED: Final = 4000
"""Characters of what was sent before that are looked at with the next piece."""
_GRAM: Final = 5
_SEED: Final = 6
_STEP: Final = 3
"""Every run of _SEED + _STEP - 1 bytes or more is met when a file is looked at in such steps."""
_UNPACKED: Final = 20_000_000
"""Bytes of an archive that are unpacked at most."""
_ESCAPE: Final = re.compile(r"%[0-9a-f]{2}|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|&#x?[0-9a-f]{1,6};", re.IGNORECASE)
_NOT_PLAIN: Final = bytes(one for one in range(256) if not chr(one).isascii() or not chr(one).isalnum())


class SecretFilter:
    """Knows secrets and withholds them. It may be taught at any time and from any thread.

    ``tell`` gets one sentence for the owner each time something is withheld from readers; it never contains the secret.
    """

    def __init__(self, secrets: Iterable[str] = (), tell: Callable[[str], None] = lambda _: None) -> None:
        self.tell = tell
        self.exact = Redactor()
        """The same secrets as they are usually written: cheaper, for a great deal of text."""
        self._cores: tuple[_Core, ...] = ()
        self._grams: dict[bytes, list[tuple[_Core, int]]] = {}
        self._seeds: frozenset[bytes] = frozenset()
        self._beginnings: dict[bytes, list[_Core]] = {}
        self._known: frozenset[str] = frozenset()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Take further secrets in."""
        known = self._known | {*secrets}
        if known == self._known:
            return
        self._known = known
        self.exact.learn(known)
        cores = {core.text: core for secret in sorted(known) for core in _cores_of(secret)}
        grams: dict[bytes, list[tuple[_Core, int]]] = {}
        beginnings: dict[bytes, list[_Core]] = {}
        for core in cores.values():
            beginnings.setdefault(core.text[:HELD_BACK], []).append(core)
            for at in range(len(core.text) - _GRAM + 1):
                grams.setdefault(core.text[at : at + _GRAM], []).append((core, at))
        self._grams, self._beginnings = grams, beginnings
        self._seeds = frozenset(
            core.text[at : at + _SEED] for core in cores.values() for at in range(len(core.text) - _SEED + 1)
        )
        self._cores = tuple(cores.values())

    def text(self, text: str, where: str = "", *, before: str = "") -> str:
        """Return ``text`` with ``[secret]`` in the place of each secret; ``before`` is what the same readers got before it.

        The owner is told of what is withheld from the conversation ``where``, and of nothing without it.
        """
        clean = self.exact.pattern.sub(REDACTED, text)
        for start, end in reversed(self._spans(clean, before[-REMEMBERED:])):
            clean = clean[:start] + REDACTED + clean[end:]
        if where and clean != text:
            self.tell(
                f"I removed a secret of this machine (a key, token or password) from a reply to {where}. "
                "If it may have been disclosed elsewhere, change it."
            )
        return clean

    def file(self, name: str, data: bytes) -> bool:
        """Whether a file may not be sent because it holds a secret. Blocks."""
        if not self.holds_bytes(data) and not self.holds(name):
            return False
        self.tell(f"I did not send the file {self.text(name)}: it holds a secret of this machine (a key, token or password).")
        return True

    def call(self, tool: str, arguments: str) -> bool:
        """Whether a tool call that reaches outside may not run because its arguments hold a secret."""
        if not self.holds(arguments):
            return False
        self.tell(f"I did not run {tool}: its arguments hold a secret of this machine (a key, token or password).")
        return True

    def holds(self, text: str) -> bool:
        """Whether a text holds a secret."""
        return self.text(text) != text

    def holds_bytes(self, data: bytes) -> bool:
        """Whether a file holds a secret, also within a zip or gzip archive. Blocks: about 0.1 s of CPU for 10 MB."""
        return any(self._in_bytes(part) for part in _unpacked(data))

    def safe_end(self, text: str) -> int:
        """Return up to where a text that is still being written can be sent: what may be the beginning of a secret waits for more."""
        start = max(0, len(text) - 4 * max((len(core.text) for core in self._cores), default=0))
        plain = _plain(text[start:])
        for at in range(len(plain) - HELD_BACK + 1):
            for core in self._beginnings.get(plain[at : at + HELD_BACK], ()):
                if len(plain) - at < len(core.text) and core.text.startswith(plain[at:]):
                    return start + _mapped(text[start:])[1][at][0]
        return len(text)

    def _in_bytes(self, data: bytes) -> bool:
        if self.exact.text(text := data[:_UNPACKED].decode("utf-8", "replace")) != text:
            return True
        plain = data.lower().translate(None, _NOT_PLAIN)
        hits = (at for at in range(0, len(plain), _STEP) if plain[at : at + _SEED] in self._seeds)
        checked = -1
        for at in hits:
            if at < checked:
                continue
            part = plain[max(0, at - 200) : at + 1000]
            if any(run.is_enough for run in self._runs(part)):
                return True
            checked = at + 700
        return False

    def _spans(self, text: str, before: str) -> list[tuple[int, int]]:
        """Return the places of secrets in ``text``, in order and apart."""
        found: list[tuple[int, int]] = []
        whole = before + text
        escaped = _ESCAPE.search(text) is not None
        for plain in map(_plain, (whole, _unescaped(whole)) if escaped else (whole,)):
            if not self._grams.keys().isdisjoint(plain[at : at + _GRAM] for at in range(len(plain) - _GRAM + 1)):
                break
        else:  # no part of a secret is anywhere in it
            return []
        for escapes in (False, True) if escaped else (False,):
            mapped, places = _mapped(whole, escapes=escapes)
            for run in self._withheld(mapped):
                start, end = places[run.at][0], places[run.at + run.length - 1][1]
                if end > len(before):
                    found.append((max(0, start - len(before)), end - len(before)))
        return _joined(found)

    def _withheld(self, plain: bytes) -> Iterator[_Run]:
        """Yield the runs of secrets that may not be sent: long ones, and all pieces of a secret of which most is there."""
        runs = self._runs(plain)
        covered: dict[bytes, set[int]] = {}
        for run in runs:
            covered.setdefault(run.core.text, set()).update(range(run.of, run.of + run.length))
        for run in runs:
            core = run.core
            if run.is_enough or (core.is_random and len(covered[core.text]) >= SHARE * len(core.text)):
                yield run

    def _runs(self, plain: bytes) -> list[_Run]:
        """Return where parts of secrets stand in bare letters and figures, the longest at each place."""
        runs: list[_Run] = []
        at = 0
        while at <= len(plain) - _GRAM:
            longest: _Run | None = None
            for core, of in self._grams.get(plain[at : at + _GRAM], ()):
                length = _GRAM
                most = min(len(core.text) - of, len(plain) - at)
                while length < most and core.text[of + length] == plain[at + length]:
                    length += 1
                if longest is None or length > longest.length:
                    longest = _Run(core, at, of, length)
            if longest is None:
                at += 1
            else:
                runs.append(longest)
                at += longest.length
        return runs


class _Core:
    """One way to write a secret, in bare letters and figures. ``whole``: only all of it counts, as for an address with a password."""

    __slots__ = ("is_random", "need", "text")

    def __init__(self, text: bytes, *, whole: bool) -> None:
        self.text = text
        self.need = len(text) if whole else max(8, min(RUN, round(SHARE * len(text))))
        self.is_random = not whole and sum(one in b"0123456789" for one in text) > 1


class _Run:
    """A part of a secret: ``length`` letters from ``of`` on, which stand at ``at``."""

    __slots__ = ("at", "core", "length", "of")

    def __init__(self, core: _Core, at: int, of: int, length: int) -> None:
        self.core, self.at, self.of, self.length = core, at, of, length

    @property
    def is_enough(self) -> bool:
        return self.length >= self.core.need


def _cores_of(secret: str) -> Iterator[_Core]:
    raw = secret.encode("utf-8", "surrogatepass")
    written = [
        secret,
        secret[::-1],
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        json.dumps(json.dumps(secret))[3:-3],
        raw.hex(),
    ]
    for offset in range(3):
        cut, whole = (offset * 8 + 5) // 6, (offset + len(raw)) * 8 // 6  # what depends on the neighbours is left out
        written += [encode(b"\0" * offset + raw).decode()[cut:whole] for encode in (base64.b64encode, base64.urlsafe_b64encode)]
    if len(_plain(secret)) >= LEAST:
        for one in dict.fromkeys(map(_plain, written)):
            if len(one) >= LEAST:
                yield _Core(one, whole="://" in secret)


def _plain(text: str) -> bytes:
    """Return the letters and figures of a text in small ASCII letters."""
    if not text.isascii():
        import unicodedata

        text = unicodedata.normalize("NFKC", text)
    return text.encode("ascii", "ignore").lower().translate(None, _NOT_PLAIN)


def _mapped(text: str, *, escapes: bool = False) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the same, and for each byte where it stands in ``text``. ``escapes``: with escaped characters as what they stand for."""
    found, places = bytearray(), list[tuple[int, int]]()

    def add(characters: str, start: int, end: int) -> None:
        for byte in _plain(characters):
            found.append(byte)
            places.append((start, end))

    at = 0
    for escape in _ESCAPE.finditer(text) if escapes else ():
        for place in range(at, escape.start()):
            add(text[place], place, place + 1)
        add(_character(escape[0]), escape.start(), escape.end())
        at = escape.end()
    for place in range(at, len(text)):
        add(text[place], place, place + 1)
    return bytes(found), places


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _character(found[0]), text)


def _character(escape: str) -> str:
    if escape[0] == "%":
        return unquote(escape, errors="ignore")
    if escape[0] == "&":
        from html import unescape  # its table of names is loaded for the first text that has one

        return unescape(escape)
    return chr(int.from_bytes(bytes.fromhex(escape[2:])))


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _unpacked(data: bytes) -> Iterator[bytes]:
    """Yield a file, and what it holds where it is a zip or gzip archive, as far as that is not too much."""
    yield data
    import gzip
    import zipfile

    try:
        if data.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                yield packed.read(_UNPACKED)
        elif data.startswith(b"PK\x03\x04"):
            left = _UNPACKED
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for name in archive.namelist():
                    with archive.open(name) as member:
                        part = member.read(left)
                    left -= len(part)
                    yield part
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError):
        return  # it is no archive that anybody could read, or one with a password


SHORTEST: Final = 8
SAFE_AT: Final = 16
"""Values of this length are always redacted; shorter ones only if they do not look like a word."""


def telling_apart(secrets: Iterable[str]) -> list[str]:
    """Return the secrets that cannot be ordinary words: long ones, or with several kinds of characters."""
    return [one for one in secrets if len(one) >= SAFE_AT or (len(one) >= SHORTEST and _kinds(one) > 1)]


def _kinds(text: str) -> int:
    tests = (str.islower, str.isupper, str.isdigit, lambda letter: not letter.isalnum())
    return sum(any(test(letter) for letter in text) for test in tests)
