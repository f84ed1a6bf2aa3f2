"""Servers that misbehave: they are told apart from those that work, and harm nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mcp.errors import McpError
from gateway.mcp.message_rate import BURST, PER_SECOND, MessageRate
from tests.mcp.house import odd, servers
from tests.patience import PATIENCE

DEEP: dict[str, Any] = {"type": "object", "properties": {}}


async def test_a_server_that_dies_is_said_to_have_died_and_is_started_again(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("dies")}) as house:
        for _ in range(2):
            outcome = await house.call("mcp_x_say")
            assert outcome.is_error
            assert "ended with exit code 3 (it printed: out of luck)" in outcome.text
            assert outcome.sources == ("mcp:x",)
        outcome = await house.call("mcp_x_say")
        assert "failed 2 times and is tried again in" in outcome.text
        await house.servers.test("x")
        assert "exit code 3" in (await house.call("mcp_x_say")).text


async def test_a_call_that_is_not_answered_ends_in_time_and_the_server_is_told(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("hangs", timeoutSec=1, cwd=str(tmp_path))}) as house:
        outcome = await house.call("mcp_x_say")
        assert "did not answer within 1 seconds" in outcome.text
        await _there(tmp_path / "cancelled")


async def test_a_call_that_is_stopped_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("hangs", cwd=str(tmp_path))}) as house:
        call = asyncio.create_task(house.call("mcp_x_say"))
        await _there(tmp_path / "called")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await _there(tmp_path / "cancelled")


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("garbage", "lines that are no MCP messages"),
        ("long", "a message of more than 8,388,608 bytes"),
        ("broken", "no valid MCP"),
    ],
)
async def test_a_server_that_breaks_the_protocol_is_ended_with_a_reason(tmp_path: Path, mode: str, why: str) -> None:
    async with servers(tmp_path, {"x": odd(mode), "good": odd("good")}) as house:
        outcome = await house.call("mcp_x_say")
        assert why in outcome.text
        assert (await house.call("mcp_good_say", {"text": "hello"})).text == "hello"


async def test_a_storm_of_notifications_leaves_the_loop_and_the_others_alone(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("storm"), "good": odd("good")}) as house:
        flooded = asyncio.create_task(house.call("mcp_x_say"))
        for _ in range(5):
            assert (await house.call("mcp_good_say", {"text": "hello"})).text == "hello"
        assert (await flooded).text == "said"


@pytest.mark.parametrize("mode", ["sampling", "elicitation", "roots"])
async def test_what_a_server_asks_of_people_or_models_is_refused(tmp_path: Path, mode: str) -> None:
    async with servers(tmp_path, {"x": odd(mode)}) as house:
        heard = json.loads((await house.call("mcp_x_say")).text)
        assert "error" in heard
        assert "result" not in heard


@pytest.mark.sec(13)
async def test_sec_53_a_server_is_given_an_environment_made_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-something-secret")
    async with servers(tmp_path, {"x": odd("env", env={"MINE": "1", "API_TOKEN": "t0ken-of-mine"})}) as house:
        there = json.loads((await house.call("mcp_x_say")).text)
    assert there.keys() - {"LC_CTYPE", "PWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG", "TMPDIR", "MINE", "API_TOKEN"}


async def test_an_error_of_the_server_is_one_line_and_untrusted(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("error")}) as house:
        outcome = await house.call("mcp_x_say")
    assert (outcome.text, outcome.is_error, outcome.sources) == ("it is not possible", True, ("mcp:x",))


async def test_a_long_answer_is_cut_and_kept_whole_in_an_untrusted_file(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("big")}) as house:
        outcome = await house.call("mcp_x_say", max_chars=2000)
        assert len(outcome.text) <= 2000
        assert outcome.text.startswith("first\n")
        assert outcome.text.endswith("last")
        path = outcome.text.partition("all of it: ")[2].partition("]")[0]
        assert (tmp_path / "workspace" / path).read_text() == "first\n" + "middle\n" * 20_000 + "last"
        assert "mcp:x" in house.untrusted.of(_relative(path))


async def test_a_server_that_never_says_what_it_offers_is_given_up(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("silent", startTimeoutSec=1)}, pin=False) as house:
        with pytest.raises(McpError, match="did not say what it offers within 1 seconds"):
            await house.servers.test("x")
        assert house.tools() == {}


async def test_a_server_that_stays_is_ended_with_what_it_started(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("stays", cwd=str(tmp_path))}) as house:
        await house.call("mcp_x_say")
        child = int((tmp_path / "child").read_text())
        os.kill(child, 0)
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE
    async with asyncio.timeout(PATIENCE):
        while _lives(child):  # noqa: ASYNC110 -- another process ends
            await asyncio.sleep(0.01)


async def test_a_server_that_is_not_used_is_stopped_and_started_again(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("good", idleMinutes=0.001)}) as house:
        for _ in range(2):
            assert not (await house.call("mcp_x_say")).is_error
            async with asyncio.timeout(PATIENCE):
                while house.servers.get("x").connection.running:  # noqa: ASYNC110 -- it ends by itself
                    await asyncio.sleep(0.01)


async def test_calls_side_by_side_share_one_start(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("good")}) as house:
        answers = await asyncio.gather(*(house.call("mcp_x_say", {"text": str(n)}) for n in range(20)))
        assert [one.text for one in answers] == [str(n) for n in range(20)]


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60))
def test_messages_beyond_the_rate_wait_and_no_others(gaps: list[float]) -> None:
    now, slept = 0.0, 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now, slept
        now, slept = now + seconds, slept + seconds

    async def read() -> int:
        nonlocal now
        rate, count = MessageRate(lambda: now, sleep), 0
        for gap in gaps:
            now += gap
            for _ in range(300):
                await rate.wait()
                count += 1
        return count

    count = asyncio.run(read())
    assert count <= BURST + PER_SECOND * now + 1
    assert slept <= max(0.0, (count - BURST) / PER_SECOND) + 1e-6


async def test_a_program_that_is_not_there_is_named_with_what_helps(tmp_path: Path) -> None:
    async with servers(
        tmp_path, {"x": {"command": "no-such-program"}, "y": {"command": "sh", "cwd": "/nowhere"}}, pin=False
    ) as house:
        with pytest.raises(McpError, match="no program 'no-such-program'"):
            await house.servers.test("x")
        with pytest.raises(McpError, match="there is no such folder"):
            await house.servers.test("y")


async def test_tools_that_cannot_be_used_are_left_out_and_named(tmp_path: Path) -> None:
    deep: Any = {}
    for _ in range(50):
        deep = {"type": "object", "properties": {"a": deep}}
    offered = [
        {"name": "good", "description": "fine\u202e\u200b", "inputSchema": DEEP},
        {"name": "good", "description": "again", "inputSchema": DEEP},
        {"name": "über/tool", "inputSchema": {"type": "object"}},
        {"name": "x" * 300, "inputSchema": DEEP},
        {"name": "hid\u200bden", "inputSchema": DEEP},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "huge", "inputSchema": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2000)}}},
        {"name": "deep", "inputSchema": deep},
        {"name": "talks", "description": "y" * 50_000, "inputSchema": DEEP},
    ]
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(offered))
    async with servers(tmp_path, {"x": odd("good", file)}) as house:
        tools = house.tools()
        assert "mcp_x_good" in tools
        assert len(tools) == 3
        assert tools["mcp_x_good"].spec.description == "fine"
        assert all(len(name) <= 64 and name.isascii() for name in tools)
        assert len(tools["mcp_x_talks"].spec.description) == 2000
        pin = house.servers.get("x").pin
        assert pin is not None
        assert len(pin.approved.left_out) == 6


async def test_an_endless_list_of_tools_is_cut(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("endless")}) as house:
        assert list(house.tools()) == ["mcp_x_say"]


async def _there(file: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while not file.exists():  # noqa: ASYNC110, ASYNC240 -- another process makes it
            await asyncio.sleep(0.01)


def _relative(path: str) -> Any:
    return PurePosixPath(path)


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_server_that_leaves_two_calls_without_an_answer_is_ended_and_started_again(tmp_path: Path) -> None:
    async with servers(tmp_path, {"x": odd("hangs", timeoutSec=1, cwd=str(tmp_path))}) as house:
        connection = house.servers.get("x").connection
        assert "did not answer within 1 seconds" in (await house.call("mcp_x_say")).text
        assert connection.running, "one slow call ends nothing"
        (tmp_path / "called").unlink()
        assert (await house.call("mcp_x_say")).is_error
        assert not connection.running
        assert "2 times in a row" in connection.last_error
        assert (await house.call("mcp_x_say")).is_error
        assert (tmp_path / "called").exists(), "another program was started"
