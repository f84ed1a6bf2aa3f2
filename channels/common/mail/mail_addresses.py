"""Mail addresses of others, as they are shown, and as headers have them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from email.utils import formataddr, getaddresses
from typing import Final

from channels.common.control_characters import visible
from channels.common.mail.header_text import literal
from channels.common.mail.mime_parts import decoded_words

LONGEST: Final = 254
"""Characters of an address (RFC 5321)."""
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
        plain = " ".join(visible(address).split())
        if plain or name:
            found.append(Address(_ascii(plain)[:LONGEST] or "(no address)", decoded_words(name)))
    return found


def header_of(found: tuple[Address, ...]) -> str:
    """Return addresses as a header has them."""
    return ", ".join(formataddr((literal(one.name), one.address)) for one in found)


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
        return f"{local}@{ascii_domain(domain)}"
    except ValueError:
        return address


def ascii_domain(domain: str) -> str:
    """Return a domain as servers know it, in small letters. Raises ValueError where it is none."""
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
