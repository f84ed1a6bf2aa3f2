"""The HTTP transport for Bot API requests, which works around lost connections in httpcore's pool. Loads the client library.

httpcore 1.0.9 loses a connection for good when the task of a request is cancelled at the wrong moment: while it hands the connection
back, or when it was just given a new one (https://github.com/encode/httpcore/issues/1093). A typing request is cancelled whenever an
answer is ready, so that a busy bot runs out of connections. Here a request is never cancelled once it has begun: the caller may stop
waiting, and the request ends by itself. No more requests are started than there are connections, so a request that has to wait for a
connection shows that the pool has lost some; then a new client is made at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import httpx
from telegram.error import NetworkError, TimedOut
from telegram.request import HTTPXRequest

POOL_SECONDS: Final = 5.0
"""How long a request may wait for a connection though one must be free. It is no more than a few steps of the event loop."""
UNWRITTEN: Final = "the request was not written"
"""Begins the message of an error before which the request certainly did not leave as a whole, so that it has no effect."""
_LEFT: Final = "homebody.left"


class BotRequests(HTTPXRequest):
    """As many requests at once as there are connections, none of which is ever cancelled.

    ``renewed`` is called, with how often that was done, when a new client had to be made.
    """

    __slots__ = ("_begun", "_former", "_free", "_renewals", "_renewed", "_waiting")

    def __init__(self, connections: int, renewed: Callable[[int], None], **options: Any) -> None:
        super().__init__(connection_pool_size=connections, pool_timeout=POOL_SECONDS, **options)
        self._client_kwargs["event_hooks"] = {"request": [traced]}
        self._client = self._build_client()
        self._free = connections
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun: set[asyncio.Task[tuple[int, bytes] | Exception]] = set()
        self._former: list[httpx.AsyncClient] = []
        self._renewals = 0
        self._renewed = renewed

    async def do_request(self, url: str, method: str, *args: Any, **options: Any) -> tuple[int, bytes]:
        """Make a request. Being cancelled leaves one that was begun to itself, and takes back one that was not."""
        await self._turn()
        task = asyncio.ensure_future(self._outcome(url, method, *args, **options))
        self._begun.add(task)
        task.add_done_callback(self._ended)
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def shutdown(self) -> None:
        """Close the connections; a request that is still under way is broken off."""
        for task in self._begun:
            task.cancel()
        await asyncio.gather(*self._begun, return_exceptions=True)
        await super().shutdown()
        for client in self._former:
            await client.aclose()
        self._former.clear()

    async def _turn(self) -> None:
        """Wait until there is a connection for one more request, in the order of asking."""
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _ended(self, task: asyncio.Task[tuple[int, bytes] | Exception]) -> None:
        self._begun.discard(task)
        self._give_back()

    async def _outcome(self, url: str, method: str, *args: Any, **options: Any) -> tuple[int, bytes] | Exception:
        """Return the answer or the error, so that nobody misses an error for which nobody waits any more."""
        client = self._client
        try:
            try:
                return await super().do_request(url, method, *args, **options)
            except TimedOut as error:
                if not isinstance(error.__cause__, httpx.PoolTimeout):
                    raise
                await self._renew(client)
                return await super().do_request(url, method, *args, **options)
        except NetworkError as error:
            if not isinstance(error.__cause__, httpx.RequestError) or may_have_left(error.__cause__):
                return error
            told = NetworkError(f"{UNWRITTEN}: {error}")
            told.__cause__ = error.__cause__
            return told
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
            return error

    async def _renew(self, client: httpx.AsyncClient) -> None:
        """Make a new client, unless that was done meanwhile. The former one is closed when what it has under way may be over."""
        if self._client is not client:
            return
        self._former.append(client)
        self._client = self._build_client()
        self._renewals += 1
        self._renewed(self._renewals)
        if len(self._former) > 1:
            await self._former.pop(0).aclose()


async def traced(request: httpx.Request) -> None:
    """Have the transport note whether a request may have left as a whole."""
    left = request.extensions[_LEFT] = [False]

    async def trace(event: str, info: dict[str, Any]) -> None:
        if event.endswith("send_request_body.started"):
            left[0] = True
        elif event.endswith("send_request_body.failed") and type(info.get("exception")).__name__ == "WriteError":
            left[0] = False  # what could not be written is missing, and a server does nothing about a part

    request.extensions["trace"] = trace


def may_have_left(error: httpx.RequestError) -> bool:
    """Whether a request that failed may have left as a whole."""
    try:
        left = error.request.extensions.get(_LEFT)
    except RuntimeError:  # the library did not say which request it was
        return True
    return left is None or left == [True]
