from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.context.window import cold_since, is_cold, prune
from agent.messages import AssistantMessage, Image, Text, ToolCall, ToolMessage, Usage, UserMessage
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.catalog.known_models import ModelFacts
from agent.models.middleware.failover import FailoverMiddleware
from agent.models.protocol import is_cached_by_time
from agent.models.scripted import ScriptedModel
from agent.settings import AgentSettings, PruningSettings
from agent.transcript.entries import Entry, Pruned, Said
from agent.transcript.history_view import trimmed, view
from gateway.base.clock import ManualClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ZONE = ZoneInfo("UTC")
WINDOW = 10_000


def history(*sizes: int, name: str = "read", picture: bool = False) -> list[Entry]:
    """A turn for each size: question, call, result of that size, answer."""
    entries = []
    for n, size in enumerate(sizes):
        images = (Image(media_type="image/png", data="x"),) if picture else ()
        messages = (
            UserMessage(content=(Text(text=f"question {n}"),), at=NOON),
            AssistantMessage(content=(ToolCall(id=f"c{n}", name=name, arguments={}),), model="m", stop="tools"),
            ToolMessage(call_id=f"c{n}", name=name, text="abcdefghij"[n % 10] * size, images=images),
            AssistantMessage(content=(Text(text=f"answer {n}"),), model="m", stop="end", usage=Usage(input=9)),
        )
        entries += [
            Entry(id=f"t{n}:{i}", parent=None, at=NOON, body=Said(message=message)) for i, message in enumerate(messages)
        ]
    return entries


def settings(**given: object) -> PruningSettings:
    return PruningSettings.model_validate({"mode": "cache-ttl", **given})


def chars(entries: list[Entry]) -> int:
    return sum(len(m.text) for m in view(entries, ZONE))


def pruned(entries: list[Entry], rules: PruningSettings) -> Pruned | None:
    return prune(entries, rules, WINDOW, chars(entries))


def marked(entries: list[Entry], mark: Pruned | None) -> list[Entry]:
    return entries if mark is None else [*entries, Entry(id="m:0", parent=None, at=NOON, body=mark)]


def results(entries: list[Entry]) -> list[str]:
    return [m.text for m in view(entries, ZONE) if isinstance(m, ToolMessage)]


def test_the_defaults_are_the_documented_ones() -> None:
    rules = PruningSettings()
    assert (rules.keep_last_assistants, rules.soft_trim_ratio, rules.hard_clear_ratio) == (3, 0.0, 0.5)
    assert rules.min_prunable_tool_chars == 50_000
    assert (rules.soft_trim.max_chars, rules.soft_trim.head_chars, rules.soft_trim.tail_chars) == (4000, 1500, 1500)
    assert rules.hard_clear.placeholder == "[Old tool result content cleared]"
    assert rules.is_on(by_time=True)
    assert not rules.is_on(by_time=False)
    assert not settings(mode="off").is_on(by_time=True)
    assert settings(mode="cache-ttl").is_on(by_time=False)


def test_who_keeps_prompts_by_time_is_known_by_name_and_by_api() -> None:
    assert is_cached_by_time(ScriptedModel(name="anthropic/claude-opus-4-5"))
    assert is_cached_by_time(ScriptedModel(name="openrouter/anthropic/claude-opus-4-5"))
    assert not is_cached_by_time(ScriptedModel(name="openai/gpt-5"))
    proxied = AnthropicModel("m", key="k", facts=ModelFacts(window=1000, max_output=100), base_url="http://box", provider="box")
    assert is_cached_by_time(FailoverMiddleware([proxied, ScriptedModel(name="openai/gpt-5")], clock=ManualClock(NOON)))


@pytest.mark.parametrize(("written", "seconds"), [("5m", 300), ("600", 600), (90, 90), ("1h", 3600), ("2.5m", 150)])
def test_a_ttl_is_written_in_three_ways(written: object, seconds: float) -> None:
    assert settings(ttl=written).ttl == seconds


@pytest.mark.parametrize("written", ["soon", "-5m", 0, "5 weeks"])
def test_a_ttl_that_is_none_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="ttl"):
        AgentSettings.model_validate({"contextPruning": {"ttl": written}})


def test_below_a_third_of_the_window_nothing_is_touched() -> None:
    assert pruned(history(5000, 10, 10, 10), settings(softTrimRatio=0.3)) is None


def test_long_results_keep_their_head_and_tail() -> None:
    entries = history(9000, 9000, 100, 10)
    mark = pruned(entries, settings())
    assert mark is not None
    assert mark.trimmed == ("t0:2", "t1:2")
    first = results(marked(entries, mark))[0]
    assert first.startswith("a" * 1500)
    assert first.endswith("a" * 1500)
    assert "9,000 characters" in first
    assert len(first) < 3200


def later(entries: list[Entry], hours: float) -> list[Entry]:
    """The last answer comes so many hours after the rest."""
    return [*entries[:-1], replace(entries[-1], at=NOON + timedelta(hours=hours))]


