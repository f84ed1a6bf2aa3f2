"""Confined commands, started by the runner process as the gateway starts them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import SystemClock
from gateway.runner.runner_client import Exit, Process, Runner
from gateway.sandbox.protocol import Limits
from tests.sandbox.running import Confining

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.usefixtures("confining"), pytest.mark.cpu_seconds(60)]
MEANS = ("bwrap", "landlock")


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    made = Runner(SystemClock())
    yield made
    await made.close()


async def started(
    runner: Runner, place: Path, means: str, text: str, *, limits: Limits | None = None, pty: bool = False
) -> Process:
    plan = await Confining(place, {"tools": {"exec": {"sandbox": means}}}).plan(
        text, pty=pty, **({"limits": limits} if limits else {})
    )
    return await runner.start(plan, timeout=120, limits=limits, pty=(30, 100) if pty else None, input_open=not pty)


async def ended(process: Process) -> tuple[bytes, Exit]:
    shown = b"".join([chunk async for chunk in process.chunks()])
    return shown, await process.exit()


def marked(mark: str) -> list[int]:
    """The processes of this machine with this in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("means", MEANS)
async def test_output_input_and_exit_code_pass_through(runner: Runner, tmp_path: Path, means: str) -> None:
    process = await started(runner, tmp_path, means, "read line; echo got $line; echo error >&2; exit 7")
    process.write(b"hello\n")
    shown, end = await ended(process)
    assert shown == b"got hello\nerror\n"
    assert (end.code, end.reason) == (7, "")


@pytest.mark.parametrize("means", MEANS)
async def test_a_terminal_takes_keys(runner: Runner, tmp_path: Path, means: str) -> None:
    text = "stty size; trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    process = await started(runner, tmp_path, means, text, pty=True)
    shown, typed = b"", False
    async for chunk in process.chunks():
        shown += chunk
        if b"ready\r\n" in shown and not typed:  # once: each Ctrl-C throws away what the terminal has not shown yet
            typed = process.write(b"\x03")
    assert shown.startswith(b"30 100\r\n")
    assert b"caught" in shown
    assert (await process.exit()).code == 3


@pytest.mark.parametrize("means", MEANS)
async def test_ending_a_command_ends_what_it_detached(runner: Runner, tmp_path: Path, means: str) -> None:
    mark = f"mark-{means}-{os.getpid()}"
    text = f"trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' {mark} &) ; echo ready; while :; do sleep 1; done"
    process = await started(runner, tmp_path, means, text)
    shown = b""
    async for chunk in process.chunks():
        shown += chunk
        if b"ready" in shown:
            while not marked(mark):  # noqa: ASYNC110 -- another program's doing
                await asyncio.sleep(0.01)
            process.kill(grace=0.1)
    assert (await process.exit()).reason == "stopped"
    assert marked(mark) == []


@pytest.mark.parametrize("means", MEANS)
async def test_a_flood_of_processes_is_ended_for_root_too(runner: Runner, tmp_path: Path, means: str) -> None:
    text = "i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i+1)); done; wait"
    limits = Limits(processes=40 if means == "bwrap" else 60)
    _, end = await ended(await started(runner, tmp_path, means, text, limits=limits))
    assert end.reason == "processes" or end.code not in (0, None)
