from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.context.cache_retention import cheaper, silences
from agent.context.prefix import digest, parting
from agent.messages import Text, UserMessage
from agent.models.protocol import Request, Segment, ToolSpec
from agent.settings import AgentSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agent.conftest import Room

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def request(*texts: str, soul: str = "Be kind.", tool: str = "reads") -> Request:
    return Request(
        system=(Segment(name="instructions", text="Rules."), Segment(name="SOUL.md", text=soul)),
        tools=(ToolSpec(name="read", description=tool, parameters={}),),
        messages=tuple(UserMessage(content=(Text(text=text),), at=NOON) for text in texts),
        max_output=100,
    )


def test_going_on_is_no_change() -> None:
    assert parting(request("a"), request("a")) is None
    assert parting(request("a"), request("a", "b")) is None


def test_the_first_segment_that_differs_is_named_with_its_first_byte() -> None:
    assert str(parting(request("a"), request("a", soul="Be kinder."))) == "system text: SOUL.md, byte 7"
    assert parting(request("a"), request("a", tool="writes")).segment == "tools"
    assert parting(request("a", "b"), request("a", "ä")).segment == "message 2 (of user)"
    assert parting(request("a", "b"), request("a")).segment == "message 2 (of user)"
    fewer = replace(request("a"), system=request().system[:1])
    assert parting(request("a"), fewer).segment == "system text: SOUL.md"


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_the_byte_is_the_first_that_differs(common: str, one: str, two: str) -> None:
    found = parting(request("a", soul=common + one), request("a", soul=common + two))
    first, second = (common + one).encode(), (common + two).encode()
    if first == second:
        assert found is None
    else:
        assert first[: found.byte] == second[: found.byte]
        assert first[found.byte : found.byte + 1] != second[found.byte : found.byte + 1]


def test_a_hash_tells_which_segment_changed() -> None:
    before, after = digest(request("a")).split(), digest(request("a", "b", soul="other")).split()
    assert [one.partition(":")[0] for one in before] == ["tools", "instructions", "SOUL.md"]
    assert [one == two for one, two in zip(before, after, strict=True)] == [True, True, False]


def test_bursts_alone_are_kept_for_five_minutes_and_breaks_of_half_an_hour_for_an_hour() -> None:
    assert cheaper([20.0] * 60) == "5m"
    assert cheaper([1800.0] * 30) == "1h"
    assert cheaper([9 * 3600.0] * 60) == "5m", "what even an hour does not bridge is not worth its price"


async def test_the_retention_follows_the_rhythm_and_the_settings_overrule_it(room: Callable[..., Room]) -> None:
    r = room()
    r.model.reply_with(lambda _: "ok")
    for n in range(60):
        r.clock.move(20)
        await r.say("quickly now", f"t{n}")
    assert len(silences(r.conversation.transcript.entries)) == 59
    r.clock.move(7200)
    await r.say("after a while", "later")
    assert r.model.requests[-1].cache_ttl == "5m"
    r.settings = AgentSettings(cache_retention="1h")
    await r.open()
    await r.say("again", "last")
    assert r.model.requests[-1].cache_ttl == "1h"


async def test_pruning_is_a_change_that_was_meant(room: Callable[..., Room], caplog: object) -> None:
    from agent.messages import ToolCall

    rules = {"mode": "cache-ttl", "softTrimRatio": 0.01, "keepLastAssistants": 1}
    r = room(settings={"contextPruning": rules, "cacheRetention": "5m"})
    r.model.reply_with(lambda _: "ok")
    (r.workspace.root / "big.md").write_text("word " * 3000)
    r.model.then(ToolCall(id="c", name="read", arguments={"path": "big.md"}), "read it")
    await r.say("read big.md", "t0")
    await r.say("thanks", "t1")
    r.clock.move(301)
    await r.say("and now?", "t2")
    first = r.model.requests[-1]
    assert "[trimmed: the first 1,500" in str(first.messages)
    assert r.conversation.watch.why == "pruned"
    assert "the prompt changed" not in caplog.text
    again = await r.open()
    await r.say("still?", "t3")
    assert r.model.requests[-1].messages[: len(first.messages)] == first.messages
    assert "word word" in b"".join(again.transcript.stored.lines()).decode(), "on disk it stays whole"
