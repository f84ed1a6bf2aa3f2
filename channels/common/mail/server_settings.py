"""Settings of a mail server and of a mailbox's folders, which several sections have."""

import ipaddress
import re
from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from channels.common.shared_settings import Section

Security = Literal["tls", "starttls", "none"]
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+")
DEFAULT_PORTS: Final[dict[tuple[str, str], int]] = {
    ("imap", "tls"): 993,
    ("imap", "starttls"): 143,
    ("imap", "none"): 143,
    ("smtp", "tls"): 465,
    ("smtp", "starttls"): 587,
    ("smtp", "none"): 25,
}
"""The registered ports of each protocol (RFC 8314, RFC 3501, RFC 6409)."""


def _host(text: str) -> str:
    if _HOST.fullmatch(text) is None:
        raise ValueError(f"{text[:80]!r} is no name of a server (write it like imap.example.org)")
    return text


def mail_address(text: str) -> str:
    """Return a mail address, with its name if it has one. Raises ValueError."""
    name, address = parseaddr(text)
    if any(ord(char) < ord(" ") for char in text) or re.fullmatch(r"[^@\s<>\"(),;]+@[^@\s<>\"(),;]+", address) is None:
        raise ValueError(f"{text[:80]!r} is no mail address (write it like ann@example.org or Ann <ann@example.org>)")
    return f"{name} <{address}>" if name else address


class MailServer(Section):
    """A server of a mail account."""

    host: Annotated[str, AfterValidator(_host)]
    """The server's name, such as imap.example.org."""
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """The port. Unset: the usual one for ``security`` (IMAP: 993 or 143; SMTP: 465, 587 or 25)."""
    security: Security = "tls"
    """``tls``: encrypted from the first byte. ``starttls``: encrypted after the greeting, or not used at all. ``none``: not encrypted, for this machine only."""  # noqa: E501
    allow_plain: bool = False
    """Allow ``security: none`` for a server on another machine: the password and all mail can then be read on the way."""
    ca_file: Path | None = None
    """Certificates (PEM) to check the server with, in place of the system's; for a server with a certificate of its own."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.security == "none" and not self.allow_plain and not is_loopback(self.host):
            raise ValueError(
                f"security: none would send the password to {self.host} unencrypted; use tls or starttls, "
                "or set allowPlain: true if nobody can listen on the way"
            )
        return self


def is_loopback(host: str) -> bool:
    """Return whether a host names this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


class MailFolders(Section):
    """Folders by their use. What is unset is found by what the server says of its folders, then by usual names."""

    sent: str | None = None
    """The folder of sent mail."""
    drafts: str | None = None
    """The folder of drafts."""
    archive: str | None = None
    """The folder of archived mail."""
    trash: str | None = None
    """The folder of deleted mail."""
