"""Builds what is read of the gateway's work: /metrics for Prometheus, and traces."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.agents.running_agent import RunningAgent
from gateway.app.dependencies import Dependencies
from gateway.base.installation import how_to_add
from gateway.ledger.protocol import Ledger
from gateway.queue.lanes import Lanes
from gateway.settings.root import SettingsStore
from gateway.supervision.channel_supervisor import ChannelSupervisor
from gateway.telemetry.loop_lag import LoopLag

if TYPE_CHECKING:
    from gateway.telemetry.exposition import Standing
    from gateway.telemetry.tracing import OtlpSpans

log = logging.getLogger(__name__)

CLOSING_SECONDS: Final = 1.5
"""How long the end of the gateway waits for the last spans to be sent."""


class TelemetryParts:
    """Metrics and traces of one gateway. Nothing is imported for them until they are asked for or on."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, RunningAgent],
        channels: ChannelSupervisor,
        lanes: Lanes[Any],
        requests: Callable[[], int],
    ) -> None:
        self._deps = deps
        self._settings = settings
        self._ledger = ledger
        self._agents = agents
        self._channels = channels
        self._lanes = lanes
        self._requests = requests
        self._lag = LoopLag()
        self._spans: OtlpSpans | None = None

    @property
    def enabled(self) -> bool:
        """Whether /metrics is served."""
        return self._settings.current.gateway.metrics.enabled

    @property
    def open_to_loopback(self) -> bool:
        """Whether programs on this machine need no token for it."""
        return self._settings.current.gateway.metrics.access == "loopback"

    def routes(self) -> Callable[[Any], Awaitable[Any]]:
        """Return what answers requests for metrics. It is loaded with the first one."""
        from gateway.api.routes.metrics import MetricsRoute

        self._lag.start()
        telemetry, lag = self._deps.telemetry, self._lag.seconds
        return MetricsRoute(telemetry, lag, standing=self.standing, open_to_loopback=lambda: self.open_to_loopback).answer

    async def begin(self) -> None:
        """Begin to trace, if traces are on."""
        wanted = self._settings.current.gateway.tracing
        if not wanted.enabled:
            return
        try:
            self._spans = await asyncio.to_thread(_spans, wanted.endpoint)
        except ImportError:
            log.error("traces are on (gateway.tracing.enabled) and cannot be made: %s", how_to_add("tracing"))  # noqa: TRY400 - the hint says it
            return
        self._deps.telemetry.spans = self._spans

    async def close(self) -> None:
        """Send the last spans, within a moment."""
        self._lag.stop()
        if self._spans is not None:
            self._deps.telemetry.spans = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_SECONDS):
                    await asyncio.to_thread(self._spans.close)

    async def standing(self) -> Standing:
        """Return what is so now."""
        from importlib.metadata import version

        from gateway.telemetry.exposition import Standing

        tally, jobs = await self._ledger.tally(), await self._ledger.jobs.all()
        facts = self._channels.facts()
        return Standing(
            version=version("homebody"),
            waiting=tally.waiting,
            running=tally.running,
            suspended=tally.suspended,
            held=tally.held,
            kept=tally.kept,
            lanes=sum(1 for _ in self._lanes.running()),
            requests=self._requests(),
            outbox=dict.fromkeys(("ready", "sending", "ambiguous", "sent", "dead"), 0) | dict(tally.outbox),
            jobs=Counter(job.state for job in jobs),
            channels={name: one["state"] == "connected" for name, one in facts.items()},
            connections={name: runner.connections for name, runner in self._channels.items()},
            sessions={name: len(agent.store) for name, agent in self._agents.items()},
        )


def _spans(endpoint: str | None) -> OtlpSpans:
    from importlib.metadata import version

    from gateway.telemetry.tracing import OtlpSpans

    return OtlpSpans(endpoint, version("homebody"))
