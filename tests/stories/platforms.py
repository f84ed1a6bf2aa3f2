"""Slack and Discord as programs of their own (`tests/peers`), reached by the wire alone, with an unreliable line before them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aiohttp import ClientSession, ClientTimeout, web

from tests.stories.wire import Away, Cut, Port, page_502, reply

if TYPE_CHECKING:
    from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host"})
PEOPLE = {
    "slack": ["U0STORYANNA", "U0STORYBEN", "U0STORYCLEO"],
    "discord": ["700000000000000042", "1180000000000000077", "81384788765712384"],
}
"""Ids in the forms that the platforms draw: Slack's letters, Discord's numbers of 17 to 19 digits."""


class Platform:
    """One of the two programs, and a port before its web API at which calls fail while ``away`` is set."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.away: Away | None = None
        self.failed = 0
        self.port = Port(self._serve)
        self._told: dict[str, str] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, f"tests/peers/{self.kind}.py", "--port", "0", stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        assert self._process.stdout is not None
        self._told = json.loads(await self._process.stdout.readline())
        self._session = ClientSession(timeout=ClientTimeout(total=60), auto_decompress=False)
        await self.port.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.port.close()
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    @property
    def _origin(self) -> str:
        return "/".join(self._told["root"].split("/")[:3])

    def settings(self) -> dict[str, Any]:
        """Return its section of the settings."""
        root = self._told["root"].replace(self._origin, self.port.root)
        known: dict[str, Any] = {"apiRoot": root, "dm": {"allowFrom": PEOPLE[self.kind]}}
        if self.kind == "slack":
            return {**known, "botToken": self._told["botToken"], "appToken": self._told["appToken"]}
        return {**known, "token": self._told["token"], "gatewayUrl": self._told["gateway"]}

    async def control(self, what: str, **given: Any) -> Any:
        """Do what a person does, or look at what they see; calls of the bot take another way."""
        assert self._session is not None
        async with self._session.post(f"{self._origin}/control/{what}", json=given) as answer:
            answer.raise_for_status()
            return json.loads(await answer.read())

    async def until_connected(self, seconds: float) -> None:
        """Wait until the bot listens, but no longer than that."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    state = await self.control("state")
                    if state.get("connections") or state.get("identified"):
                        return
                    await asyncio.sleep(0.3)

    async def say(self, user: str, text: str) -> None:
        """Let somebody write in private."""
        await self.control("say", user=user, text=text)

    async def texts(self, user: str) -> list[str]:
        """Return what a person reads from the bot in private."""
        if self.kind == "slack":
            return [str(one) for one in await self.control("said", user=user)]
        return [str(text) for who, text in await self.control("transcript", user=user) if who == "bot"]

    async def be_away(self, how: Away, seconds: float) -> None:
        """Let the web API fail in one way for a while; the connection by which the platform tells the bot stays."""
        self.away = how
        if how is Away.REFUSED:
            await self.port.shut()
        await asyncio.sleep(seconds)
        if how is Away.REFUSED:
            await self.port.open()
        self.away = None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.away is None:
            return await self._forward(request)
        self.failed += 1
        match self.away:
            case Away.CUT_AFTER:
                await self._forward(request)
            case Away.SILENT:
                await asyncio.sleep(3600)
            case Away.JSON_500 if self.kind == "slack":
                return reply({"ok": False, "error": "internal_error"}, 500)
            case Away.JSON_500:
                return reply({"message": "500: Internal Server Error", "code": 0}, 500)
            case Away.HTML_502:
                return page_502()
            case Away.WAIT_429 if self.kind == "slack":
                return reply({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": "3"})
            case Away.WAIT_429:
                told = {"message": "You are being rate limited.", "retry_after": 3.0, "global": False}
                return reply(told, 429, {"Retry-After": "3", "X-RateLimit-Scope": "user", "Via": "1.1 google"})
        raise Cut

    async def _forward(self, request: web.Request) -> web.Response:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP_BY_HOP}
        body = await request.read()
        async with self._session.request(
            request.method, f"{self._origin}{request.rel_url}", headers=headers, data=body
        ) as answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in HOP_BY_HOP}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)
