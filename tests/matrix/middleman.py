"""Stands between a channel and a real homeserver: passes everything on, and breaks what a test asks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import aiohttp
from aiohttp import web

from tests.peers.matrix import Fault, broken_by, merge
from tests.peers.matrix_state import Refused
from tests.peers.site import Site

if TYPE_CHECKING:
    import asyncio

_HOP = frozenset(
    {"connection", "content-encoding", "content-length", "transfer-encoding", "host", "keep-alive", "date", "server"}
)


class Middleman:
    """A proxy. ``extra`` are parts that the next syncs get besides."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._site = Site()
        self._session: aiohttp.ClientSession | None = None
        self._syncing: set[asyncio.Task[Any]] = set()
        self.faults: list[Fault] = []
        self.extra: list[dict[str, Any]] = []
        self.port = 0
        self.seen: list[str] = []

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=True)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self.port = await self._site.open(app, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._site.close()
        assert self._session is not None
        await self._session.close()

    async def go_away(self) -> None:
        await self._site.away()

    async def come_back(self) -> None:
        await self._site.back()

    async def cut(self) -> None:
        """Cut all connections."""
        await self._site.away()
        await self._site.back()

    def fault(self, where: str, kind: str, **more: Any) -> None:
        self.faults.append(Fault(where, kind, **more))

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(f"{request.method} {request.path}")
        fault = next((one for one in self.faults if one.where in request.path and one.times > 0), None)
        if fault is not None:
            fault.times -= 1
        try:
            await broken_by(fault, request, "before")
            answer = await self._asked(request, body)
            await broken_by(fault, request, "after")
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status)
        return answer

    async def _asked(self, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        query = request.raw_path.partition("?")[2]
        is_sync = request.path.endswith("/sync")
        if is_sync and self.extra and "since=" in query:
            query = "&".join("timeout=0" if part.startswith("timeout=") else part for part in query.split("&"))
        url = self._target + request.raw_path.partition("?")[0] + (f"?{query}" if query else "")
        from yarl import URL

        async with self._session.request(
            request.method, URL(url, encoded=True), data=body or None, headers=headers
        ) as response:
            raw = await response.read()
            kept = {key: value for key, value in response.headers.items() if key.lower() not in _HOP}
            if is_sync and response.status == 200 and self.extra:
                told = json.loads(raw)
                while self.extra:
                    merge(told, self.extra.pop(0))
                raw = json.dumps(told).encode()
            return web.Response(body=raw, status=response.status, headers=kept)
