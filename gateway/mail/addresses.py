"""Mail addresses: those of others as they are shown, and those that a mail goes to."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from email.utils import formataddr, getaddresses
from typing import Final

from agent.characters import without_smuggled
from agent.errors import MailRefused
from gateway.mail.mime_parts import decoded_words

MOST_RECIPIENTS: Final = 50
LONGEST: Final = 254
"""Characters of an address (RFC 5321)."""
_LOCAL: Final = re.compile(r"[^\s@<>\"(),;:\\\[\]\x00-\x1f\x7f]{1,64}")
_ITEMS: Final = re.compile(r'(?:"[^"]*"|[^,;"])+|"')
_ITEM: Final = re.compile(r'(?:(?P<name>"[^"]*"|[^"<>]*?)\s*<\s*(?P<within>[^<>\s]+)\s*>)|(?P<bare>[^<>\s"]+)')
"""One recipient: an address, or a name and an address in angle brackets. Other forms of the standard are refused: they can hide one."""
_NAMES_ADDRESS: Final = re.compile(r"[^\s@<>\"']+@[^\s@<>\"']+\.[^\s@<>\"']+")
_SHOWN_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class Address:
    """An address, with the name that it is given. ``address`` has its domain in ASCII where that can be told."""

    address: str
    name: str = ""

    @property
    def shown(self) -> str:
        """The address first, then what it calls itself: a name proves nothing."""
        text = self.address + (f" ({found})" if (found := unicode_form(self.address)) else "")
        if self.name and self.name.casefold() != self.address.casefold():
            text += f' "{self.name[:_SHOWN_NAME]}"'
        return text

    @property
    def warning(self) -> str:
        """What is odd about the name or the domain; "" if nothing is."""
        other = _NAMES_ADDRESS.search(self.name)
        if other and other[0].casefold().strip(".,;") != self.address.casefold():
            return f"the name shows another address ({other[0][:80]}) than the mail has ({self.address})"
        odd = _mixed(unicode_form(self.address) or self.address)
        return f"the domain of {self.address} mixes alphabets in one word ({odd}) and may imitate another one" if odd else ""


def addresses_of(header: str) -> list[Address]:
    """Return the addresses of a header of a received mail, at most a hundred, whatever it holds."""
    found = []
    for name, address in getaddresses([header[:20_000]])[:100]:
        plain = " ".join(without_smuggled(address).split())
        if plain or name:
            found.append(Address(_ascii(plain)[:LONGEST] or "(no address)", decoded_words(name)))
    return found


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
        host = _idna(domain)
    except ValueError as error:
        raise MailRefused(f"{field}: {address[:80]!r} has no valid domain") from error
    whole = f"{local}@{host}"
    if len(whole) > LONGEST:
        raise MailRefused(f"{field}: the address {address[:40]!r}... is too long")
    return whole


def header_of(found: tuple[Address, ...]) -> str:
    """Return addresses as a header has them."""
    return ", ".join(formataddr((one.name, one.address)) for one in found)


def unicode_form(address: str) -> str:
    """Return an address with an international domain as people may see it; "" where its domain is plain."""
    local, _, domain = address.rpartition("@")
    if "xn--" not in domain:
        return ""
    import idna

    try:
        return f"{local}@{idna.decode(domain)}"
    except (idna.IDNAError, UnicodeError):
        return ""


def _ascii(address: str) -> str:
    local, at, domain = address.rpartition("@")
    if not at or domain.isascii():
        return address
    try:
        return f"{local}@{_idna(domain)}"
    except ValueError:
        return address


def _idna(domain: str) -> str:
    import idna

    if re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", domain.casefold()) and ".." not in domain:
        return domain.lower()
    try:
        return idna.encode(domain, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise ValueError(str(error)) from error


def _mixed(address: str) -> str:
    """Return the first word of a domain that has letters of several alphabets; "" if none has."""
    for label in address.rpartition("@")[2].split("."):
        scripts = {unicodedata.name(char, "?").split()[0] for char in label if char.isalpha()}
        if len(scripts - {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}) > 1:
            return label
    return ""
