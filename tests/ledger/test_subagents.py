"""Sub-agents in the ledger: started once, within their limits, and told once, whatever the order of events."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.ledger.rows import Arrival, NewApproval
from gateway.ledger.subagent_rows import ACCOUNT, NewSubAgent
from tests.ledger.engines import open_at
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from gateway.ledger.protocol import Ledger
    from gateway.ledger.subagent_rows import SentToSubAgent, SubAgent

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROOT = "agent:main:main"


def session(subagent: str) -> str:
    return f"agent:main:sub:{subagent}"


def message(alias: str, to: str) -> Arrival:
    return Arrival(
        key=alias, alias=alias, conversation=f"internal:default:direct:{to}", session=to, sender="x", payload="{}", received_at=NOON
    )  # fmt: skip


def new(subagent: str, parent: str = ROOT, *, request: str = "t1", depth: int = 1) -> NewSubAgent:
    return NewSubAgent(
        id=subagent, name=f"t1/{subagent}", agent="main", session=session(subagent), parent=parent, request=request, depth=depth,
        label=subagent, payload="{}",
    )  # fmt: skip


async def opened(folder: Path) -> tuple[Ledger, ManualClock]:
    clock = ManualClock(NOON)
    return await open_at(folder / "ledger.sqlite", clock), clock


async def start(ledger: Ledger, one: NewSubAgent, *, children: int = 5, of_request: int = 20) -> SentToSubAgent:
    return await ledger.subagents.start(one, message(f"task:{one.id}", one.session), children=children, of_request=of_request)


async def test_a_repeat_starts_no_second_one(tmp_path: Path) -> None:
    ledger, _ = await opened(tmp_path)
    first = await start(ledger, new("a"))
    again = await start(ledger, replace(new("a"), id="b", session=session("b")))
    assert first.row is not None
    assert (again.row, again.subagent) == (None, first.subagent)
    assert len(await ledger.inbox.waiting()) == 1
    await ledger.close()


async def test_limits_hold_and_a_stopped_one_starts_none(tmp_path: Path) -> None:
    ledger, _ = await opened(tmp_path)
    assert [(await start(ledger, new(one), children=2)).obstacle for one in "abc"] == [None, None, "children"]
    assert (await start(ledger, new("d", session("a"), depth=2), of_request=2)).obstacle == "request"
    await ledger.subagents.stop("stopped by its owner", below=ROOT)
    assert (await start(ledger, new("e", session("a"), depth=2))).obstacle == "parent"
    assert (await start(ledger, new("f"), children=2)).obstacle is None, "those that were stopped do not count"
    await ledger.close()


async def test_a_result_waits_for_the_sub_agents_below_and_for_their_results(tmp_path: Path) -> None:
    ledger, _ = await opened(tmp_path)
    for one in (new("a"), new("b", session("a"), depth=2)):
        row = (await start(ledger, one)).row
        assert row is not None
        await ledger.inbox.settle([row.id], "answered")
    early = message("result:a:1", ROOT)
    assert await ledger.subagents.end("a", "done", early) is None, "b works for it"
    told = await ledger.subagents.end("b", "done", message("result:b:1", session("a")))
    assert told is not None
    assert await ledger.subagents.end("a", "done", early) is None, "it has not read what b found"
    await ledger.inbox.settle([told.id], "answered")
    assert [one.id for one in await ledger.subagents.abandoned()] == ["a"]
    assert await ledger.subagents.end("a", "done", message("result:a:2", ROOT)) is not None
    assert await ledger.subagents.all() == []
    await ledger.close()


async def test_a_stop_ends_all_below_tells_those_above_and_lets_no_result_through(tmp_path: Path) -> None:
    ledger, clock = await opened(tmp_path)
    for one in (new("a"), new("b", session("a"), depth=2), new("c", "agent:main:other")):
        await start(ledger, one)
    place = "telegram:default:direct:1"
    stopped = await ledger.subagents.stop("stopped by its owner", below=ROOT, told=lambda one: (place, f"{one.id} was stopped"))
    assert [one.id for one in stopped.subagents] == ["a", "b"]
    assert [event.line for event in await ledger.context_events.pending(place)] == ["a was stopped"]
    assert [row.session for row in await ledger.inbox.waiting()] == [session("c")]
    assert await ledger.subagents.end("a", "done", message("result:a:1", ROOT)) is None
    assert (await ledger.subagents.stop("again", below=ROOT)).subagents == ()
    clock.set(NOON + timedelta(hours=2))
    assert [one.id for one in await ledger.subagents.archive("main", NOON + timedelta(hours=1))] == ["a", "b"]
    assert await ledger.subagents.below(ROOT) == []
    await ledger.close()


async def test_a_message_opens_it_again_within_a_number_of_messages(tmp_path: Path) -> None:
    ledger, clock = await opened(tmp_path)
    row = (await start(ledger, new("a"))).row
    assert row is not None
    await ledger.inbox.settle([row.id], "answered")
    assert await ledger.subagents.end("a", "done", message("result:a:1", ROOT)) is not None
    more = message("send:1", session("a"))
    sent = await ledger.subagents.send("a", more, most=2)
    assert sent.row is not None
    again = await ledger.subagents.send("a", more, most=2)
    assert (again.row, again.obstacle) == (None, None), "it was stored before"
    assert (await ledger.subagents.send("a", message("send:2", session("a")), most=2)).obstacle == "messages"
    assert [one.id for one in await ledger.subagents.all()] == ["a"]
    assert await ledger.subagents.end("a", "done", message("result:a:2", ROOT)) is not None, (
        "said while more waits is told as well"
    )
    assert [one.id for one in await ledger.subagents.all()] == ["a"]
    await ledger.inbox.settle([sent.row.id], "answered")
    assert await ledger.subagents.end("a", "done", message("result:a:3", ROOT)) is not None
    clock.set(NOON + timedelta(hours=2))
    await ledger.subagents.archive("main", clock.now())
    assert (await ledger.subagents.send("a", message("send:3", session("a")), most=9)).obstacle == "over"
    assert (await ledger.subagents.send("zz", message("send:4", session("zz")), most=9)).obstacle == "over"
    await ledger.close()


class Trees(RuleBasedStateMachine):
    """Any history of starts, ends, stops and restarts. A session's messages are taken one after the other, as in a lane."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock(NOON)
        self.ledger = self.do(open_at(Path(self.folder.name) / "ledger.sqlite", self.clock))
        self.agents: dict[str, str] = {}  # id -> parent's session
        self.told: dict[str, int] = {}
        self.stopped: set[str] = set()
        self.number = 0

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.do(self.ledger.close())
        self.loop.close()
        self.folder.cleanup()

    def _open(self) -> list[SubAgent]:
        return list(self.do(self.ledger.subagents.all()))

    @rule(above=st.integers(0, 20))
    def start(self, above: int) -> None:
        parents = [ROOT, *(session(one) for one in self.agents)]
        parent = parents[above % len(parents)]
        self.number += 1
        name = f"s{self.number}"
        one = replace(new(name, parent), name=f"turn/{name}")
        open_ones = [known for known in self._open() if known.parent == parent]
        got = self.do(start(self.ledger, one, children=3, of_request=12))
        if parent != ROOT and parent not in {known.session for known in self._open()}:
            assert got.obstacle == "parent"
        elif len(open_ones) >= 3:
            assert got.obstacle == "children"
        elif len(self.agents) >= 12:
            assert got.obstacle == "request"
        else:
            self.agents[name] = parent
            assert got.row is not None
            assert self.do(start(self.ledger, one, children=3, of_request=12)).row is None

    @rule(which=st.integers(0, 20), fails=st.booleans())
    def answer(self, which: int, fails: bool) -> None:
        """The next message of one session is answered, with its result."""
        waiting = [row for row in self.do(self.ledger.inbox.waiting()) if row.session != ROOT]
        if not waiting:
            return
        at = waiting[which % len(waiting)].session
        assert at is not None
        row = next(row for row in waiting if row.session == at)
        self.do(self.ledger.inbox.settle([row.id], "answered"))
        name = at.rpartition(":")[2]
        self._end(name, "failed" if fails else "done", f"result:{name}:{row.id}")

    def _end(self, name: str, state: Any, alias: str) -> None:
        result = message(alias, self.agents[name])
        if self.do(self.ledger.subagents.end(name, state, result)) is not None:
            self.told[name] = self.told.get(name, 0) + 1
            assert self.do(self.ledger.subagents.end(name, state, result)) is None, "once"

    @rule(which=st.integers(0, 20))
    def lose(self, which: int) -> None:
        """A message ends without a turn; whoever looks after sub-agents tells it."""
        waiting = [row for row in self.do(self.ledger.inbox.waiting()) if row.session != ROOT]
        if waiting:
            self.do(self.ledger.inbox.settle([waiting[which % len(waiting)].id], "failed", reason="unreadable"))
        while left := self.do(self.ledger.subagents.abandoned()):
            for one in left:
                assert self.told.get(one.id, 0) == 0
                self._end(one.id, "failed", f"result:{one.id}:lost")

    @rule(which=st.integers(0, 20))
    def stop(self, which: int) -> None:
        """One is stopped with all below it, all below a session, or all; a sub-agent above is told by a message."""
        sessions = [None, ROOT, *(session(one) for one in self.agents)]
        below = sessions[which % len(sessions)]
        only = [] if below in {None, ROOT} or which % 2 else [str(below).rpartition(":")[2]]

        def told(one: SubAgent) -> Arrival | tuple[str, str]:
            if one.parent == ROOT:
                return "internal:default:direct:x", "stopped"
            return message(f"result:{one.id}:stopped", one.parent)

        stopping = self.ledger.subagents.stop("by its owner", below=None if only else below, only=only, told=told)
        found = self.do(stopping)
        for one in found.subagents:
            assert self.told.get(one.id, 0) == 0
            self.stopped.add(one.id)
        above = {one.parent for one in found.subagents} - {one.session for one in found.subagents}
        assert {row.session for row in found.rows} == above - {ROOT}

    @rule()
    def restart(self) -> None:
        self.do(self.ledger.close())
        self.ledger = self.do(open_at(Path(self.folder.name) / "ledger.sqlite", self.clock))

    @invariant()
    def each_is_open_or_told_once_or_stopped(self) -> None:
        open_ones = {one.id for one in self._open()}
        for name in self.agents:
            ways = [name in open_ones, self.told.get(name, 0) == 1, name in self.stopped]
            assert sum(ways) == 1, (name, ways)

    @invariant()
    def what_is_open_has_somebody_above_who_is_told(self) -> None:
        open_ones = {one.session for one in self._open()}
        assert all(one.parent == ROOT or one.parent in open_ones for one in self._open())

    @invariant()
    def nothing_waits_for_one_that_was_stopped(self) -> None:
        waiting = {row.session for row in self.do(self.ledger.inbox.waiting())}
        assert waiting.isdisjoint({session(one) for one in self.stopped})


TestTrees = Trees.TestCase
TestTrees.settings = settings(
    max_examples=examples(25), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@pytest.mark.files
def test_the_account_is_that_of_the_queries() -> None:
    assert ACCOUNT == "agent", "the queries and the index name it"


async def test_a_stopped_one_that_waits_for_an_approval_waits_no_more(tmp_path: Path) -> None:
    ledger, _ = await opened(tmp_path)
    row = (await start(ledger, new("a"))).row
    assert row is not None
    turn = await ledger.turns.claim(session("a"), "main", [row.id])
    question = NewApproval(
        id="q", round=1, session=session("a"), transcript="x", agent="main", place=ChatAddress(channel="t", kind="direct", id="1"),
        call="c", payload="{}", fingerprint="f", expires=NOON + timedelta(hours=1),
    )  # fmt: skip
    assert await ledger.turns.suspend(turn.id, [question], []) is None
    await ledger.subagents.stop("stopped by its owner")
    ended = await ledger.turns.get(turn.id)
    assert ended is not None
    assert ended.state == "stopped"
    assert [one.state for one in await ledger.approvals.of_turn(turn.id)] == ["withdrawn"]
    assert [one.state for one in await ledger.inbox.rows([row.id])] == ["answered"]
    await ledger.close()
