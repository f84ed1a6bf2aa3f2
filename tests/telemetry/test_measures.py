"""Counters and histograms, as Prometheus has them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import ToolFinished, ToolStarted
from agent.messages import ToolCall, ToolMessage
from channels.messages import ChatAddress
from gateway.base.clock import SystemClock
from gateway.outbound.progress import ProgressDisplay, TypingIndicator
from gateway.telemetry.recorder import FAST, MOST_NAMES, OTHER, Counts, Histogram, Histograms, Telemetry

if TYPE_CHECKING:
    from agent.events import Event


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_a_histogram_counts_each_in_all_buckets_that_it_fits(seconds: list[float]) -> None:
    histogram = Histogram(FAST)
    for one in seconds:
        histogram.add(one)
    buckets = dict(histogram.buckets())
    assert buckets["+Inf"] == len(seconds)
    assert all(buckets[str(limit)] == sum(one <= limit for one in seconds) for limit in FAST)
    assert histogram.total == pytest.approx(sum(seconds))


@given(st.lists(st.integers(0, 2 * MOST_NAMES), max_size=600))
def test_names_that_others_choose_are_bounded_and_nothing_goes_uncounted(names: list[int]) -> None:
    counts, histograms = Counts(), Histograms(FAST)
    for name in names:
        counts.add(str(name), "x")
        histograms.add(str(name), 0.1)
    assert len(counts.by_names) <= MOST_NAMES + 1
    assert len(histograms.by_name) <= MOST_NAMES + 1
    assert sum(counts.by_names.values()) == len(names)
    assert sum(sum(one.counts) for one in histograms.by_name.values()) == len(names)
    assert len(set(names)) <= MOST_NAMES or OTHER in histograms.by_name


class Watching:
    """A channel that shows events as they happen."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def show(self, _place: ChatAddress, frame: object) -> None:
        self.shown.append(frame)


def test_tools_are_counted_by_name_and_shown() -> None:
    telemetry, channel = Telemetry(), Watching()
    place = ChatAddress(channel="paper", account="default", id="1", kind="direct")
    sign = TypingIndicator(lambda: channel, place, SystemClock(), "never", 4)  # type: ignore[arg-type]
    display = ProgressDisplay(lambda: channel, place, "t", sign, verbose=False, tool_ran=partial(telemetry.tool_ran, "t"))  # type: ignore[arg-type]
    one, two = (ToolCall(id=name, name=name, arguments={}) for name in ("a", "b"))
    events: list[Event] = [
        ToolStarted(one),
        ToolStarted(two),
        ToolFinished(two, ToolMessage(call_id="b", name="b", text="no", is_error=True), 1.0),
        ToolFinished(one, ToolMessage(call_id="a", name="a", text="yes"), 3.0),
    ]
    for event in events:
        display.emit(event)
    assert [one.state for one in channel.shown] == ["started", "started", "failed", "finished"]
    assert {name: one.total for name, one in telemetry.tool_seconds.by_name.items()} == {"a": 3, "b": 1}
    assert telemetry.failed_tools.by_names == {("b",): 1}
