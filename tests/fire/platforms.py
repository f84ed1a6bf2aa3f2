"""Platforms by which a person speaks to a house that gets killed. Each lives outside of every gateway, and keeps what is seen there."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from tests.fire.mailbox import ForgetfulMail, WatchedMail
from tests.fire.whatsapp_house import CalledHouse
from tests.peers.discord import DiscordPeer
from tests.peers.discord_links import Links
from tests.peers.discord_state import Channel
from tests.peers.matrix import TOKEN as MATRIX_TOKEN
from tests.peers.matrix import MatrixPeer
from tests.peers.matrix_state import SERVER
from tests.peers.slack import SlackPeer
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    Watcher = Callable[[str, int], Awaitable[None]]

OWNER = 4711
SLACK_OWNER = "U0OWNER01"
DISCORD_OWNER = "700000000000000042"
MATRIX_OWNER = f"@anna:{SERVER}"
DISCORD_DM = "700000000000000101"
"""The private channel has its number for life, though each house of a scenario meets a server of its own."""
HOOK_SECRET = "the-hook-of-a-house-under-fire"


@dataclass(frozen=True)
class Document:
    """A file that comes with a message."""

    name: str
    content: bytes
    media_type: str = "text/plain"


@dataclass(frozen=True)
class Outage:
    """Nobody reaches the platform for some seconds, from ``before`` a send has its effect, or ``after`` it had."""

    send: int
    seconds: float
    cut: Literal["before", "after"]


async def nobody(_peer: str, _count: int) -> None:
    """Look away."""


class Platform(Protocol):
    """What a world asks of a platform. ``watcher`` looks on between the effect of a send and its answer, and before a file is given.

    ``sends`` and ``fetches`` count those.
    """

    kind: ClassVar[str]
    heavy: ClassVar[tuple[str, ...]]
    """What a gateway imports for it, so that the nursery can do it once."""
    tells_all: ClassVar[bool]
    """Whether all that the house has not taken is ``unconfirmed``; else the house looks back once it is connected."""
    outage: Outage | None
    sends: int
    fetches: int
    watcher: Watcher
    port_of_house: int
    """Where it calls the house; 0 where the house calls it."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    @property
    def unconfirmed(self) -> int:
        """How much the house has not taken yet."""

    def settings(self) -> dict[str, Any]:
        """Its section of the settings."""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that the house did makes the condition true."""

    def age(self) -> None:
        """Let numbers be other ones than those that the house heard in its youth."""

    async def hear(self, text: str, file: Document | None = None) -> None:
        """Let the person write."""

    async def correct(self, before: str, text: str) -> None:
        """Let the person change what they wrote."""

    def shown(self) -> list[str]:
        """What the person reads from the bot, in order."""


class Watched:
    """What every platform has: its counters, whoever looks on, and an outage that is still to come."""

    outage: Outage | None = None
    sends = 0
    fetches = 0
    watcher: Watcher = staticmethod(nobody)

    async def weather(self, when: Literal["before", "after"]) -> None:
        """Let the outage begin where this is its moment; whoever asked gets no answer."""
        outage = self.outage
        if outage is None or outage.cut != when or outage.send != self.sends + (when == "before"):
            return
        self.outage = None
        await self.go_away()
        self._returning = asyncio.ensure_future(self._return(outage.seconds))
        raise asyncio.CancelledError

    async def _return(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.come_back()

    async def go_away(self) -> None:
        raise NotImplementedError

    async def come_back(self) -> None:
        raise NotImplementedError

    async def fetched(self) -> None:
        """Note that the house asked for the content of a file."""
        self.fetches += 1
        await self.watcher("file", self.fetches)


class WatchedTelegram(TelegramPeer, Watched):
    """Is polled."""

    kind = "telegram"
    heavy = ()
    tells_all = True
    port_of_house = 0

    async def _do(self, method: str, arguments: dict[str, Any]) -> Any:
        sends = method in {"sendMessage", "editMessageText"}
        if sends:
            await self.weather("before")
        result = await super()._do(method, arguments)
        if sends:
            self.sends += 1
            await self.weather("after")
            await self.watcher(self.kind, self.sends)
        return result

    async def _download(self, request: web.Request) -> web.StreamResponse:
        await self.fetched()
        return await super()._download(request)

    def settings(self) -> dict[str, Any]:
        given = {"botToken": TOKEN, "apiRoot": self.root, "pacing": False, "pollTimeoutSeconds": 2}
        return {**given, "allowFrom": [str(OWNER)]}

    def age(self) -> None:
        self.renumber(90_000)
        self.chats.number_from(90_000)

    async def hear(self, text: str, file: Document | None = None) -> None:
        if file is None:
            await self.say(OWNER, text)
        else:
            kind = {"image/jpeg": "photo", "audio/ogg": "voice"}.get(file.media_type, "document")
            await self.attach(OWNER, kind, file.content, file.name, file.media_type, text=text)

    async def correct(self, before: str, text: str) -> None:
        [written] = [one for one in self.chats.messages[OWNER] if one.get("text") == before]
        await self.edit(OWNER, written["message_id"], text)

    def shown(self) -> list[str]:
        return [text for who, text in self.transcript(OWNER) if who == "bot"]


class CallingTelegram(WatchedTelegram):
    """Calls the house, and again and again until it takes what there is."""

    heavy = ("channels.telegram.webhook",)

    async def __aenter__(self) -> Self:
        self.local = True  # calls addresses without TLS
        self._places = _kept_places()
        self.port_of_house = self._places[0].getsockname()[1]
        return await super().__aenter__()

    async def __aexit__(self, kind: object, *error: object) -> None:
        await super().__aexit__(kind, *error)
        for place in self._places:
            place.close()

    def settings(self) -> dict[str, Any]:
        hook = {"webhookUrl": f"http://127.0.0.1:{self.port_of_house}", "webhookSecret": HOOK_SECRET}
        return {**super().settings(), **hook}


def _kept_places() -> list[socket.socket]:
    """Keep a port for the house while that is dead. Nobody listens at these; who sets the same option, as the house does, may."""
    for _ in range(20):
        places: list[socket.socket] = []
        try:
            for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
                place = socket.socket(family)
                place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                place.bind((address, places[0].getsockname()[1] if places else 0))
                places.append(place)
        except OSError as error:
            if place not in places:
                place.close()
            if error.errno != errno.EADDRINUSE:  # there is no IPv6, and the house does without it too
                return places
            for place in places:
                place.close()
        else:
            return places
    raise OSError(errno.EADDRINUSE, "no port is free on both families")


class WatchedSlack(SlackPeer, Watched):
    """Tells the house over a connection that the house opens, and again what it did not acknowledge."""

    kind = "slack"
    heavy = (
        "channels.slack.socket_mode",
        "channels.slack.receiving",
        "channels.slack.sending",
        "slack_sdk.socket_mode.aiohttp",
    )
    tells_all = False
    port_of_house = 0

    async def _web(self, request: web.Request) -> web.Response:
        sends = request.match_info["method"] in {"chat.postMessage", "chat.update"}
        if sends:
            await self.weather("before")
        answer = await super()._web(request)
        if sends:
            self.sends += 1
            await self.weather("after")
            await self.watcher(self.kind, self.sends)
        return answer

    async def _download(self, request: web.Request) -> web.StreamResponse:
        await self.fetched()
        return await super()._download(request)

    @property
    def unconfirmed(self) -> int:
        return len(self.waiting)

    def settings(self) -> dict[str, Any]:
        tokens = {"botToken": self.bot_token, "appToken": self.app_token}
        return {**tokens, "apiRoot": self.root, "dm": {"allowFrom": [SLACK_OWNER]}}

    def age(self) -> None:
        """Time stamps are never the same again."""

    async def hear(self, text: str, file: Document | None = None) -> None:
        if file is None:
            await self.say(SLACK_OWNER, text)
        else:
            shared = self.upload(SLACK_OWNER, file.name, file.content, file.media_type)
            await self.say(SLACK_OWNER, text, subtype="file_share", files=[shared])

    async def correct(self, before: str, text: str) -> None:
        [written] = [one for one in self.messages[self.dm(SLACK_OWNER)] if one["text"] == before]
        await self.edit(SLACK_OWNER, written["ts"], text)

    def shown(self) -> list[str]:
        return self.said(self.dm(SLACK_OWNER))


class WatchedLinks(Links):
    peer: WatchedDiscord

    async def serve(self, request: web.Request) -> web.StreamResponse:
        await self.peer.fetched()
        return await super().serve(request)


class WatchedDiscord(DiscordPeer, Watched):
    """Tells whoever listens, once, and never asks whether it was kept: a house has to read on by itself.

    Whoever never wrote to this house before does so once it is there.
    """

    kind = "discord"
    heavy = (
        "channels.discord.attachments",
        "channels.discord.bot_reactions",
        "channels.discord.receiving",
        "channels.discord.sending",
    )
    tells_all = False
    port_of_house = 0
    on_its_way = 0.3
    """Seconds for which what was told may not have been seen by the house yet."""
    patience = 8.0
    """Seconds of doing nothing after which a house that owes an answer is taken to owe it for ever."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.links = WatchedLinks(self)
        self._acquainted = False
        self._held: list[tuple[str, Document | None]] = []
        self._told_at = self._asked_at = -self.patience
        self._place = self.add(Channel(DISCORD_DM, 1, person=DISCORD_OWNER))

    async def _rest(self, request: web.Request) -> web.Response:
        self._asked_at = time.monotonic()
        sends = request.method in {"POST", "PATCH"} and re.search(r"channels/\d+/messages(/\d+)?$", request.path)
        if sends:
            await self.weather("before")
        answer = await super()._rest(request)
        if sends:
            self.sends += 1
            await self.weather("after")
            await self.watcher(self.kind, self.sends)
        return answer

    async def changed(self) -> None:
        await super().changed()
        if self.identified and self._held:
            held, self._held = self._held, []
            for text, file in held:
                await self.hear(text, file)

    @property
    def unconfirmed(self) -> int:
        now = time.monotonic()
        if now - self._told_at < self.on_its_way:
            return 1
        owed = bool(self._place.messages) and not self._place.messages[-1]["author"]["bot"]
        return len(self._held) + (owed and now - max(self._told_at, self._asked_at) < self.patience)

    def settings(self) -> dict[str, Any]:
        addresses = {"apiRoot": self.root, "gatewayUrl": self.gateway}
        return {"token": self.token, **addresses, "dm": {"allowFrom": [DISCORD_OWNER]}}

    def age(self) -> None:
        self._acquainted = True

    async def hear(self, text: str, file: Document | None = None) -> None:
        if not (self._acquainted or self.identified):
            self._held.append((text, file))
            return
        self._told_at = time.monotonic()
        await self.say(DISCORD_OWNER, text, files=[(file.name, file.media_type, file.content)] if file else None)

    async def correct(self, before: str, text: str) -> None:
        [written] = [one for one in self._place.messages if one["content"] == before]
        self._told_at = time.monotonic()
        await self.edit(written["id"], text)

    def shown(self) -> list[str]:
        return self.said(self._place)


