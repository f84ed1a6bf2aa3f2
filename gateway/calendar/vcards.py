"""Reads vCards (versions 2.1, 3 and 4) and finds people in them. What cannot be read is left out, and never raises."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

MAX_VALUE: Final = 300
"""Characters of a value that are kept."""
_MOST_VALUES: Final = 10
_LINES: Final = re.compile(r"\r\n|\n|\r")
_ESCAPES: Final = re.compile(r"\\([\\,;:nN])")
_NAME: Final = re.compile(r"(?:[A-Za-z0-9-]+\.)?([A-Za-z0-9-]+)((?:;(?:\"[^\"]*\"|[^\":;])*)*):(.*)", re.DOTALL)
_LEAST_DIGITS: Final = 4
_COMPARED_DIGITS: Final = 7
"""Phone numbers are compared by so many digits from the right, as their beginnings are written in several ways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """A person or an organisation. ``others`` are further facts, such as birthday and address, by name."""

    name: str
    mails: tuple[str, ...] = ()
    phones: tuple[str, ...] = ()
    nickname: str = ""
    organisation: str = ""
    others: tuple[tuple[str, str], ...] = ()

    def matches(self, wanted: str) -> bool:
        """Whether all words of a text are in the name, the organisation or a mail address, or its digits in a phone number."""
        words = wanted.casefold().split()
        text = " ".join((self.name, self.nickname, self.organisation, *self.mails)).casefold()
        if words and all(word in text for word in words):
            return True
        digits = _digits(wanted)[-_COMPARED_DIGITS:]
        return len(digits) >= _LEAST_DIGITS and any(digits in _digits(phone) for phone in self.phones)

    def line(self) -> str:
        """Return it in one line."""
        head = f"{self.name}{f' ({self.organisation})' if self.organisation and self.organisation != self.name else ''}"
        facts = [*self.mails, *self.phones, *(f"{name}: {value}" for name, value in self.others)]
        return f"{head}: {', '.join(facts)}" if facts else head


def contacts_in(text: str) -> Sequence[Contact]:
    """Return the cards of a text that say whose they are."""
    found: list[Contact] = []
    lines: list[str] | None = None
    for line in _unfolded(text):
        upper = line.strip().upper()
        if upper == "BEGIN:VCARD":
            lines = []
        elif upper == "END:VCARD":
            if lines is not None and (made := _contact(lines)) is not None:
                found.append(made)
            lines = None
        elif lines is not None:
            lines.append(line)
    return found


def _unfolded(text: str) -> Iterable[str]:
    """Return whole lines: those that go on begin with a blank, or follow a quoted-printable one that ends with ``=``."""
    whole: list[str] = []
    soft = False
    for line in _LINES.split(text.removeprefix("\ufeff")):
        if whole and (soft or line[:1] in {" ", "\t"}):
            whole[-1] += f"\n{line}" if soft else line[1:]
        else:
            whole.append(line)
        soft = line.endswith("=") and "QUOTED-PRINTABLE" in whole[-1][:200].upper()
    return whole


def _contact(lines: Sequence[str]) -> Contact | None:
    said: dict[str, list[str]] = {}
    for line in lines:
        found = _NAME.fullmatch(line)
        if found is None:
            continue
        name, parameters, value = found[1].upper(), found[2].upper(), found[3]
        if name in {"FN", "N", "NICKNAME", "ORG", "EMAIL", "TEL", "ADR", "BDAY"} and len(said.get(name, ())) < _MOST_VALUES:
            said.setdefault(name, []).append(_decoded(value, parameters))
    parts = [part.strip() for part in _split(next(iter(said.get("N", [])), ""))]
    name = _words(next(iter(said.get("FN", [])), "")) or " ".join(filter(None, [*parts[1:2], *parts[:1]]))
    organisation = _joined(next(iter(said.get("ORG", [])), ""))
    mails = tuple(filter(None, (_words(one).removeprefix("mailto:") for one in said.get("EMAIL", []))))
    name = name or organisation or next(iter(mails), "")
    if not name:
        return None
    others = [("address", _joined(one)) for one in said.get("ADR", [])] + [
        ("birthday", _words(one)) for one in said.get("BDAY", [])
    ]
    return Contact(
        name=name[:MAX_VALUE],
        mails=mails,
        phones=tuple(filter(None, (re.sub(r"(?i)^tel:", "", _words(one)) for one in said.get("TEL", [])))),
        nickname=_words(next(iter(said.get("NICKNAME", [])), "")),
        organisation=organisation,
        others=tuple((key, value) for key, value in others if value),
    )


def _decoded(value: str, parameters: str) -> str:
    if "QUOTED-PRINTABLE" in parameters:
        value = quopri.decodestring(value.encode("utf-8", "replace")).decode("utf-8", "replace")
    return value


def _words(value: str) -> str:
    return " ".join(_ESCAPES.sub(lambda found: " " if found[1] in "nN" else found[1], value).split())[:MAX_VALUE]


def _split(value: str) -> list[str]:
    return [_words(part) for part in re.split(r"(?<!\\);", value)]


def _joined(value: str) -> str:
    return ", ".join(filter(None, _split(value)))[:MAX_VALUE]


def _digits(text: str) -> str:
    return "".join(one for one in text if one.isdecimal() and one.isascii())
