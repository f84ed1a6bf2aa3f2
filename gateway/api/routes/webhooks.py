"""Platforms that call us: their requests are handed to their channel, which alone can tell whether they are genuine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from channels.protocol import HookAnswer, Hooked, HookRequest
from gateway.api.answers import HEADERS, closing
from gateway.api.middleware import HOOKS
from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    import structlog
    from starlette.requests import Request

    FindHook = Callable[[str, str], Hooked | Literal["unknown", "not running"]]
    """Finds the channel of a name and an account that takes calls."""

PATH: Final = HOOKS + "{channel}/{account}"
BODY_SECONDS: Final = 5.0
"""How long a peer may take over a body: nobody has vouched for it yet."""
_OWN = frozenset({"content-length", "transfer-encoding", "connection"})
"""Headers of an answer that are the server's to set."""


class Webhooks:
    """Hands requests on. Neither host, origin nor token is asked for here: the channel checks the platform's signature."""

    def __init__(self, find: FindHook, log: structlog.typing.FilteringBoundLogger, body_seconds: float = BODY_SECONDS) -> None:
        self._find = find
        self._log = log
        self._body_seconds = body_seconds

    def routes(self) -> list[Route]:
        """Return the route of all calls; methods are the channel's to judge."""
        return [Route(PATH, self.answer, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])]

    async def answer(self, request: Request) -> Response:
        """Answer one request with what its channel says."""
        name, account = request.path_params["channel"], request.path_params["account"]
        channel = self._find(name, account)
        if channel == "unknown":
            raise HTTPException(404, "no channel is called here")
        if channel == "not running":
            raise HTTPException(503, "the channel is not running; call again", {"retry-after": "10"})
        asked = HookRequest(method=request.method, query=request.url.query, headers=_headers(request.headers.items()), body=b"")
        refuses = getattr(channel, "refuses", None)
        refused = None if refuses is None else refuses(asked)  # before a byte of its body is read
        if refused is not None:
            return _response(refused)
        try:
            async with asyncio.timeout(self._body_seconds):
                asked = replace(asked, body=await request.body())
        except TimeoutError:
            raise HTTPException(408, "the body did not come in time") from None
        except ClientDisconnect:
            self._log.info("a call ended before its body was there", channel=name, account=account)
            raise HTTPException(400, "the body did not come") from None
        try:
            answer = await channel.hear(asked)
        except (RecursionError, OverflowError) as error:  # a body that is nested, or holds numbers, beyond all measure
            raise HTTPException(400, f"the body cannot be read ({type(error).__name__})") from None
        except StorageFailed as error:  # nothing was taken: the platform is to call again
            self._log.warning("a call could not be stored", channel=name, account=account, error=str(error))
            raise HTTPException(503, "it could not be stored; call again", {"retry-after": "10"}) from None
        return _response(answer)


def _response(answer: HookAnswer) -> Response:
    headers = {**HEADERS, "content-type": "text/plain", **_plain(answer.headers), **closing(answer.status)}
    return Response(answer.body, answer.status, headers)


def _headers(found: list[tuple[str, str]]) -> dict[str, str]:
    """Join headers that came more than once, so that none hides another."""
    joined: dict[str, str] = {}
    for name, value in found:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _OWN}
