"""Heartbeats in a whole house: when there is one, what the model is shown, and what comes of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from agent.context.prefix import parting
from agent.events import TextDelta
from agent.messages import AssistantMessage, Failure, ToolCall
from agent.models.adapters.anthropic_request import body
from agent.models.scripted import Stall
from channels.errors import NotSent
from channels.messages import ChatAddress
from gateway.app.job_targets import GatewayJobTargets
from gateway.jobs.heartbeats import PAUSED
from gateway.ledger.job_rows import NewJob
from gateway.ledger.rows import NewOutbound
from tests.patience import PATIENCE
from tests.peers.wire import Wire
from tests.queueing.conftest import OPEN, Town

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import datetime
    from pathlib import Path

    from agent.models.protocol import Request
    from channels.messages import Outbound, Sent
    from channels.platform import Policy
    from gateway.app.gateway import Gateway

CHAT = ChatAddress(channel="wire", kind="direct", id="anna")
TASK = "# Heartbeat\n\n- look after the boiler\n"
SESSION = "agent:main:heartbeat"
HALF = 30 * 60 + 1


def is_beat(request: Request) -> bool:
    return "# HEARTBEAT.md" in request.messages[0].text


class Beating(Town):
    """The model answers heartbeats with ``verdict``, and people with what they said."""

    def __init__(self, root: Path, agent: dict[str, Any] | None = None, **more: Any) -> None:
        super().__init__(root, {"agents": {"defaults": agent or {}}, "session": {"reset": {"mode": "none"}}, **more})
        self.verdict: Any = "HEARTBEAT_OK"
        plain = self.answer
        self.answer = lambda request: self.verdict if is_beat(request) else plain(request)
        self.workspace = root / "workspace"

    @contextlib.asynccontextmanager
    async def house(self, *wires: Wire, policy: Policy = OPEN, stop: bool = True) -> AsyncIterator[Gateway]:
        async with super().house(*wires, policy=policy, stop=stop) as house:
            await house.schedule.tick()
            yield house

    def tasks(self, text: str = TASK) -> None:
        self.workspace.mkdir(exist_ok=True, parents=True)
        (self.workspace / "HEARTBEAT.md").write_text(text)

    @property
    def beats(self) -> list[Request]:
        return [request for request in self.model.requests if is_beat(request)]

    async def pass_by(self, house: Gateway, seconds: float = HALF) -> None:
        """Let time pass, and the scheduler look at what is due; wait for what comes of it."""
        self.clock.move(seconds)
        await house.schedule.tick()
        await self.quiet(house)

    async def quiet(self, house: Gateway) -> None:
        async with asyncio.timeout(PATIENCE):
            while house.lanes.busy(SESSION) or house.lanes.queued(SESSION):  # noqa: ASYNC110  (nobody announces it)
                await asyncio.sleep(0.01)
        await house.delivery.settled()


async def hello(wire: Wire) -> None:
    before = len(wire.sent)
    await wire.say("hello")
    await wire.until(lambda: len(wire.sent) > before)


async def test_with_the_shipped_file_there_is_no_request_at_all(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        for _ in range(100):
            await town.pass_by(house)
        assert "Every half hour" in (town.workspace / "HEARTBEAT.md").read_text()
    assert len(town.model.requests) == 1
    assert house.automation.heartbeats.facts(house.agents["main"])["skipped"] == "nothing to do"


async def test_every_half_hour_the_list_is_gone_through_and_ok_is_not_shown(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await house.schedule.tick()
        assert town.beats == [], "the first interval began when the gateway first started"
        await town.pass_by(house, 29 * 60)
        assert town.beats == []
        for count in (1, 2, 3):
            await town.pass_by(house)
            await house.schedule.tick()
            await town.quiet(house)
            assert len(town.beats) == count
        town.verdict = "The boiler is out."
        await town.pass_by(house)
        assert wire.said() == ["re: hello", "The boiler is out."]
        assert [row.state for row in await house.ledger.inbox.latest(["answered"], limit=3)] == ["answered"] * 3


async def test_the_request_shares_the_prompt_of_the_main_session_and_has_no_history(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    (town.workspace / "MEMORY.md").write_text("The boiler is from 1987.\n")
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        (town.workspace / "MEMORY.md").write_text("The boiler is from 1988.\n")
        await town.pass_by(house)
        await town.pass_by(house)
    main, first, second = town.model.requests
    for beat in (first, second):
        assert (beat.system, beat.tools, beat.cache_key) == (main.system, main.tools, main.cache_key)
        assert "1987" in beat.system[-1].text
        (message,) = beat.messages
        assert [part.text.splitlines()[-1] for part in message.content][:1] == ["- look after the boiler"]
        assert "hello" not in message.text
    assert first.messages[0].content[0] == second.messages[0].content[0]
    stamps = [request.messages[0].content[1].text for request in (first, second)]
    assert stamps[0] != stamps[1]
    assert all(stamp.startswith("[Sun 2026-03-01 ") and stamp.endswith(", heartbeat]") for stamp in stamps)
    assert (first.cache_ttl, first.kept_parts, first.thinking) == ("1h", 1, "off")


def marks(written: dict[str, Any]) -> list[str]:
    """What the provider is asked to keep, by where it ends."""
    blocks = [*written["system"], *(block for message in written["messages"] for block in message["content"])]
    kept = [(block.get("text", block["type"]), block["cache_control"]) for block in blocks if "cache_control" in block]
    return [f"{text[-20:]}|{control.get('ttl', '5m')}" for text, control in kept]


async def test_the_provider_keeps_the_list_and_not_the_time(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        told = ["HEARTBEAT_OK", ToolCall(id="c1", name="list", arguments={})]
        town.answer = lambda request: told.pop() if told else "re: hello"
        await town.pass_by(house)
    first, second = (body(request, model="m", name="anthropic/m", max_output=100) for request in town.model.requests[-2:])
    assert [mark.partition("|")[2] for mark in marks(first)][-1] == "1h"
    assert marks(first)[-1].startswith("look after the boiler"[-20:])
    assert marks(second)[:-1] == marks(first)
    assert marks(second)[-1] == "tool_result|5m", "a turn of several rounds keeps what it has for its own length"


@pytest.mark.parametrize(("every", "ttl"), [("1m", "5m"), ("4m", "5m"), ("10m", "1h"), ("50m", "1h")])
async def test_the_prompt_is_kept_until_the_next_one(tmp_path: Path, every: str, ttl: str) -> None:
    town = Beating(tmp_path, {"heartbeat": {"every": every}})
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house, 51 * 60)
    assert town.beats[0].cache_ttl == ttl


async def test_where_no_retention_is_long_enough_nothing_is_written_to_the_cache(tmp_path: Path) -> None:
    town = Beating(tmp_path, {"heartbeat": {"every": "3h"}})
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house, 3 * 3601)
        assert not town.beats[0].cached
        town.clock.move(3 * 3601)
        await hello(wire)
        await town.pass_by(house, 1)
        assert town.beats[1].cached, "what the main session keeps is read"


async def test_the_main_session_neither_sees_heartbeats_nor_stays_fresh_by_them(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        record = house.agents["main"].store.get("agent:main:main")
        await town.pass_by(house)
        await town.pass_by(house)
        assert house.agents["main"].store.get("agent:main:main") == record
        await hello(wire)
    last = town.model.requests[-1]
    assert [message.role for message in last.messages] == ["user", "assistant", "user"]
    assert parting(town.model.requests[0], last) is None


async def test_active_hours_and_quiet_hours_are_kept(tmp_path: Path) -> None:
    town = Beating(
        tmp_path,
        {"heartbeat": {"activeHours": {"start": "08:00", "end": "10:15"}}, "quietHours": {"start": "08:00", "end": "09:55"}},
    )
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house)  # 10:00
        assert len(town.beats) == 1
        await town.pass_by(house)
        assert len(town.beats) == 1
        assert house.automation.heartbeats.facts(house.agents["main"])["skipped"] == "outside active hours"
    other = Beating(tmp_path / "other", {"quietHours": {"start": "09:00", "end": "10:15"}})
    other.tasks()
    wire = other.wire()
    async with other.house(wire) as house:
        await hello(wire)
        await other.pass_by(house)
        assert other.beats == [], "nobody could be told of anything"
        await other.pass_by(house)
        assert len(other.beats) == 1


async def test_a_busy_owner_is_waited_for(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        gate, plain = asyncio.Event(), town.answer

        town.answer = lambda _: [Stall(gate), TextDelta("late")]
        await wire.say("a long question")
        async with asyncio.timeout(PATIENCE):
            while not house.lanes.busy("agent:main:main"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        town.clock.move(HALF)
        await house.schedule.tick()
        assert house.automation.heartbeats.facts(house.agents["main"])["skipped"] == "busy"
        gate.set()
        await wire.until(lambda: wire.said()[-1] == "late")
        town.answer = plain
        await house.lanes.quiet()
        await town.pass_by(house, 30)
        assert len(town.beats) == 1


async def test_an_owner_who_is_away_is_told_once_and_costs_nothing(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house, 7 * 86_400 - 60)
        assert len(town.beats) == 1
        for _ in range(5):
            await town.pass_by(house)
        await wire.until(lambda: wire.said().count(PAUSED) == 1)
    again = town.wire()
    async with town.house(again) as house:
        for _ in range(5):
            await town.pass_by(house)
        assert len(town.beats) == 1
        assert again.said() == [], "once, over restarts"
        await hello(again)
        await town.pass_by(house)
        assert len(town.beats) == 2


async def test_where_nobody_ever_spoke_there_is_no_heartbeat(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    async with town.house() as house:
        for _ in range(3):
            await town.pass_by(house)
    assert town.beats == []


def failing(request: Request) -> Any:
    del request
    failure = Failure(kind="bad_request", message="no such thing")
    return AssistantMessage(content=(), model="scripted/model", stop="error", failure=failure)


async def beats_of(town: Beating, house: Gateway, quarters: int, *, most: int | None = None) -> list[datetime]:
    """Let so many quarters of an hour pass, or fewer until there were ``most`` beats, and return when there was one."""
    at: list[datetime] = []
    for _ in range(quarters):
        before = len(town.beats)
        await town.pass_by(house, 30 * 60 / 2)
        if len(town.beats) > before:
            at.append(town.clock.now())
        if len(at) == most:
            break
    return at


async def test_a_failing_model_is_asked_ever_less_often_and_nobody_is_told(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        town.answer = failing
        began = town.clock.now()
        beats = await beats_of(town, house, 10 * 48, most=5)
        at = [round((one - began) / timedelta(minutes=30)) for one in beats]
        gaps = [two - one for one, two in itertools.pairwise(at)]
        assert gaps[:3] == [2, 4, 8]
        assert max(gaps) <= 12, "at most six hours"
        assert wire.said() == ["re: hello"]


async def test_a_new_day_ends_the_longer_wait_after_failures(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        town.answer = failing
        at = await beats_of(town, house, 4 * 24)
    after = [one for one in at if one.date() > at[0].date()]
    gaps = [(two - one) / timedelta(hours=1) for one, two in itertools.pairwise(after)]
    assert after[0].hour == 0, "limits of a day begin anew"
    assert min(gaps) > 5, "and it waits as long as before if that fails, too"


async def test_a_restart_repeats_none_and_makes_up_for_one(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house)
    for _ in range(3):
        async with town.house() as house:
            await town.pass_by(house, 60)
    assert len(town.beats) == 1
    town.clock.move(5 * 3600)
    async with town.house(town.wire()) as house:
        await town.pass_by(house, 1)
        await town.pass_by(house, 1)
    assert len(town.beats) == 2


async def test_it_can_be_switched_off_and_has_a_target(tmp_path: Path) -> None:
    town = Beating(tmp_path, {"heartbeat": {"every": 0}})
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house)
        assert town.beats == []
    other = Beating(tmp_path / "other", {"heartbeat": {"target": "wire:default:direct:ben", "prompt": "Look!"}})
    other.tasks()
    other.verdict = "The boiler is out."
    wire = other.wire()
    async with other.house(wire) as house:
        await hello(wire)
        await other.pass_by(house)
        await wire.until(lambda: len(wire.sent) == 2)
        assert wire.sent[1].conversation.id == "ben"
        assert other.beats[0].messages[0].text.startswith("Look!\n\n# HEARTBEAT.md")
    silent = Beating(tmp_path / "silent", {"heartbeat": {"target": "none"}})
    silent.tasks()
    silent.verdict = "The boiler is out."
    wire = silent.wire()
    async with silent.house(wire) as house:
        await hello(wire)
        await silent.pass_by(house)
        assert len(silent.beats) == 1
        assert wire.said() == ["re: hello"]


async def test_nothing_is_asked_whose_answer_nobody_would_get_and_the_owner_is_told_once(tmp_path: Path) -> None:
    why = "wire:default:direct:nobody is the chat of nobody who may speak to me"
    town = Beating(tmp_path, {"heartbeat": {"target": "wire:default:direct:nobody"}})
    town.tasks()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house)
        await town.pass_by(house)
        facts = house.automation.heartbeats.facts(house.agents["main"])
        assert (facts["skipped"], facts["trouble"].partition(". ")[0]) == ("unreachable", why)
        await wire.until(lambda: len(wire.sent) == 2)
        assert wire.said()[1] == (
            f"⚠️ No heartbeat of main: {why}. Give `heartbeat.target` another chat: `homebody channels chats`."
        )
        await wire.say("/status")
        await wire.until(lambda: any(f"Heartbeat every 30 min: {why}" in text for text in wire.said()))
        elsewhere = NewOutbound(conversation=ChatAddress.parse("telegram:work:direct:42"), text="hello")
        await house.ledger.outbox.enqueue([elsewhere])
        (row,) = [row for row in (await house.calls()["outbox.list"]())["outbox"] if row["text"] == "hello"]
        assert row["waits"] == "no account telegram:work is connected (homebody channels status)"
        assert not house.access.judges(elsewhere.conversation), "who may speak there is for the gateway to say that connects it"
        targets = GatewayJobTargets(house.agents, house.owner, None, lambda: ["wire:default"], lambda: CHAT)  # type: ignore[arg-type]
        assert await targets.unreachable(elsewhere.conversation) == "the account telegram:work is not connected"
    assert town.beats == []


class Blocked(Wire):
    """A platform that refuses everything for good, once it is told to."""

    blocked = False

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        if self.blocked:
            raise NotSent("bot was blocked by the user", permanent=True)
        return await super().send(outbound, record)


async def test_while_its_owner_blocks_the_agent_heartbeats_become_rare_and_jobs_pause_and_the_status_says_so(
    tmp_path: Path,
) -> None:
    town = Beating(tmp_path)
    town.tasks()
    town.verdict = "The boiler is out."
    wire = Blocked()
    async with town.house(wire) as house:
        await hello(wire)
        task = NewJob(
            agent="main", name="news", schedule="cron 0 * * * *", kind="prompt", session="isolated", text="What is new?"
        )
        job = await house.automation.jobs.add(task)
        wire.blocked = True
        for _ in range(12):
            await town.pass_by(house)
            await house.lanes.quiet()
            await house.delivery.settled()
        assert len(town.beats) == 3, "after half an hour, one more and two more"
        assert house.automation.heartbeats.facts(house.agents["main"])["failures"] == 3
        assert sum("What is new?" in request.messages[-1].text for request in town.model.requests) == 2
        status = await house.status.status()
        stopped = {"id": job.id, "name": "news", "agent": "main", "reason": "bot was blocked by the user"}
        assert list(status["stoppedJobs"]) == [stopped]


async def test_an_unreadable_file_is_told_in_the_status(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.workspace.mkdir()
    (town.workspace / "HEARTBEAT.md").mkdir()
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        await town.pass_by(house)
        facts = house.automation.heartbeats.facts(house.agents["main"])
        assert facts["skipped"] == "unreadable"
        assert "HEARTBEAT.md" in facts["trouble"]
    assert town.beats == []


async def test_untrusted_text_of_one_heartbeat_does_not_stay_for_the_next(tmp_path: Path) -> None:
    town = Beating(tmp_path)
    town.tasks()
    (tmp_path / "workspace" / "inbox").mkdir()
    (tmp_path / "workspace" / "inbox" / "letter.txt").write_text("dear owner")
    wire = town.wire()
    async with town.house(wire) as house:
        await hello(wire)
        told = ["HEARTBEAT_OK", ToolCall(id="c1", name="read", arguments={"path": "inbox/letter.txt"})]
        town.answer = lambda _: told.pop()
        await town.pass_by(house)
        record = house.agents["main"].store.get(SESSION)
        assert record is not None
        open_ = house.agents["main"].conversations.get(record.session)
        assert open_ is not None
        assert open_.taint
        told = ["HEARTBEAT_OK"]
        await town.pass_by(house)
        later = house.agents["main"].store.get(SESSION)
        assert later is not None
        assert later.session != record.session
