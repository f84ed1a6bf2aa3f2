"""The text of a mail as people would see it: HTML without its invisible parts, read in a process of its own."""

from __future__ import annotations

import asyncio
from typing import Final

from agent.characters import without_smuggled
from agent.errors import FetchFailed
from agent.tools.web.fetch_protocol import Fetched
from agent.tools.web.page_reader import PageReader
from agent.tools.web.page_text import decoded_as, guess_told
from channels.common.mail.stored_mail import StoredMail, TextPart

SECONDS: Final = 30.0
"""How long the HTML of one mail may take to read."""


async def visible_text(html: bytes, charset: str, pages: PageReader | None = None) -> str:
    """Return what a person would see of the HTML of a mail, as Markdown. Raises ValueError where it cannot be read."""
    reader = pages or PageReader(seconds=SECONDS)
    try:
        read = await reader.read(Fetched(url="", status=200, media_type="text/html", charset=charset, body=html), whole=True)
    except FetchFailed as error:
        raise ValueError(str(error)) from error
    notes = "".join(f"\n[{note.replace('page', 'mail')}]" for note in read.notes)
    return f"{read.text}{notes}"


def plain_text(data: bytes, charset: str) -> str:
    """Return a plain text; where its encoding had to be guessed, a line says so."""
    text, guess = decoded_as(data, charset, html=False)
    text = without_smuggled(text.replace("\r\n", "\n").replace("\r", "\n")).strip()
    return f"{text}\n[{guess_told(guess)}]" if guess and text else text


class MessageTexts:
    """Turns the texts of mails into plain text."""

    def __init__(self, pages: PageReader | None = None) -> None:
        self._pages = pages or PageReader(seconds=SECONDS)

    async def text_of(self, mail: StoredMail) -> str:
        """Return the text of a mail; what cannot be read is said in its place."""
        found = [await self._one(part) for part in mail.texts]
        return "\n\n".join(text for text in found if text)

    async def _one(self, part: TextPart) -> str:
        if part.media_type != "text/html":
            return await asyncio.to_thread(plain_text, part.data, part.charset)
        try:
            return await visible_text(part.data, part.charset, self._pages)
        except ValueError as error:
            return f"[the HTML of this mail could not be read: {error}]"
