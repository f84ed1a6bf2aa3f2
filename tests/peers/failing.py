"""The failures of a bad day, as a middleware in front of a peer's handlers: the same for every platform but for its words."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.typedefs import Handler, Middleware

    from tests.peers.mood import Failure, Mood

    Words = Callable[[web.Request, int], dict[str, Any]]

STATUSES = (500, 502, 503, 504)
LAST = web.ResponseKey("events before the cut", int)
_LAST = web.RequestKey("events before the cut", int)
MOST_EVENTS = 6
PAGE = (
    "<html>\r\n<head><title>{status} {phrase}</title></head>\r\n<body>\r\n<center><h1>{status} {phrase}</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


def failing(day: Callable[[web.Request], Mood | None], words: Words) -> Middleware:
    """Return a middleware that draws a failure for each request.

    ``day`` returns the mood of a request, or None for one that never fails; ``words`` the platform's JSON for a status.
    """

    @web.middleware
    async def fail(request: web.Request, handler: Handler) -> web.StreamResponse:
        mood = day(request)
        failure = mood.failure() if mood is not None else None
        if mood is None or failure is None:
            return await handler(request)
        if failure.endswith("before"):
            await request.read()
            return _failed(request, failure, mood, words)
        request[_LAST] = mood.pick(*range(MOST_EVENTS))
        answer = await handler(request)
        return _failed(request, failure, mood, words) if isinstance(answer, web.Response) else answer

    return fail


async def begin(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Begin a stream, which is cut where the request's failure says so."""
    if _LAST in request:
        response[LAST] = request[_LAST]
    await response.prepare(request)
    return response


async def tell(request: web.Request, response: web.StreamResponse, event: str) -> None:
    """Write an event to a stream, or cut it."""
    left = response.get(LAST)
    if left == 0:
        raise cut(request)
    if left is not None:
        response[LAST] = left - 1
    await response.write(event.encode())


def cut(request: web.Request) -> asyncio.CancelledError:
    """Cut the connection without an answer, and return what the handler raises then."""
    if request.transport is not None:
        request.transport.abort()
    return asyncio.CancelledError()


def _failed(request: web.Request, failure: Failure, mood: Mood, words: Words) -> web.Response:
    status = mood.pick(*STATUSES)
    match failure.split(" ")[0]:
        case "status":
            return web.json_response(words(request, status), status=status)
        case "page":
            page = PAGE.format(status=status, phrase=HTTPStatus(status).phrase)
            return web.Response(status=status, text=page, content_type="text/html")
    raise cut(request)
