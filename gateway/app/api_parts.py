"""Builds what serves programs that speak OpenAI's API: the channel of their messages, their tokens, and the routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from channels.platform import ANYBODY, Policy
from channels.protocol import Channel
from gateway.app.dependencies import Dependencies
from gateway.ledger.protocol import Ledger
from gateway.settings.root import SettingsStore

if TYPE_CHECKING:
    from channels.openai_api.channel import ApiChannel
    from gateway.api.routes.openai_routes import Elsewhere

UPLOADS = "api-files"


class ApiParts:
    """``keep`` is given the channel once the API is on; it stays until the gateway ends, because messages of its may wait."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, object],
        keep: Callable[[Channel, Policy], None],
    ) -> None:
        self._channel: ApiChannel | None = None
        self.elsewhere: Elsewhere | None = None
        """Answers a request for an agent that another gateway holds, in a cluster."""
        self._deps = deps
        self._settings = settings
        self._ledger = ledger
        self._agents = agents
        self._keep = keep

    @property
    def channel(self) -> ApiChannel:
        """The channel. Its code is loaded when the API is on for the first time."""
        if self._channel is None:
            from channels.openai_api.channel import ApiChannel

            self._channel = ApiChannel(clock=self._deps.clock, folder=self._deps.paths.state / UPLOADS)
        return self._channel

    @property
    def waiting(self) -> int:
        """How many requests wait for an answer."""
        return 0 if self._channel is None else self._channel.waiting

    @property
    def enabled(self) -> bool:
        """Whether the API is served."""
        return self._settings.current.gateway.openai.enabled

    def begin(self) -> None:
        """Let the channel run, if the API is on. The owner's tokens are the owner's; whoever has another one is a guest."""
        if self.enabled and self._deps.serving and self._channel is None:
            from channels.openai_api.channel import OWNER

            self._keep(self.channel, Policy(dm_policy="open", allow_from=(OWNER, ANYBODY)))

    def routes(self) -> Callable[[Any], Awaitable[Any]]:
        """Return what answers requests. It is loaded with the first one."""
        from gateway.api.routes.openai_routes import OpenAiRoutes
        from gateway.base.client_tokens import ClientTokens
        from gateway.base.structured_log import structlog

        answering = OpenAiRoutes(
            self.channel,
            ClientTokens(self._deps.paths.state),
            ledger=self._ledger.inbox,
            agents=lambda: (sorted(self._known()), self._settings.current.default_agent),
            clock=self._deps.clock,
            log=structlog.get_logger("gateway.openai"),
        )
        answering.elsewhere = self.elsewhere
        return answering.answer

    def _known(self) -> Collection[str]:
        return self._agents if self.elsewhere is None else self._settings.current.agent_ids
