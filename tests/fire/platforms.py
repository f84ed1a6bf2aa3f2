"""Platforms by which a person speaks to a house that gets killed. Each lives outside of every gateway, and keeps what is seen there."""

from __future__ import annotations

import errno
import itertools
import socket
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from tests.peers.slack import SlackPeer
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aiohttp import web

    Watcher = Callable[[str, int], Awaitable[None]]

OWNER = 4711
SLACK_OWNER = "U0OWNER01"
HOOK_SECRET = "the-hook-of-a-house-under-fire"


async def nobody(_peer: str, _count: int) -> None:
    """Look away."""


class Platform(Protocol):
    """What a world asks of a platform. ``watcher`` looks on between the effect of a send and its answer; ``sends`` counts those."""

    kind: ClassVar[str]
    heavy: ClassVar[tuple[str, ...]]
    """What a gateway imports for it, so that the nursery can do it once."""
    tells_all: ClassVar[bool]
    """Whether all that the house has not taken is ``unconfirmed``; else the house looks back once it is connected."""
    sends: int
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

    async def hear(self, text: str) -> None:
        """Let the person write."""

    def shown(self) -> list[str]:
        """What the person reads from the bot, in order."""


class WatchedTelegram(TelegramPeer):
    """Is polled."""

    kind = "telegram"
    heavy = ()
    tells_all = True
    port_of_house = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sends = 0
        self.watcher: Watcher = nobody

    async def _do(self, method: str, arguments: dict[str, Any]) -> Any:
        result = await super()._do(method, arguments)
        if method in {"sendMessage", "editMessageText"}:
            self.sends += 1
            await self.watcher(self.kind, self.sends)
        return result

    def settings(self) -> dict[str, Any]:
        given = {"botToken": TOKEN, "apiRoot": self.root, "pacing": False, "pollTimeoutSeconds": 2}
        return {**given, "allowFrom": [str(OWNER)]}

    def age(self) -> None:
        self.renumber(90_000)
        self.chats._ids = itertools.count(90_000)

    async def hear(self, text: str) -> None:
        await self.say(OWNER, text)

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

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
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


class WatchedSlack(SlackPeer):
    """Tells the house over a connection that the house opens, and again what it did not acknowledge."""

    kind = "slack"
    heavy = ("channels.slack.listening", "channels.slack.receiving", "channels.slack.sending", "slack_sdk.socket_mode.aiohttp")
    tells_all = False
    port_of_house = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sends = 0
        self.watcher: Watcher = nobody

    async def _web(self, request: web.Request) -> web.Response:
        answer = await super()._web(request)
        if request.match_info["method"] in {"chat.postMessage", "chat.update"}:
            self.sends += 1
            await self.watcher(self.kind, self.sends)
        return answer

    @property
    def unconfirmed(self) -> int:
        return len(self.waiting)

    def settings(self) -> dict[str, Any]:
        tokens = {"botToken": self.bot_token, "appToken": self.app_token}
        return {**tokens, "apiRoot": self.root, "dm": {"allowFrom": [SLACK_OWNER]}}

    def age(self) -> None:
        """Time stamps are never the same again."""

    async def hear(self, text: str) -> None:
        await self.say(SLACK_OWNER, text)

    def shown(self) -> list[str]:
        return self.said(self.dm(SLACK_OWNER))


PLATFORMS: dict[str, type[Platform]] = {"telegram": WatchedTelegram, "telegram webhook": CallingTelegram, "slack": WatchedSlack}
