"""The metrics as Prometheus reads them. Imported with the first request for them: it brings in prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gateway.telemetry.recorder import Counts, Histogram, Histograms, Telemetry


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is so at the moment of a request. ``channels``: whether an account is connected; ``connections``: how often it was."""

    version: str
    waiting: int
    running: int
    suspended: int
    held: int
    kept: int
    lanes: int
    requests: int
    outbox: Mapping[str, int]
    jobs: Mapping[str, int]
    channels: Mapping[str, bool]
    connections: Mapping[str, int]
    sessions: Mapping[str, int] = field(default_factory=dict)


class Exposition:
    """A registry of its own, so that no library's metrics are among ours."""

    def __init__(self, telemetry: Telemetry, lag: Histogram) -> None:
        self._collected = _Collected(telemetry, lag)
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._registry.register(self._collected)

    def text(self, standing: Standing, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their content type, in the newest form that the reader takes."""
        self._collected.standing = standing
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Collected(Collector):
    def __init__(self, telemetry: Telemetry, lag: Histogram) -> None:
        self._telemetry = telemetry
        self._lag = lag
        self.standing: Standing | None = None

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are known when they are collected."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted, then what is so."""
        yield from self._counted()
        yield from self._timed()
        if self.standing is not None:
            yield from _standing(self.standing)

    def _counted(self) -> Iterator[Metric]:
        of = self._telemetry
        yield _counter("messages_received", "Messages that were stored, by channel.", of.received, "channel")
        yield _counter("messages_sent", "Sends by channel: sent, refused or ambiguous.", of.sent, "channel", "outcome")
        yield _counter("turns", "Turns that ended or were suspended, by origin.", of.turns, "state", "origin")
        yield _counter("model_tokens", "Tokens by model: input, output, cache_read, cache_write.", of.tokens, "model", "kind")
        yield _counter("model_cost_usd", "What calls cost, in USD, by model.", of.cost, "model")
        yield _counter("model_failures", "Model calls that failed after all retries.", of.failed_calls, "model", "reason")
        yield _counter("tool_failures", "Tool calls that ended with an error.", of.failed_tools, "tool")

    def _timed(self) -> Iterator[Metric]:
        of = self._telemetry
        yield _histogram(
            "turn_seconds", "Work on a turn, without waiting in a queue or for an approval.", of.turn_seconds, "origin"
        )
        yield _histogram("model_call_seconds", "Model calls, with retries and failover.", of.model_seconds, "model")
        yield _histogram("tool_seconds", "Tool calls.", of.tool_seconds, "tool")
        yield _histogram("send_seconds", "Sends to a platform.", of.send_seconds, "channel")
        yield _single("ledger_commit_seconds", "Commits of the ledger, with what was written in them.", of.commit_seconds)
        yield _single("event_loop_lag_seconds", "How late the event loop was, once a second.", self._lag)


def _standing(now: Standing) -> Iterator[Metric]:
    yield InfoMetricFamily("homebody", "The program.", value={"version": now.version})
    for name, text, value in (
        ("messages_waiting", "Messages that no turn has begun with.", now.waiting),
        ("turns_running", "Turns that are worked on.", now.running),
        ("turns_suspended", "Turns that wait for an approval.", now.suspended),
        ("unasked_held", "Messages that wait for the end of quiet hours.", now.held),
        ("unasked_kept", "Messages beyond the number of a day.", now.kept),
        ("lanes_busy", "Sessions that have work.", now.lanes),
        ("api_requests_waiting", "Requests of programs that wait for an answer.", now.requests),
    ):
        yield GaugeMetricFamily(f"homebody_{name}", text, value=value)
    yield _gauge("outbox_chunks", "Messages of the last weeks to be sent, by state; `dead` are given up.", now.outbox, "state")
    yield _gauge("jobs", "Reminders and tasks, by state.", now.jobs, "state")
    yield _gauge("sessions", "Conversations, by agent.", now.sessions, "agent")
    yield _gauge("channel_connected", "Whether an account is connected.", now.channels, "account")
    connected = CounterMetricFamily("homebody_channel_connections", "How often an account was connected.", labels=["account"])
    for account, count in now.connections.items():
        connected.add_metric([account], count)
    yield connected


def _counter(name: str, text: str, counts: Counts, *labels: str) -> Metric:
    family = CounterMetricFamily(f"homebody_{name}", text, labels=labels)
    for names, value in list(counts.by_names.items()):
        family.add_metric(names, value)
    return family


def _gauge(name: str, text: str, values: Mapping[str, float], label: str) -> Metric:
    family = GaugeMetricFamily(f"homebody_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _histogram(name: str, text: str, found: Histograms, label: str) -> Metric:
    family = HistogramMetricFamily(f"homebody_{name}", text, labels=[label])
    for key, histogram in list(found.by_name.items()):
        family.add_metric([key], histogram.buckets(), histogram.total)
    return family


def _single(name: str, text: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(f"homebody_{name}", text, labels=[])
    family.add_metric([], histogram.buckets(), histogram.total)
    return family
