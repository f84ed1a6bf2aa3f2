"""The checks of the TCP listener, asked one after the other without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from gateway.api.middleware import BearerToken, tcp_middleware
from gateway.base.api_token import FixedToken

if TYPE_CHECKING:
    from starlette.types import Scope

    from gateway.api.answers import Refusal
    from gateway.settings.http_settings import GatewaySettings


def refusal(scope: Scope, settings: GatewaySettings, port: int) -> Refusal | None:
    """Return the first refusal of a request, in the order in which the listener asks."""
    listed = tcp_middleware(settings, port, FixedToken("token"), structlog.get_logger("gateway.http"))
    checks = [one.cls(None, *one.args, **one.kwargs) for one in listed if one.cls is not BearerToken]
    return next((found for check in checks if (found := check.refusal(scope)) is not None), None)
