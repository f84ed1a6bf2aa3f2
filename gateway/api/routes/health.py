"""Is the gateway alive, is it ready, how is it.

GET /healthz   200 as long as the process runs; anyone may ask
GET /readyz    200 or 503; anyone may ask, and the owner is told the reasons
GET /status    what the gateway tells of itself; for the owner only
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from gateway.api.answers import Refusal, json_answer

if TYPE_CHECKING:
    import structlog
    from starlette.requests import Request
    from starlette.responses import Response

    ReadyCheck = Callable[[], str | None]
    Facts = Callable[[], Awaitable[Mapping[str, Any]]]


def health_routes(*, ready: Mapping[str, ReadyCheck], status: Facts, log: structlog.typing.FilteringBoundLogger) -> list[Route]:
    """Return the routes. Each check in ``ready`` returns at once: None, or why the gateway is not ready. ``status`` gives JSON values."""

    async def on_healthz(_: Request) -> Response:
        return json_answer({"alive": True})

    async def on_readyz(request: Request) -> Response:
        reasons = _reasons(ready)
        answer: dict[str, Any] = {"ready": not reasons}
        if request.scope["owner"]:
            answer["reasons"] = reasons
        return json_answer(answer, 503 if reasons else 200)

    async def on_status(request: Request) -> Response:
        if not request.scope["owner"]:
            log.warning("request refused", reason="no-token", path="/status")
            hint = "Send the header 'Authorization: Bearer TOKEN'; the token is in state/gateway.token, and never goes into an address."
            raise Refusal(401, "no-token", "the token is missing or wrong", hint, {"www-authenticate": "Bearer"})
        return json_answer(dict(await status()))

    return [Route("/healthz", on_healthz), Route("/readyz", on_readyz), Route("/status", on_status)]


def _reasons(checks: Mapping[str, ReadyCheck]) -> dict[str, str]:
    reasons = {}
    for name, check in checks.items():
        try:
            reason = check()
        except Exception as error:  # noqa: BLE001 - a check that breaks is itself a reason not to be ready
            reason = f"the check failed: {error!r}"
        if reason is not None:
            reasons[name] = reason
    return reasons
