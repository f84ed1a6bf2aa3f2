"""Counters and histograms, and where the parts of the gateway say what happened and how long it took.

Ids and numbers only: no text of anybody comes here.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol

from agent.events import ToolFinished

FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper limits in seconds of what should take milliseconds."""
SLOW: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""The same of what models, platforms and commands take."""
MOST_NAMES: Final = 200
OTHER: Final = "other"


class Histogram:
    """How often something took how long. ``counts`` has one place for each limit and one above them."""

    __slots__ = ("counts", "limits", "total")

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits = limits
        self.counts = [0] * (len(limits) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.limits, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many took at most each limit, as Prometheus has it; the last is ``+Inf``."""
        found, sum_so_far = [], 0
        for limit, count in zip([*map(str, self.limits), "+Inf"], self.counts, strict=True):
            sum_so_far += count
            found.append((limit, float(sum_so_far)))
        return found


class Histograms:
    """A histogram for each name; names beyond ``MOST_NAMES`` share one, because others may choose them (tools of other programs)."""

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits = limits
        self.by_name: dict[str, Histogram] = {}

    def add(self, name: str, seconds: float) -> None:
        """Count one of a name."""
        found = self.by_name.get(name)
        if found is None:
            name = name if len(self.by_name) < MOST_NAMES else OTHER
            found = self.by_name.setdefault(name, Histogram(self._limits))
        found.add(seconds)


class Counts:
    """Sums by a few names each. Names beyond ``MOST_NAMES`` combinations count as ``OTHER``."""

    def __init__(self) -> None:
        self.by_names: dict[tuple[str, ...], float] = {}

    def add(self, *names: str, by: float = 1.0) -> None:
        """Add to one sum."""
        if names not in self.by_names and len(self.by_names) >= MOST_NAMES:
            names = (OTHER,) * len(names)
        self.by_names[names] = self.by_names.get(names, 0.0) + by


Attributes = Mapping[str, str | int | float | bool]


class Spans(Protocol):
    """Where finished work is traced."""

    def begin(self, turn: str, attributes: Attributes) -> object:
        """Begin the span of a turn, under which further ones are recorded; return what ``end`` is given."""
        ...

    def end(self, span: object, attributes: Attributes) -> None:
        """End the span of a turn."""
        ...

    def record(self, name: str, turn: str, seconds: float, attributes: Attributes, *, failed: bool) -> None:
        """Record what took so long and is over now. ``turn`` may be empty, or over."""
        ...


_TURN: ContextVar[str] = ContextVar("turn", default="")


class Telemetry:
    """Counts and times of one process. All methods are cheap and raise nothing. ``spans`` is None unless traces are on."""

    def __init__(self, monotonic: Callable[[], float] = time.perf_counter) -> None:
        self.monotonic = monotonic
        self.spans: Spans | None = None
        self.received = Counts()
        self.sent = Counts()
        self.turns = Counts()
        self.tokens = Counts()
        self.cost = Counts()
        self.failed_calls = Counts()
        self.failed_tools = Counts()
        self.turn_seconds = Histograms(SLOW)
        self.model_seconds = Histograms(SLOW)
        self.tool_seconds = Histograms(SLOW)
        self.send_seconds = Histograms(SLOW)
        self.commit_seconds = Histogram(FAST)

    def delivered(self, channel: str, outcome: str, seconds: float, turn: str, chunk: str) -> None:
        """A send is over: ``sent``, ``refused`` or ``ambiguous``."""
        self.sent.add(channel, outcome)
        self.send_seconds.add(channel, seconds)
        if self.spans is not None:
            attributes = {"homebody.channel": channel, "homebody.chunk": chunk, "homebody.outcome": outcome}
            self.spans.record("send", turn, seconds, attributes, failed=outcome != "sent")

    @contextlib.contextmanager
    def turn(self, turn: str, origin: str, attributes: Attributes) -> Iterator[None]:
        """Time the work on a turn; model calls within belong to it."""
        began, spans = self.monotonic(), self.spans
        token = _TURN.set(turn)
        span = None if spans is None else spans.begin(turn, attributes)
        try:
            yield
        finally:
            _TURN.reset(token)
            self.turn_seconds.add(origin, self.monotonic() - began)
            if spans is not None:
                spans.end(span, {})

    def model_called(
        self, model: str, seconds: float, *, tokens: Mapping[str, int], cost: float | None, failure: str | None
    ) -> None:
        """A call of a model is over, with its retries."""
        self.model_seconds.add(model, seconds)
        for kind, count in tokens.items():
            if count:
                self.tokens.add(model, kind, by=count)
        if cost:
            self.cost.add(model, by=cost)
        if failure is not None:
            self.failed_calls.add(model, failure)
        if self.spans is not None:
            attributes: dict[str, Any] = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": model,
                "gen_ai.usage.input_tokens": sum(count for kind, count in tokens.items() if kind != "output"),
                "gen_ai.usage.output_tokens": tokens.get("output", 0),
            }
            attributes |= {"error.type": failure} if failure is not None else {}
            self.spans.record("model", _TURN.get(), seconds, attributes, failed=failure is not None)

    def tool_ran(self, turn: str, ended: ToolFinished) -> None:
        """A tool call of a turn is over."""
        tool, seconds, call, failed = ended.call.name, ended.seconds, ended.call.id, ended.result.is_error
        self.tool_seconds.add(tool, seconds)
        if failed:
            self.failed_tools.add(tool)
        if self.spans is not None:
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.call.id": call}
            self.spans.record("tool", turn, seconds, attributes, failed=failed)
