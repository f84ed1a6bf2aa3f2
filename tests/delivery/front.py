"""A platform that is in trouble for a while: a front before a peer that fails in the ways of load balancers and lines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, Self

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from types import TracebackType

Way = Literal["refused", "cut before", "cut after", "silent", "500", "502", "429"]
WAYS: tuple[Way, ...] = ("refused", "cut before", "cut after", "silent", "500", "502", "429")
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>"


class Front:
    """Passes requests on to ``behind``, but for those between ``fail`` and ``hint``. ``failed`` counts the requests that failed."""

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self._way: Way | None = None
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self.port = 0
        self.failed = 0

    @property
    def root(self) -> str:
        """The address to go to."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        await self._listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()
        assert self._session is not None
        await self._session.close()

    async def fail(self, way: Way) -> None:
        """Fail from now on."""
        self._way = way
        if way == "refused":
            await self._close()

    async def hint(self) -> None:
        """Work again."""
        self._way = None
        if self._runner is None:
            await self._listen()

    async def _listen(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    async def _pass(self, request: web.Request) -> web.Response:
        body = await request.read()
        way = self._way
        if way is not None:
            self.failed += 1
        match way:
            case "500":
                return web.json_response({"ok": False, "error_code": 500, "description": "Internal Server Error"}, status=500)
            case "502":
                return web.Response(status=502, text=_PAGE, content_type="text/html")
            case "429":
                told = {"error_code": 429, "description": "Too Many Requests: retry after 1", "parameters": {"retry_after": 1}}
                return web.json_response({"ok": False, **told}, status=429)
            case "silent":
                while self._way == "silent":  # noqa: ASYNC110  (it says nothing, however long it is waited for)
                    await asyncio.sleep(0.05)
                self._cut(request)
            case "cut before" | "refused":
                self._cut(request)
        assert self._session is not None
        headers = {"content-type": request.headers["content-type"]} if "content-type" in request.headers else {}
        async with self._session.request(request.method, self._behind + request.path_qs, data=body, headers=headers) as answer:
            content = await answer.read()
        if way == "cut after":
            self._cut(request)
        return web.Response(status=answer.status, body=content, content_type=answer.content_type)

    def _cut(self, request: web.Request) -> None:
        if request.transport is not None:
            request.transport.abort()
        raise asyncio.CancelledError
