"""Commands in a whole house: a model runs them, a person stops them, and what ended in the background is told."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from agent.messages import ToolCall, ToolMessage, UserMessage
from agent.tools.command_runner import CommandRequest
from gateway.base.clock import SystemClock
from gateway.settings.root import Settings
from memory.audience import OWNER
from tests.runner.commands import alive, mark, soon, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

Make: TypeAlias = "Callable[..., Street]"
pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="commands run without a question only where they are confined"
)
FULL = {"tools": {"exec": {"security": "full"}}}


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{name}-{len(json.dumps(arguments))}", name=name, arguments=arguments)


def results(street: Street) -> list[ToolMessage]:
    return [message for message in street.model.requests[-1].messages if isinstance(message, ToolMessage)]


async def test_a_model_runs_a_command_in_its_workspace(street: Make) -> None:
    s = street(**FULL)
    s.model.then(call("exec", command="echo hello > made.txt; pwd; cat made.txt"), "Done.")
    async with s.house() as (house, talk):
        assert house.commands.runner.pid is None
        assert (await talk.ask("make a file"))["reply"] == "Done."
        [result] = results(s)
        assert result.text.startswith(f"{s.workspace}\nhello\n[exit code 0 after ")
        assert (s.workspace / "made.txt").read_text() == "hello\n"
        pid = house.commands.runner.pid
        assert pid is not None
    await until(lambda: not alive(f"runner_process.py {pid}"))


async def test_stop_ends_the_whole_tree_of_a_running_command(street: Make) -> None:
    s, one = street(**FULL), mark()
    s.model.then(call("exec", command=f"trap '' TERM; (setsid sleep {one} &); sleep {one}", yieldMs=600_000), "Here again.")
    async with s.house() as (_, talk):
        first = await talk.send("run it")
        await until(lambda: len(alive(f"sleep {one}")) > 1)
        assert "Stopped" in (await talk.ask("/stop"))["reply"]
        await until(lambda: alive(one) == [])
        assert (await talk.facts(first))["reply"] == ""
        assert (await talk.ask("hello?"))["reply"] == "Here again."


async def test_stop_ends_a_confined_command_with_its_whole_tree_within_two_seconds(street: Make) -> None:
    s, one = street(tools={"exec": {"security": "full", "sandbox": "bwrap"}}), mark()
    s.clock = SystemClock()
    tree = f"trap '' TERM; (setsid sleep {one} &); nohup sleep {one} >/dev/null 2>&1 & sleep {one}; sleep {one}"
    s.model.then(call("exec", command=tree, yieldMs=600_000))
    async with s.house() as (_, talk):
        await talk.send("run it")
        await until(lambda: len(alive(f"sleep {one}")) > 3)
        assert any("bwrap" in line for line in alive(one))
        asked = time.monotonic()
        await talk.send("/stop")
        await until(lambda: alive(one) == [])
        assert time.monotonic() - asked < soon(2.0)


async def test_stop_ends_what_runs_in_the_background_too(street: Make) -> None:
    s, one = street(**FULL), mark()
    s.model.then(call("exec", command=f"sleep {one}", background=True), "It runs.")
    async with s.house() as (_, talk):
        assert (await talk.ask("run it"))["reply"] == "It runs."
        await until(lambda: alive(one))
        assert (await talk.ask("/stop"))["reply"] == "⏹️ Stopped, including 1 background command."
        await until(lambda: alive(one) == [])
        while (await talk.ask("/stop"))["reply"] != "Nothing is running.":
            pass  # the runner tells of the end a moment later


async def test_the_end_of_a_background_command_is_told_to_the_person_and_to_the_model(street: Make) -> None:
    s = street(**FULL)
    s.model.then(call("exec", command="sleep 0.2; exit 3", background=True), "It runs.", "I see.")
    async with s.house() as (_, talk):
        await talk.ask("run it")
        told = await talk.until(lambda: next((text for text in talk.replies() if text.startswith("⚙️")), None))
        assert "(`sleep 0.2; exit 3`) has ended: exit code 3 after " in told
        assert (await talk.ask("and?"))["reply"] == "I see."
    said = [message for message in s.model.requests[-1].messages if isinstance(message, UserMessage)][-1]
    assert "has ended: exit code 3 after" in said.text
    assert said.taint == ()


async def test_a_command_that_a_closing_gateway_ended_is_told_at_the_next_start(street: Make) -> None:
    s, one = street(**FULL), mark()
    s.model.then(
        call("exec", command=f"echo begun; sleep {one}", background=True), "It runs.", call("process", action="list"), "I see."
    )
    async with s.house() as (_, talk):
        await talk.ask("run it")
        await until(lambda: list(s.workspace.glob(".homebody/output/*")))
    assert alive(one) == []
    async with s.house() as (_, talk):
        told = await talk.until(lambda: next((text for text in talk.replies() if text.startswith("⚙️")), None))
        assert "it was ended because the gateway stopped" in told
        assert (await talk.ask("what runs?"))["reply"] == "I see."
    [listed] = [result for result in results(s) if result.name == "process"]
    assert "it was ended because the gateway stopped" in listed.text


async def test_a_command_whose_end_nobody_saw_is_told_once_as_unknown(street: Make) -> None:
    s = street(**FULL)
    s.model.then("Hello.", "Yes.", "Yes.")
    async with s.house() as (house, talk):
        await talk.ask("hello")
        key = house.agents["main"].main_key
    record = {
        "id": "abcd",
        "command": "make all",
        "started": "2026-03-01T09:00:00+00:00",
        "status": "running",
        "background": True,
    }
    record |= {
        "audience": {"kind": "owner", "key": ""},
        "key": key,
        "turn": "t",
        "sources": [],
        "path": ".homebody/output/x.txt",
    }
    folder = s.root / "home" / "agents" / "main" / "commands"
    folder.mkdir(exist_ok=True)
    (folder / "abcd.json").write_text(json.dumps(record))
    for _ in range(2):
        async with s.house() as (_, talk):
            await talk.ask("hello again")
            await asyncio.sleep(0)
            told = [text for text in talk.replies() if text.startswith("⚙️")]
    assert told == []
    outbox = [text for text in _said(s) if "abcd" in text]
    assert len(outbox) == 1
    assert "outcome unknown" in outbox[0]
    assert "output: .homebody/output/x.txt" in outbox[0]


def _said(street: Street) -> list[str]:
    import apsw

    ledger = apsw.Connection(str(street.root / "home" / "state" / "ledger.sqlite"))
    try:
        return [str(text) for (text,) in ledger.execute("SELECT text FROM outbox")]
    finally:
        ledger.close()


async def test_a_command_that_no_rule_allows_runs_when_the_owner_approves_it_and_not_before(street: Make) -> None:
    s = street()
    s.model.then(call("exec", command="echo hi >> asked.txt"), "I asked.", "It is there.")
    async with s.house() as (house, talk):
        await talk.send("do it")
        asked = await until_some(lambda: house.ledger.approvals.latest(["pending"]))
        assert not (s.workspace / "asked.txt").exists()
        await talk.send(f"/approve {asked[0].id} once")
        await talk.until(lambda: any("It is there." in text or "I asked." in text for text in talk.replies()))
        await until((s.workspace / "asked.txt").exists)
        await house.lanes.quiet()
    assert (s.workspace / "asked.txt").read_text() == "hi\n"


async def until_some(ask: Callable[[], Any]) -> Any:
    while not (found := await ask()):  # noqa: ASYNC110 -- the ledger tells nobody
        await asyncio.sleep(0.02)
    return found


async def test_an_agent_that_the_settings_do_not_have_yet_can_be_built_with_its_commands(street: Make) -> None:
    s = street(**FULL)
    async with s.house() as (house, _):
        said = s.settings.model_dump(by_alias=True, exclude_unset=True)
        exec_of_work = {"exec": {"backgroundMs": 500}}
        said["agents"]["list"] = [{"id": "main"}, {"id": "work", "workspace": str(s.root / "work"), "tools": exec_of_work}]
        [built] = await house.agent_supervisor.prepare(Settings.model_validate(said))
        assert (built.agent.id, built.commands.background_seconds) == ("work", 0.5)
        await house.agent_supervisor.dismiss([built])


@pytest.mark.parametrize("sandbox", ["bwrap", "off"])
async def test_an_agent_that_goes_ends_what_it_runs_however_soon_after_it_came(street: Make, sandbox: str) -> None:
    s = street(tools={"exec": {"security": "full", "sandbox": sandbox}})
    s.clock = SystemClock()
    said = s.settings.model_dump(by_alias=True, exclude_unset=True)
    said["agents"]["list"] = [{"id": "main"}, {"id": "work", "workspace": str(s.root / "work")}]
    with_work = Settings.model_validate(said)
    async with s.house() as (house, _):
        supervisor, ended = house.agent_supervisor, set[str]()
        for _ in range(8):
            newcomers = await supervisor.prepare(with_work)
            assert {job.state.id for job in newcomers[0].commands.jobs(OWNER)} == ended
            house.settings.replace(with_work)
            supervisor.adopt(with_work, newcomers, ())
            commands, one = newcomers[0].commands, mark()
            job = await commands.start(CommandRequest(command=f"sleep {one}", key="agent:work:main", turn="t"))
            job.to_background()
            await until(lambda one=one: alive(f"sleep {one}"))
            assert job in commands.jobs(OWNER)
            house.settings.replace(s.settings)
            await supervisor.look_again()
            async with asyncio.timeout(60):
                await supervisor.settled()
            assert (alive(one), job.state.status, job.state.reason) == ([], "ended", "shutdown")
            ended.add(job.id)
