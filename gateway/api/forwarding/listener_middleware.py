"""What the listeners of a gateway of a cluster have in their middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.middleware import Middleware

from gateway.api.forwarding.door import Door
from gateway.api.forwarding.forwarded_calls import Call, ForwardedCalls, Member
from gateway.api.forwarding.forwarded_requests import ForwardedTerminals, ForwardedWebhooks
from gateway.api.forwarding.peers import Peers
from gateway.api.server import app_of
from gateway.cluster.peer_proof import Secret

if TYPE_CHECKING:
    import structlog
    from starlette.responses import Response
    from starlette.routing import BaseRoute


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The parts that middleware needs; see ``Door``, ``ForwardedWebhooks`` and ``ForwardedTerminals``."""

    own: str
    secret: Secret
    forwarding: ForwardedCalls
    peers: Peers
    member: Member
    calls: Callable[[], Mapping[str, Call]]
    page_calls: Callable[[], Mapping[str, Call]]
    events: Callable[[str], Response]
    agent_of_hook: Callable[[str], Awaitable[str | None]]
    agent_of_terminal: Callable[[str], str]

    def door(self, routes: Sequence[BaseRoute], log: structlog.typing.FilteringBoundLogger) -> Middleware:
        """Return what answers other gateways. ``routes`` are those that take what is passed on."""
        return Middleware(
            Door,
            log,
            own=self.own,
            secret=self.secret,
            member=self.member,
            calls=self.calls,
            page_calls=self.page_calls,
            events=self.events,
            inner=app_of(routes, []),
        )

    def webhooks(self) -> Middleware:
        """Return what passes webhooks on."""
        return Middleware(ForwardedWebhooks, self.forwarding, self.peers, self.member, self.agent_of_hook)

    def terminals(self) -> Middleware:
        """Return what passes terminals on."""
        return Middleware(ForwardedTerminals, self.forwarding, self.peers, self.member, self.agent_of_terminal)
