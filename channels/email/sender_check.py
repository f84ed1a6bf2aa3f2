"""Whether the owner's own mail server vouches for who wrote a mail, by what it says in ``Authentication-Results`` (RFC 8601).

Anybody can write any name and any such header into a mail. The server that takes the mail in puts its own above all others, so the
topmost one counts, and only with the name that the settings give.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from typing import Final

from channels.common.mail.mail_addresses import ascii_domain

_LONGEST: Final = 20_000
_QUOTED_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(\((?:[^()"\\]|\\.)*\))', re.DOTALL)
_ATOM: Final = r'[^\s<>@,;:()"\\\[\]]+'
_ONE_AUTHOR: Final = re.compile(
    rf'\s*(?:(?P<name>[^<>,;:()"\\]*(?:""[^<>,;:()"\\]*)*)<\s*(?P<within>{_ATOM}@{_ATOM})\s*>|(?P<bare>{_ATOM}@{_ATOM}))\s*'
)
"""A ``From`` with a single address, once what stands in quotation marks is left out and comments are blanks."""
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9@._+-]")
_WORD: Final = re.compile(r"[a-z0-9][a-z0-9._/-]{0,80}")


@dataclass(frozen=True, slots=True)
class Result:
    """What a server found by one method, with the properties that it looked at, such as ``header.from``."""

    method: str
    result: str
    properties: dict[str, str]


@dataclass(frozen=True, slots=True)
class Results:
    """One header: the server that wrote it, and what it found."""

    server: str
    found: tuple[Result, ...]


def is_verified(headers: Message, author: str, server: str | None) -> bool:
    """Return whether ``server`` vouches for the address ``author``, and ``From`` can be read as nothing but that one address."""
    domain = author.rpartition("@")[2].lower()
    written, authors = headers.get_all("Authentication-Results", []), headers.get_all("From", [])
    if not server or not domain or not written or len(authors) != 1 or _only_author(str(authors[0])) != author.lower():
        return False
    results = results_of(str(written[0]))
    if results is None or results.server != server.strip().lower():
        return False
    if any(one.method == "dmarc" and not _allows(one, domain) for one in results.found):
        return False
    return any(_vouches(one, author.lower(), domain) for one in results.found if one.result == "pass")


def _only_author(header: str) -> str | None:
    """Return the address of a ``From`` that every program reads as the same one; None where two could be seen, or none.

    The server may have checked another address of it than the one that is read here.
    """
    bare = _QUOTED_OR_COMMENT.sub(lambda found: " " if found[1] else '""', header[:_LONGEST])
    match = _ONE_AUTHOR.fullmatch(bare)
    if match is None:
        return None
    name, address = (match["name"] or "").strip().casefold(), (match["within"] or match["bare"]).casefold()
    if "@" in name and name != address:
        return None
    local, _, domain = address.rpartition("@")
    if domain.isascii():
        return address
    try:
        known = ascii_domain(domain)
    except ValueError:
        return None
    return f"{local}@{known}" if "xn--" in known else None


def _allows(dmarc: Result, domain: str) -> bool:
    """Return whether a result of DMARC leaves the other checks their worth: it is no failure, and about the domain or one above it."""
    about = dmarc.properties.get("header.from", "")
    ours = not about or domain == about or domain.endswith(f".{about}")
    return ours and dmarc.result in {"pass", "none", "bestguesspass"}


def _vouches(one: Result, author: str, domain: str) -> bool:
    """Return whether a check that was passed was about the domain of the author, not about that of somebody on the way."""
    said = one.properties
    match one.method:
        case "dmarc":
            return said.get("header.from", "") == domain
        case "dkim":
            signer = said.get("header.d") or said.get("header.i", "").rpartition("@")[2]
            return "." in signer and (signer == domain or domain.endswith(f".{signer}"))
        case "spf":
            return said.get("smtp.mailfrom", "").rpartition("@")[2] == domain
        case "auth":  # the author's own mail program logged in at this very server
            return said.get("smtp.auth", "") == author
        case _:
            return False


def results_of(header: str) -> Results | None:
    """Read a header; None where it does not follow the grammar."""
    bare = _without_comments(header[:_LONGEST])
    if bare is None:
        return None
    first, *others = bare.lower().split(";")
    words = first.split()
    if not words or _WORD.fullmatch(words[0]) is None:
        return None
    return Results(words[0], tuple(one for text in others if (one := _result(text)) is not None))


def _result(text: str) -> Result | None:
    pairs = [word.partition("=") for word in re.sub(r"\s*=\s*", "=", text).split()]
    if not pairs or not pairs[0][1]:
        return None
    method = pairs[0][0].partition("/")[0]
    return Result(method, pairs[0][2], _once((name, value.strip(".")) for name, equals, value in pairs[1:] if equals))


def _once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return properties by name; of one that is said twice, what it says first."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _without_comments(text: str) -> str | None:
    """Return a header without comments, and what stands in quotation marks without what could be taken for its grammar."""
    kept: list[str] = []
    depth, quoted, place = 0, False, 0
    while place < len(text):
        char = text[place]
        if char == "\\" and (quoted or depth):
            if quoted and not depth:
                kept.append("?")
            place += 2
            continue
        if quoted:
            quoted = char != '"'
            kept.append("" if not quoted else _NOT_PLAIN.sub("?", char))
        elif char == "(":
            depth += 1
        elif char == ")" and depth:
            depth -= 1
            kept.append(" ")
        elif char == '"' and not depth:
            quoted = True
        elif not depth:
            kept.append(char)
        place += 1
    return None if quoted or depth else "".join(kept)
