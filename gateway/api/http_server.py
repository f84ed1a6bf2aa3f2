"""The HTTP door of the gateway: is it alive, is it ready, how is it; and where platforms call.

GET /healthz   200 as long as the process turns; anyone may ask
GET /readyz    200 or 503; anyone may ask, and who has the token is told the reasons
GET /status    what the gateway tells of itself; with the token only
/hooks/...     calls of platforms, for the channels that take them (``gateway.api.webhooks``)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.api.listening_sockets import open_sockets
from gateway.api.request_guard import HEADERS, Refusal, RequestGuard
from gateway.api.uvicorn_server import HEAD_SECONDS, Server
from gateway.api.webhooks import PATH as HOOK_PATH
from gateway.api.webhooks import Webhooks
from gateway.base.api_token import same

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import structlog
    from starlette.requests import Request

    from gateway.api.webhooks import FindHook
    from gateway.settings.http import GatewaySettings

    ReadyCheck = Callable[[], str | None]
    Facts = Callable[[], Awaitable[Mapping[str, Any]]]

_SCHEME = b"bearer "
_REASONS = {404: "not-found", 408: "too-slow", 503: "not-now"}


class HttpServer:
    """Serves the addresses until cancelled.

    ``token`` is one that `gateway.base.api_token` has checked. ``ready`` are the checks by name: each returns at once, None for ready
    or else the reason. ``status`` gives what `/status` shows (JSON values). ``log`` is ``structlog.get_logger("gateway.http")``.
    ``hook`` finds the channel that a platform calls. A peer has ``head_seconds`` to finish a request's head.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        token: str,
        ready: Mapping[str, ReadyCheck],
        status: Facts,
        log: structlog.typing.FilteringBoundLogger,
        hook: FindHook = lambda _channel, _account: "unknown",
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        self._settings = settings
        self._token = token
        self._ready = dict(ready)
        self._status = status
        self._log = log
        self._head_seconds = head_seconds
        self._hooks = Webhooks(hook, log)

    async def run(self, started: Callable[[int], None]) -> None:
        """Listen, call ``started`` with the port, and serve until cancelled; then finish what is being answered (3 s at most).

        Installs no signal handlers. Raises HomebodyError when the port cannot be opened.
        """
        sockets = open_sockets(self._settings)
        port: int = sockets[0].getsockname()[1]
        app = RequestGuard(self._app(), self._settings, port, self._log)
        server = Server(app, lambda: started(port), self._head_seconds)
        self._log.info("listening", port=port, bind=self._settings.bind)
        serving = asyncio.create_task(server.serve(sockets=sockets), name="http")
        try:
            await asyncio.shield(serving)
        finally:
            server.stop()
            try:
                await serving
            finally:
                for plug in sockets:
                    plug.close()

    def _app(self) -> Starlette:
        routes = [
            Route("/healthz", self._on_healthz),
            Route("/readyz", self._on_readyz),
            Route("/status", self._on_status),
            Route(HOOK_PATH, self._hooks.answer, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _on_http_error, Exception: _on_defect})

    async def _on_healthz(self, _: Request) -> Response:
        return _json({"alive": True})

    async def _on_readyz(self, request: Request) -> Response:
        reasons = self._reasons()
        answer: dict[str, Any] = {"ready": not reasons}
        if self._may_know(request):
            answer["reasons"] = reasons
        return _json(answer, 503 if reasons else 200)

    async def _on_status(self, request: Request) -> Response:
        if not self._may_know(request):
            self._log.warning("request refused", reason="no-token", path="/status")
            hint = "Send the header 'Authorization: Bearer TOKEN'; the token is in state/gateway.token, and never goes into an address."
            return _refused(Refusal(401, "no-token", "the token is missing or wrong", hint), {"www-authenticate": "Bearer"})
        return _json(dict(await self._status()))

    def _reasons(self) -> dict[str, str]:
        reasons = {}
        for name, check in self._ready.items():
            try:
                reason = check()
            except Exception as error:  # noqa: BLE001 - a check that breaks is itself a reason not to be ready
                reason = f"the check failed: {error!r}"
            if reason is not None:
                reasons[name] = reason
        return reasons

    def _may_know(self, request: Request) -> bool:
        offered = [value for name, value in request.headers.raw if name == b"authorization"]
        if len(offered) != 1 or offered[0][: len(_SCHEME)].lower() != _SCHEME:
            return False
        return same(offered[0][len(_SCHEME) :].strip(), self._token)


def _json(answer: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    fixed = {name.decode(): value.decode() for name, value in HEADERS}
    return JSONResponse(answer, status, {**fixed, **(headers or {})})


def _refused(refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    answer = {"error": refusal.error, "reason": refusal.reason, "mend": refusal.hint}
    return _json(answer, refusal.status, headers)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = _REASONS.get(error.status_code, "not-allowed")
    hint = "There are GET /healthz, /readyz and /status."
    return _refused(Refusal(error.status_code, reason, error.detail, hint), dict(error.headers or {}))


async def _on_defect(_: Request, __: Exception) -> Response:
    return _refused(Refusal(500, "defect", "something in the gateway broke while answering", "The log says more: logs/."))
