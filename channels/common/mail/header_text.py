"""Texts of others in the headers of a mail that is written: they stay text, whatever they hold."""

from __future__ import annotations

import secrets
from email.headerregistry import BaseHeader, HeaderRegistry
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.policy import SMTP
from typing import Final


class _Headers(HeaderRegistry):
    """Keeps the classes of headers, of which the library makes one anew for each header of each mail: a quarter of writing one."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, type[BaseHeader]] = {}

    def __getitem__(self, name: str) -> type[BaseHeader]:
        """Return the class of a header."""
        found = self._made.get(key := name.lower())
        if found is None:
            found = self._made[key] = super().__getitem__(name)
        return found


POLICY: Final = SMTP.clone(cte_type="7bit", max_line_length=78, header_factory=_Headers())
"""How mails are written: nothing but ASCII on the wire, which every server takes."""


def literal(text: str) -> str:
    """Return a text that no program takes for an encoded word.

    Python's ``email`` decodes encoded words in a header that is set. What comes out of one may be a line end, with which a stranger's
    subject would write headers of its own into the answer, or a character that no mail can hold.
    """
    return text.replace("=?", "= ?")


def serialised(mail: EmailMessage) -> bytes:
    """Return a mail as bytes. Raises ValueError where a header of it would be read as several."""
    for part in mail.walk():
        if part.get_content_maintype() == "multipart" and part.get_boundary() is None:
            part.set_boundary(f"==={secrets.token_hex(16)}===")  # the library would compile, and keep, a pattern for each mail
    data = mail.as_bytes()
    if BytesHeaderParser().parsebytes(data).keys() != mail.keys():
        raise ValueError("a header holds a line end")
    return data
