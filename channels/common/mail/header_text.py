"""Texts of others in the headers of a mail that is written: they stay text, whatever they hold."""

from __future__ import annotations

from email.message import EmailMessage
from email.parser import BytesHeaderParser


def literal(text: str) -> str:
    """Return a text that no program takes for an encoded word.

    Python's ``email`` decodes encoded words in a header that is set. What comes out of one may be a line end, with which a stranger's
    subject would write headers of its own into the answer, or a character that no mail can hold.
    """
    return text.replace("=?", "= ?")


def serialised(mail: EmailMessage) -> bytes:
    """Return a mail as bytes. Raises ValueError where a header of it would be read as several."""
    data = mail.as_bytes()
    if BytesHeaderParser().parsebytes(data).keys() != mail.keys():
        raise ValueError("a header holds a line end")
    return data