def test_of_results_that_were_old_at_the_last_call_a_few_lines_are_shown_once() -> None:
    entries = history(9000, 3000, 500, 10, 10, 10)
    first = marked(entries, pruned(entries, settings()))
    assert pruned(later(entries, 0.9), settings()).aged == ()
    old = later(entries, 1)
    mark = pruned([*old, first[-1]], settings())
    assert mark is not None
    assert (mark.trimmed, mark.aged) == ((), ("t0:2", "t1:2"))
    after = [*old, first[-1], Entry(id="m:1", parent=None, at=NOON, body=mark)]
    shown = results(after)
    assert shown[0].startswith("a" * 400)
    assert not shown[0].startswith("a" * 401)
    assert "the first 400 and the last 200 of 9,000 characters" in shown[0]
    assert "the first 400 and the last 200 of 3,000 characters" in shown[1]
    assert shown[2] == results(entries)[2]
    assert pruned(after, settings()) is None
    assert pruned([*old, first[-1]], settings(agedTrim={"enabled": False})) is None
    assert Pruned(trimmed=("x",)).aged == (), "entries of earlier versions have none"


def test_results_behind_the_third_last_answer_stay_whole() -> None:
    entries = history(100, 20_000, 20_000)
    mark = pruned(entries, settings())
    assert mark is not None
    assert mark.trimmed == ("t1:2",)
    assert pruned(history(30_000), settings()) is None, "fewer than three answers: nothing is pruned"


def test_what_trimming_does_not_free_is_cleared_from_the_oldest() -> None:
    entries = history(*[3900] * 18, 10, 10)
    mark = pruned(entries, settings())
    assert mark is not None
    assert mark.trimmed == ()
    shown = results(marked(entries, mark))
    cleared = [text == "[Old tool result content cleared]" for text in shown]
    assert cleared == sorted(cleared, reverse=True), "the oldest first"
    assert 0 < sum(cleared) < len(cleared)
    assert chars(marked(entries, mark)) < 0.5 * WINDOW * 4


def test_little_is_not_worth_clearing() -> None:
    entries = history(*[3900] * 7, 10, 10)
    assert chars(entries) > 0.5 * WINDOW * 4
    assert pruned(entries, settings()) is None


def test_pictures_and_tools_that_are_kept_are_skipped() -> None:
    assert pruned(history(*[9000] * 6, picture=True), settings()) is None
    assert pruned(history(*[9000] * 6, name="Memory_Search"), settings(tools={"deny": ["memory_*"]})) is None
    assert pruned(history(*[9000] * 6), settings(tools={"allow": ["gr*"]})) is None
    assert pruned(history(*[9000] * 6), settings(tools={"allow": ["RE*"], "deny": ["read"]})) is None
    assert pruned(history(*[9000] * 6), settings(tools={"allow": ["RE*"]})) is not None


def test_hard_clearing_can_be_switched_off_and_worded() -> None:
    entries = history(*[3900] * 18, 10, 10)
    assert pruned(entries, settings(hardClear={"enabled": False})) is None
    mark = pruned(entries, settings(hardClear={"placeholder": "(gone)"}))
    assert "(gone)" in results(marked(entries, mark))


def test_a_cache_is_cold_after_its_time() -> None:
    entries = history(10)
    assert not is_cold(cold_since([]), NOON, 300)
    assert not is_cold(cold_since(entries), NOON + timedelta(seconds=299), 300)
    assert is_cold(cold_since(entries), NOON + timedelta(seconds=300), 300)


sizes = st.lists(st.integers(0, 12_000), min_size=1, max_size=20)


@given(sizes, sizes)
def test_pruned_bytes_are_the_same_on_all_following_requests(before: list[int], after: list[int]) -> None:
    entries = history(*before)
    mark = pruned(entries, settings())
    then = view(marked(entries, mark), ZONE)
    later = history(*before, *after)[len(entries) :]
    assert view([*marked(entries, mark), *later], ZONE)[: len(then)] == then


@given(st.lists(st.integers(0, 12_000), min_size=1, max_size=30))
def test_pruning_again_never_makes_the_context_larger_and_comes_to_an_end(found: list[int]) -> None:
    entries = history(*found)
    size = chars(entries)
    for n in range(4):
        mark = pruned(entries, settings())
        if mark is None:
            break
        entries.append(Entry(id=f"m:{n}", parent=None, at=NOON, body=mark))
        assert chars(entries) < size
        size = chars(entries)
    else:
        pytest.fail("there was always something more to prune")
    people = [m for m in view(entries, ZONE) if not isinstance(m, ToolMessage)]
    assert [m.text for m in people] == [m.text for m in view(history(*found), ZONE) if not isinstance(m, ToolMessage)]


@given(st.text(max_size=500), st.integers(0, 200), st.integers(0, 200))
def test_trimming_never_makes_a_text_longer(text: str, head: int, tail: int) -> None:
    short = trimmed(text, head, tail)
    assert len(short) <= len(text)
    assert short.startswith(text[:head])
    assert short.endswith(text[len(text) - tail :] if tail else "")
