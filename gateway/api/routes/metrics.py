"""Measurements for Prometheus: GET /metrics, with the gateway's token or, where the settings say so, from this machine."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.responses import Response

from gateway.api.answers import HEADERS, Refusal
from gateway.api.middleware import FORWARDING, FORWARDING_PREFIX
from gateway.base.installation import how_to_add

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.telemetry.exposition import Exposition, Standing
    from gateway.telemetry.recorder import Histogram, Telemetry


class MetricsRoute:
    """Answers with the metrics. ``standing`` returns what is so at the moment."""

    def __init__(
        self,
        telemetry: Telemetry,
        lag: Histogram,
        *,
        standing: Callable[[], Awaitable[Standing]],
        open_to_loopback: Callable[[], bool],
    ) -> None:
        self._telemetry = telemetry
        self._lag = lag
        self._standing = standing
        self._open_to_loopback = open_to_loopback
        self._exposition: Exposition | None = None

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        if not request.scope.get("owner") and not (self._open_to_loopback() and _is_local(request)):
            hint = "Send the token (state/gateway.token) as 'Authorization: Bearer TOKEN', or set gateway.metrics.access to loopback."
            raise Refusal(401, "no-token", "the metrics need the gateway's token", hint, {"www-authenticate": "Bearer"})
        if request.method not in {"GET", "HEAD"}:
            raise Refusal(405, "not-allowed", "the metrics are read with GET", "Send a GET request.", {"allow": "GET"})
        if self._exposition is None:
            try:
                self._exposition = await asyncio.to_thread(_exposition, self._telemetry, self._lag)
            except ImportError:
                raise Refusal(503, "not-installed", "metrics need the extra homebody[metrics]", how_to_add("metrics")) from None
        body, content_type = self._exposition.text(await self._standing(), request.headers.get("accept", ""))
        return Response(body, 200, {**HEADERS, "content-type": content_type})


def _exposition(telemetry: Telemetry, lag: Histogram) -> Exposition:
    from gateway.telemetry.exposition import Exposition

    return Exposition(telemetry, lag)


def _is_local(request: Request) -> bool:
    """Return whether a program on this machine asks by itself: what a proxy hands on may come from anywhere."""
    if request.client is None or any(
        name in FORWARDING or name.startswith(FORWARDING_PREFIX) for name, _ in request.scope["headers"]
    ):
        return False
    try:
        peer = ipaddress.ip_address(request.client.host.partition("%")[0])
    except ValueError:
        return False
    return (getattr(peer, "ipv4_mapped", None) or peer).is_loopback
