"""The addresses that a mail goes to."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from agent.errors import MailRefused
from channels.common.mail.mail_addresses import LONGEST, Address, ascii_domain

MOST_RECIPIENTS: Final = 50
_LOCAL: Final = re.compile(r"[^\s@<>\"(),;:\\\[\]\x00-\x1f\x7f]{1,64}")
_ITEMS: Final = re.compile(r'(?:"[^"]*"|[^,;"])+|"')
_ITEM: Final = re.compile(r'(?:(?P<name>"[^"]*"|[^"<>]*?)\s*<\s*(?P<within>[^<>\s]+)\s*>)|(?P<bare>[^<>\s"]+)')
"""One recipient: an address, or a name and an address in angle brackets. Other forms of the standard are refused: they can hide one."""


def recipients(given: str, field: str) -> tuple[Address, ...]:
    """Return the addresses that a mail is to go to, out of a list with commas.

    Raises:
        MailRefused: one is no address, or holds a line end.
    """
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in given):
        raise MailRefused(f"{field}: an address holds a line end or another control character")
    found = []
    for item in _ITEMS.findall(given):
        match = _ITEM.fullmatch(item.strip())
        if match is None:
            if item.strip():
                raise MailRefused(f"{field}: {item.strip()[:80]!r} is no mail address; write it like Anna <anna@example.org>")
            continue
        found.append(Address(valid(match["within"] or match["bare"], field), (match["name"] or "").strip().strip('"').strip()))
    if given.strip() and not found:
        raise MailRefused(f"{field}: {given[:80]!r} holds no address; write it like anna@example.org")
    if len(found) > MOST_RECIPIENTS:
        raise MailRefused(f"{field}: {len(found)} addresses; at most {MOST_RECIPIENTS} are possible in one mail")
    return tuple({one.address.casefold(): one for one in found}.values())


def valid(address: str, field: str) -> str:
    """Return an address with its domain in ASCII. Raises MailRefused where it is none."""
    local, _, domain = address.strip().rpartition("@")
    if _LOCAL.fullmatch(local) is None or not local.isascii() or local.startswith(".") or local.endswith("."):
        raise MailRefused(f"{field}: {address[:80]!r} is no mail address; write it like anna@example.org")
    try:
        host = ascii_domain(domain)
    except ValueError as error:
        raise MailRefused(f"{field}: {address[:80]!r} has no valid domain") from error
    whole = f"{local}@{host}"
    if len(whole) > LONGEST:
        raise MailRefused(f"{field}: the address {address[:40]!r}... is too long")
    return whole
