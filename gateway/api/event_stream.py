"""Streams of server-sent events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class EventStream(StreamingResponse):
    """Sends events until they end or the client is gone.

    As Starlette's own, without AnyIO's event loop: to load it would take a tenth of the first turn of a terminal.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream."""
        del scope
        work = (
            asyncio.ensure_future(self.stream_response(send)),
            asyncio.ensure_future(self.listen_for_disconnect(receive)),
        )
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            outcomes = await asyncio.gather(*work, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