def away(platform: str, dice: random.Random) -> Callable[[], Platform]:
    """Return what makes a platform with an outage of 1 to 5 seconds at one of its first sends."""
    outage = Outage(dice.randint(1, 3), dice.uniform(1.0, 5.0), dice.choice(("before", "after")))

    def made() -> Platform:
        peer = PLATFORMS[platform]()
        peer.outage = outage
        return peer

    return made


class WatchedMatrix(MatrixPeer, Watched):
    """Tells the house from where it read on, and takes each transaction once."""

    kind = "matrix"
    heavy = ("channels.matrix.device", "channels.matrix.own_reactions", "channels.matrix.receiving", "channels.matrix.sending")
    tells_all = False
    port_of_house = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._place = self.home.made(MATRIX_OWNER, direct=True)
        self._taken = 0
        self._begun = False
        self._held: list[tuple[str, Document | None]] = []

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        sends = "/send/m.room.message/" in request.path
        if sends:
            await self.weather("before")
        if "since" in request.query:
            self._taken = max(self._taken, int(request.query["since"][1:]))
            self._begun = True
            held, self._held = self._held, []
            for text, file in held:
                await self.hear(text, file)
        if "/media/download/" in request.path:
            await self.fetched()
        answer = await super()._answer(request)
        if sends:
            self.sends += 1
            await self.weather("after")
            await self.watcher(self.kind, self.sends)
        return answer

    @property
    def unconfirmed(self) -> int:
        fresh = [one for one in self._place.events if one["_pos"] > self._taken and one["sender"] == MATRIX_OWNER]
        return len(self._held) + len(fresh)

    def settings(self) -> dict[str, Any]:
        given = {"homeserver": self.root, "accessToken": MATRIX_TOKEN, "encryption": False, "syncSeconds": 5}
        return {**given, "dm": {"allowFrom": [MATRIX_OWNER]}}

    def age(self) -> None:
        self.home.renumber(90_000)

    async def hear(self, text: str, file: Document | None = None) -> None:
        if not self._begun:
            self._held.append((text, file))
            return
        if file is None:
            await self.say(self._place, MATRIX_OWNER, text)
            return
        media = f"given{self.home.number()}"
        self.home.media[media] = (file.media_type, file.content)
        info = {"size": len(file.content), "mimetype": file.media_type}
        named = {"filename": file.name, "url": f"mxc://{SERVER}/{media}", "info": info}
        await self.say(self._place, MATRIX_OWNER, text, **{"msgtype": "m.file", **named})

    async def correct(self, before: str, text: str) -> None:
        [written] = [one for one in self._place.events if one["content"].get("body") == before]
        relation = {"rel_type": "m.replace", "event_id": written["event_id"]}
        fresh = {"msgtype": "m.text", "body": text}
        await self.say(self._place, MATRIX_OWNER, f"* {text}", **{"m.new_content": fresh, "m.relates_to": relation})

    def shown(self) -> list[str]:
        return self.said(self._place)


class WatchedWhatsApp(CalledHouse, Watched):
    """Calls the house, and reports what it sent, which settles what is in doubt."""

    def kept_port(self) -> int:
        self._places = _kept_places()
        return int(self._places[0].getsockname()[1])

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        for place in self._places:
            place.close()


class SilentWhatsApp(WatchedWhatsApp):
    """Reports nothing, so that what is in doubt is said again with a mark."""

    confirm_seconds = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reports = ()


PLATFORMS: dict[str, type[Platform]] = {
    "telegram": WatchedTelegram,
    "telegram webhook": CallingTelegram,
    "slack": WatchedSlack,
    "discord": WatchedDiscord,
    "matrix": WatchedMatrix,
    "whatsapp": WatchedWhatsApp,
    "whatsapp without reports": SilentWhatsApp,
    "email": WatchedMail,
    "email without copies": ForgetfulMail,
}
