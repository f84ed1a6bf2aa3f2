"""WhatsApp as a platform that calls the house: it repeats each call until the house has taken it, and reports what it sent, or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tests.peers.whatsapp import APP_SECRET, NUMBER_ID, TOKEN, WhatsAppPeer

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from tests.fire.platforms import Document, Outage

WHATSAPP_OWNER = "4915123456789"


class CalledHouse(WhatsAppPeer):
    """What a world asks of WhatsApp, but for the port of the house, which a subclass keeps."""

    kind = "whatsapp"
    heavy = ("channels.whatsapp.sending", "channels.whatsapp.own_number")
    tells_all = True
    confirm_seconds = 15.0
    outage: Outage | None
    sends: int
    watcher: Any
    weather: Any
    fetched: Any
    kept_port: Callable[[], int]
    port_of_house: int

    async def __aenter__(self) -> Self:
        self.port_of_house = self.kept_port()
        self.call_at(f"http://127.0.0.1:{self.port_of_house}/hooks/whatsapp/default")
        return await super().__aenter__()

    async def _messages(self, request: web.Request) -> web.Response:
        body = await request.json()
        sends = body.get("type", "reaction") != "reaction"
        if sends:
            await self.weather("before")
        answer = await super()._messages(request)
        if sends:
            self.sends += 1
            await self.weather("after")
            await self.watcher(self.kind, self.sends)
        return answer

    async def _download(self, request: web.Request) -> web.Response:
        await self.fetched()
        return await super()._download(request)

    @property
    def unconfirmed(self) -> int:
        return self.hooks.waiting

    def settings(self) -> dict[str, Any]:
        given = {"phoneNumberId": NUMBER_ID, "accessToken": TOKEN, "appSecret": APP_SECRET, "apiRoot": self.root}
        return {**given, "allowFrom": [WHATSAPP_OWNER], "confirmSeconds": self.confirm_seconds}

    def age(self) -> None:
        self.home.renumber(90_000)

    async def hear(self, text: str, file: Document | None = None) -> None:
        if file is None:
            await self.say(WHATSAPP_OWNER, text)
        else:
            await self.attach(WHATSAPP_OWNER, "document", file.content, file.media_type, name=file.name, caption=text)

    async def correct(self, before: str, text: str) -> None:
        theirs = [one for one in self.home.chats[WHATSAPP_OWNER] if one["from"] != "us"]
        [written] = [one for one in theirs if one["body"].get("text") == {"body": before}]
        fresh = {"type": "text", "text": {"body": text}}
        await self.tell(WHATSAPP_OWNER, "edit", {"original_message_id": written["id"], "message": fresh})

    def shown(self) -> list[str]:
        return self.said(WHATSAPP_OWNER)
