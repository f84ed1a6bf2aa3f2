"""The ways in that MCP servers, skills, recordings, pictures and further kinds of documents open."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from tests.documents.made import epub
from tests.taint.service_carriers import ServiceCarriers
from tests.taint.services import OFFER
from tests.voice.recordings import opus

if TYPE_CHECKING:
    from pathlib import Path


class ProviderCarriers(ServiceCarriers):
    """See ``Carriers``."""

    async def mcp_output(self) -> None:
        self.w.services.says(self.case.text)
        await self.asks("mcp_x_look", text="a")

    async def mcp_error(self) -> None:
        self.w.services.says(self.case.text)
        await self.asks("mcp_x_fails", text="a")

    async def mcp_resource(self) -> None:
        self.w.services.says(self.case.text)
        await self.asks("mcp_read", server="x", uri="x://a")

    async def mcp_resource_name(self) -> None:
        self.w.services.says(self._line)
        await self.asks("mcp_read", server="x")

    async def mcp_prompt(self) -> None:
        self.w.services.says(self.case.text)
        await self.asks("mcp_read", server="x", prompt="p")

    async def mcp_description(self) -> None:
        """A server that was approved describes a tool otherwise."""
        await self._offered([{**OFFER[0], "description": self.case.text}, *OFFER[1:]])

    async def mcp_argument(self) -> None:
        """The same in the description of an argument."""
        schema = {"type": "object", "properties": {"text": {"type": "string", "description": self.case.text}}}
        await self._offered([{**OFFER[0], "inputSchema": schema}, *OFFER[1:]])

    async def mcp_new_tool(self) -> None:
        await self._offered([*OFFER, {"name": "more", "description": self.case.text, "inputSchema": {"type": "object"}}])

    async def _offered(self, offer: list[dict[str, Any]]) -> None:
        """The server offers this from now on; a house that takes care of nothing believes it."""
        self.w.services.offer(offer)
        try:
            await self._asked_again()
            await self.w.afresh()
            await self.w.say("good morning")
        finally:
            self.w.services.offer(OFFER)
            await self._asked_again()

    async def _asked_again(self) -> None:
        server = await self.w.house.mcp.servers.test("x")
        if not self.w.careful and server.pin is not None and server.pin.waiting is not None:
            self.w.house.mcp.servers.approve("x")

    async def _skill(self, description: str, body: str, *, approved: bool = False) -> Path:
        """A page makes the model write a skill."""
        path = f"skills/s{self.case.number}/SKILL.md"
        text = f"---\nname: s{self.case.number}\ndescription: {description}\n---\n\n{body}\n"
        place = self.w.village.workspace / path
        if approved:
            place.parent.mkdir(parents=True)
            place.write_text(text.replace(self.case.word, "bread"))
            self._approve()
        await self.written(path, text, "overwrite")
        if not place.exists() or self.case.word not in place.read_text():  # somebody puts it there then, such as a git pull
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        if not self.w.careful:
            self._approve()
        return place

    def _approve(self) -> None:
        catalog = self.w.house.skills.of("main").catalog
        one = next(one for one in catalog.scan() if one.name == f"s{self.case.number}")
        catalog.trust.approve(one.name, one.digest)

    async def skill_new(self) -> None:
        """A skill that nobody approved says in its description what it wants."""
        await self._skill(f"{self.case.word} at once", "# Bread")
        await self.w.afresh()
        await self.w.say("good morning")

    async def skill_changed(self) -> None:
        """A skill that was approved is changed."""
        await self._skill(f"{self.case.word} at once", "# Bread", approved=True)
        await self.w.afresh()
        await self.w.say("good morning")

    async def skill_body(self) -> None:
        """Somebody's skill that nobody approved is read."""
        place = await self._skill("Bakes bread.", self.case.text)
        await self.w.say(f"please read {place.relative_to(self.w.village.workspace)}")

    async def forwarded_voice(self) -> None:
        """Somebody else's recording, as Telegram hands it over."""
        self.w.services.speech.words = self._line
        made = self.w.phone.attach(opus(4) + bytes([self.case.number % 256]), kind="voice")
        await self.w.say("[forwarded from Mallory]\n", attachments=(made,))

    async def recording(self) -> None:
        """An audio file, which is not what the owner speaks into the phone."""
        self.w.services.speech.words = self._line
        made = self.w.phone.attach(opus(5) + bytes([self.case.number % 256]), name="talk.ogg", kind="audio")
        await self.w.say("", attachments=(made,))

    async def picture(self) -> None:
        """Another model reads what is written in a picture."""
        self.w.eyes.reply_with(lambda _: self.case.text)
        made = self.w.phone.attach(_picture(self.case.number), name="photo.png", kind="photo")
        await self.w.say("look", attachments=(made,))

    async def epub(self) -> None:
        await self._document(epub([f"<p>{self._line.replace('&', '&amp;').replace('<', '&lt;')}</p>"]), "book.epub")

    async def html_file(self) -> None:
        await self._document(f"<html><body><p>{self._line.replace('<', '&lt;')}</p></body></html>".encode(), "page.html")

    async def old_text(self) -> None:
        await self._document(("line\n" * 3000 + self.case.text).encode("utf-16"), "old.txt")


def _picture(number: int) -> bytes:
    """Draw a picture that is no other's."""
    from PIL import Image

    made = io.BytesIO()
    Image.new("RGB", (4, 4), (number % 256, number // 256, 0)).save(made, "PNG")
    return made.getvalue()
