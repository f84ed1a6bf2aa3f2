"""Webhooks of the owner's own devices and services.

POST /hooks/in/NAME   202 {"id"} once the call is stored, 200 {"id"} for a repeat of a call that is; see docs/webhooks.md

Neither host nor origin is checked, because any machine may call under any name; the token or signature in a header is what counts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect
from starlette.routing import Route

from gateway.api.answers import Refusal, json_answer
from gateway.api.middleware import HOOKS
from gateway.base.errors import StorageFailed
from gateway.hooks.receiver import LARGEST_BODY, Admitted, HookReceiver, too_large
from gateway.hooks.refusal import HookRefused

if TYPE_CHECKING:
    import structlog
    from starlette.requests import Request
    from starlette.responses import Response

PATH: Final = HOOKS + "in/{name:path}"
BODY_SECONDS: Final = 5.0
"""How long a sender may take over a body."""
MOST_UNPROVEN: Final = 16
"""Bodies that are read at a time of senders that sign, who are known only when their body was read."""
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class HookRoutes:
    """Reads calls of hooks, within limits of size and time, and answers them."""

    def __init__(
        self, receiver: HookReceiver, log: structlog.typing.FilteringBoundLogger, body_seconds: float = BODY_SECONDS
    ) -> None:
        self._receiver = receiver
        self._log = log
        self._body_seconds = body_seconds
        self._unproven = 0

    def routes(self) -> list[Route]:
        """Return the route. It has to stand before that of the platforms' webhooks, whose path is more general."""
        return [Route(PATH, self.answer, methods=list(_METHODS))]

    async def answer(self, request: Request) -> Response:
        """Answer one call."""
        if request.method != "POST":
            raise Refusal(405, "not-allowed", "hooks take POST alone", "Send a POST request.", {"allow": "POST"})
        address = request.client.host if request.client is not None else ""
        try:
            admitted = await self._receiver.admit(request.path_params["name"], request.scope["headers"], address)
            taken = await self._receiver.take(admitted, await self._body(request, admitted))
        except HookRefused as refused:
            after = {} if refused.retry_after is None else {"retry-after": str(refused.retry_after)}
            scheme = {"www-authenticate": "Bearer"} if refused.status == 401 else {}  # noqa: PLR2004 -- an HTTP status
            raise Refusal(refused.status, refused.reason, str(refused), refused.hint, after | scheme) from None
        except StorageFailed as error:  # nothing was taken: the sender is to call again
            self._log.warning("a webhook could not be stored", error=str(error))
            raise Refusal(503, "not-stored", "it could not be stored", "Call again.", {"retry-after": "10"}) from None
        return json_answer({"id": taken.id}, 200 if taken.repeated else 202)

    async def _body(self, request: Request, admitted: Admitted) -> bytes:
        """Read the body. Those of senders who are not known yet cannot keep out those who are."""
        if admitted.hook is not None:
            return await self._read(request)
        if self._unproven >= MOST_UNPROVEN:
            error = f"{MOST_UNPROVEN} signed calls are being read already"
            raise Refusal(503, "too-many-at-once", error, "Call again.", {"retry-after": "5"})
        self._unproven += 1
        try:
            return await self._read(request)
        finally:
            self._unproven -= 1

    async def _read(self, request: Request) -> bytes:
        """Read the body, as far as it is not too large and comes in time."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._body_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > LARGEST_BODY:
                        raise too_large()
        except TimeoutError:
            error = f"the body did not come within {self._body_seconds:g} seconds"
            raise Refusal(408, "too-slow", error, "Call again.") from None
        except ClientDisconnect:
            raise Refusal(400, "gone", "the body did not come", "Call again.") from None
        return bytes(body)
