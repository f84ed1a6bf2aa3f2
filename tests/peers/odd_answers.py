"""Stands before a peer and gives answers of its own to some requests, without passing these on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_THE_LINE = frozenset({"connection", "transfer-encoding", "content-length", "content-encoding", "host"})


class OddAnswers:
    """Passes requests on to ``behind``, but answers those whose path contains ``ending`` by itself, as long as ``plan`` has answers.

    An answer is a status, headers and a body: JSON as it is written, or what can be written as JSON. ``taken`` counts them.
    """

    def __init__(self, behind: str, ending: str) -> None:
        self._behind = behind
        self._ending = ending
        self.plan: list[tuple[int, Mapping[str, str], object]] = []
        self.taken = 0

    @property
    def root(self) -> str:
        """The address to go to."""
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        content = await request.read()
        if self.plan and self._ending in request.path and request.method in {"POST", "PUT"}:
            self.taken += 1
            status, headers, body = self.plan.pop(0)
            text = body if isinstance(body, str) else json.dumps(body)
            return web.Response(status=status, text=text, headers={"Content-Type": "application/json", **headers})
        passed = {key: value for key, value in request.headers.items() if key.lower() not in _OF_THE_LINE}
        async with self._session.request(
            request.method, self._behind + request.raw_path, data=content, headers=passed, allow_redirects=False
        ) as answer:
            shown = {key: value for key, value in answer.headers.items() if key.lower() not in _OF_THE_LINE}
            return web.Response(status=answer.status, body=await answer.read(), headers=shown)
