"""Sends the answer to one request while it comes: as a stream, or whole when it is finished."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from channels.openai_api.pending_answer import Ended, PendingAnswer
from gateway.api.answers import HEADERS, json_answer
from gateway.api.openai.chat_completion import WAITING, Completion, event, usage_of
from gateway.api.openai.openai_errors import ApiRefusal

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

ALIVE_SECONDS: Final = 15.0
"""After so many seconds without news a stream says that it is still there."""
STALL_SECONDS: Final = 60.0
"""Who takes nothing of a stream for so long is gone."""


class AnswerResponse(Response):
    """It is over when it was sent, when who asked is gone, and when they take nothing of it; then ``over`` is called.

    ``ended`` is the end where it is known already: of a request that came before.
    """

    def __init__(
        self,
        completion: Completion,
        pending: PendingAnswer,
        ended: Ended | None,
        *,
        stream: bool,
        with_usage: bool,
        over: Callable[[], None],
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._stall_seconds = stall_seconds
        super().__init__(headers=HEADERS, media_type="text/event-stream")
        self._completion = completion
        self._pending = pending
        self._ended = ended
        self._stream = stream
        self._with_usage = with_usage
        self._over = over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        sending = asyncio.ensure_future(self._send(scope, receive, send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            self._over()

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._stream:
            await (await self._complete_response())(scope, receive, send)
            return

        async def patient(message: Any) -> None:
            async with asyncio.timeout(self._stall_seconds):
                await send(message)

        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        with contextlib.suppress(TimeoutError):  # nobody reads it: the server closes a connection whose answer is not finished
            await patient({"type": "http.response.start", "status": 200, "headers": headers})
            async for piece in self._pieces():
                await patient({"type": "http.response.body", "body": piece, "more_body": True})
            await patient({"type": "http.response.body", "body": b"", "more_body": False})

    async def _complete_response(self) -> Response:
        activity, ended = "", self._ended
        while ended is None:
            news = await self._pending.next()
            if isinstance(news, Ended):
                ended = news
            else:
                activity += news.activity
        if ended.failure:
            return _failed(ended).response()
        return json_answer(self._completion.whole(ended.text, activity, usage_of(ended.facts), stopped=ended.stopped))

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self._completion.first()
        ended = self._ended
        while ended is None:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    news = await self._pending.next()
            except TimeoutError:
                yield WAITING
                continue
            if isinstance(news, Ended):
                ended = news
            else:
                yield self._completion.delta(news.text, news.activity)
        if ended.failure:
            yield event(_failed(ended).body)
            return
        if ended.rest:
            yield self._completion.delta(ended.rest)
        yield self._completion.last(usage_of(ended.facts) if self._with_usage else None, stopped=ended.stopped)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _failed(ended: Ended) -> ApiRefusal:
    return ApiRefusal(502, "turn_failed", f"{ended.failure} {ended.hint}".strip())
