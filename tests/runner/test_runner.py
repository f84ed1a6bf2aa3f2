"""Commands run in the runner process: what they print, how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from gateway.base.clock import SystemClock
from gateway.runner.frames import WINDOW
from gateway.runner.runner_client import NotStarted, Runner, RunnerGone
from gateway.sandbox.protocol import Limits
from tests.runner.commands import ENV, alive, mark, output, plan, ran, sh, until


async def test_output_and_exit_code_come_back(runner: Runner) -> None:
    printed, end = await ran(runner, sh("echo out; echo err >&2; exit 3"))
    assert (printed, end.code, end.signal, end.reason, end.left) == (b"out\nerr\n", 3, None, "", 0)


async def test_a_command_that_a_signal_ends_names_it(runner: Runner) -> None:
    _, end = await ran(runner, sh("kill -SEGV $$"))
    assert (end.code, end.signal) == (None, signal.SIGSEGV)


@pytest.mark.sec(53)
async def test_a_command_gets_the_environment_of_its_plan_and_nothing_else(runner: Runner) -> None:
    os.environ["HOMEBODY_CANARY"] = "canary"
    try:
        printed, _ = await ran(runner, plan("/usr/bin/env", env={"A": "1"}))
        assert printed == b"A=1\n"
        assert _proc(runner.pid, "environ") == b""
        printed, _ = await ran(
            runner, sh("cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c ^HOMEBODY_CANARY=canary")
        )
        assert b"canary" not in printed
    finally:
        del os.environ["HOMEBODY_CANARY"]


async def test_the_runner_loads_nothing_but_the_standard_library_and_its_own_files(runner: Runner) -> None:
    await ran(runner, sh("true"))
    assert b"site-packages" not in _proc(runner.pid, "maps")
    words = _proc(runner.pid, "cmdline").split(b"\0")
    assert words[1:3] == [b"-I", b"-S"]


async def test_binary_output_arrives_unchanged(runner: Runner) -> None:
    printed, _ = await ran(runner, plan(sys.executable, "-c", "import os; os.write(1, bytes(range(256)) * 300)"))
    assert printed == bytes(range(256)) * 300


async def test_output_without_a_line_break_and_fast_lines_arrive_whole(runner: Runner) -> None:
    printed, _ = await ran(runner, sh("head -c 100000000 /dev/zero"))
    assert printed.count(0) == 100_000_000
    lines, _ = await ran(runner, sh("for i in {1..10000}; do echo line $i; done"))
    assert lines.splitlines() == [f"line {i}".encode() for i in range(1, 10_001)]


async def test_output_that_nobody_takes_fills_no_memory_and_stops_the_command(runner: Runner) -> None:
    process = await runner.start(sh("yes"), timeout=120)
    chunks = process.chunks()
    await anext(chunks)
    before = _memory(runner.pid)
    await asyncio.sleep(0.5)
    assert _memory(runner.pid) - before < 5_000_000
    assert process.waiting <= WINDOW
    process.kill(grace=0.1)
    async for _ in chunks:
        pass
    assert (await process.exit()).reason == "stopped"


def _proc(pid: int | None, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def _memory(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("size", [200_000_000, pytest.param(1_000_000_000, marks=pytest.mark.long)])
async def test_a_gigabyte_streams_through_while_others_run(runner: Runner, size: int) -> None:
    process = await runner.start(sh(f"head -c {size} /dev/zero"), timeout=300)

    async def count() -> int:
        return sum([len(chunk) async for chunk in process.chunks()])

    counting = asyncio.create_task(count())
    beside = 0
    while not counting.done():
        assert (await ran(runner, sh("echo x")))[0] == b"x\n"
        beside += 1
    assert (await counting, (await process.exit()).code) == (size, 0)
    assert beside > 3
    assert _memory(runner.pid) < 60_000_000


async def test_what_detaches_itself_ends_with_the_command(runner: Runner) -> None:
    one = mark()
    text = f"sleep {one} & (setsid sleep {one} &) ; setsid bash -c '(setsid sleep {one} &)'; nohup sleep {one} & echo done"
    printed, end = await ran(runner, sh(text))
    assert printed.endswith(b"done\n")
    assert (end.code, end.left > 0) == (0, True)
    assert alive(one) == []


async def test_a_command_that_ignores_the_request_to_end_is_killed(runner: Runner) -> None:
    one = mark()
    process = await runner.start(sh(f"trap '' TERM INT HUP; echo up; while :; do sleep {one}; done"), timeout=120)
    reading = asyncio.create_task(output(process))
    await until(lambda: len(alive(one)) > 1)  # the shell names it, too, before it has set its trap
    process.kill(grace=0.2)
    end = await process.exit()
    await reading
    assert (end.signal, end.reason) == (signal.SIGKILL, "stopped")
    assert alive(one) == []


async def test_a_command_may_tidy_up_when_it_is_asked_to_end(runner: Runner) -> None:
    process = await runner.start(sh("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"), timeout=120)
    chunks = process.chunks()
    assert await anext(chunks) == b"up\n"
    process.kill(grace=60)
    assert b"".join([one async for one in chunks]).endswith(b"bye\n")
    assert (await process.exit()).code == 7


async def test_the_time_limit_ends_the_whole_tree(runner: Runner) -> None:
    one = mark()
    _, end = await ran(runner, sh(f"(setsid sleep {one} &); sleep {one}"), timeout=0.3)
    assert (end.reason, end.left) == ("timeout", 0)
    assert alive(one) == []


async def test_a_fork_bomb_is_ended(runner: Runner) -> None:
    one = mark()
    _, end = await ran(runner, sh(f": {one}; bomb() {{ bomb | bomb & }}; bomb; sleep {one}"), limits=Limits(processes=50))
    assert end.reason == "processes"
    assert alive(one) == []


async def test_a_command_that_takes_too_much_memory_is_ended(runner: Runner) -> None:
    hungry = "import time\nheld = []\nwhile True:\n    held.append(b'x' * 5_000_000)\n    time.sleep(0.002)\n"
    _, end = await ran(runner, plan(sys.executable, "-c", hungry), limits=Limits(memory_bytes=150_000_000))
    assert end.reason == "memory"


async def test_a_file_that_grows_too_large_ends_the_command(runner: Runner, tmp_path: Path) -> None:
    given = plan("/usr/bin/head", "-c", "50000000", "/dev/zero", cwd=str(tmp_path))
    shell = sh(f"exec {' '.join(given.argv)} > big", cwd=str(tmp_path), rlimits=(("FSIZE", 1_000_000),))
    _, end = await ran(runner, shell)
    assert end.signal == signal.SIGXFSZ
    assert (tmp_path / "big").stat().st_size == 1_000_000


async def test_a_command_without_input_reads_the_end_of_it(runner: Runner) -> None:
    printed, end = await ran(runner, sh("read x || echo none; cat; echo done"))
    assert (printed, end.code) == (b"none\ndone\n", 0)


async def test_input_is_written_and_closed(runner: Runner) -> None:
    process = await runner.start(plan("/bin/cat"), timeout=120, input_open=True)
    assert process.write(b"one\n")
    assert process.write(b"two\n")
    process.end_input()
    assert await output(process) == b"one\ntwo\n"
    assert (await process.exit()).code == 0


async def test_input_that_is_not_read_is_refused_and_blocks_nothing(runner: Runner) -> None:
    one = mark()
    process = await runner.start(plan("/bin/sleep", one), timeout=120, input_open=True)
    reading = asyncio.create_task(output(process))
    taken = 0
    while process.write(b"x" * 60_000):
        taken += 60_000
        await asyncio.sleep(0)
        assert taken < 2_000_000
    assert (await ran(runner, sh("echo still here")))[0] == b"still here\n"
    process.kill(grace=0)
    await process.exit()
    await reading


async def test_a_command_may_close_its_output_and_go_on(runner: Runner) -> None:
    printed, end = await ran(runner, sh("echo a; exec >&- 2>&-; sleep 0.2; exit 4"))
    assert (printed, end.code) == (b"a\n", 4)


async def test_what_cannot_be_executed_says_why(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for given, file in (
        (plan("/no/such/program"), "/no/such/program"),
        (plan("/bin/true", cwd=str(tmp_path / "gone")), str(tmp_path / "gone")),
        (plan("/bin/true", cwd=str(tmp_path / "file")), str(tmp_path / "file")),
        (plan(str(tmp_path / "file")), str(tmp_path / "file")),
    ):
        process = await runner.start(given, timeout=60)
        with pytest.raises(NotStarted) as refusal:
            await process.exit()
        assert refusal.value.file == file
        assert refusal.value.errno
    process = await runner.start(plan("/bin/echo", "x" * 3_000_000), timeout=60)
    with pytest.raises(NotStarted, match="too long"):
        await process.exit()


async def test_a_terminal_has_a_size_and_takes_keys(runner: Runner) -> None:
    printed, _ = await ran(
        runner, sh("stty size; tty; test -t 0 && test -t 1 && echo both; : < /dev/tty && echo owned"), pty=(30, 100)
    )
    assert printed.split(b"\r\n")[0] == b"30 100"
    assert b"both\r\nowned" in printed
    process = await runner.start(
        sh("trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.05; done"), timeout=120, pty=(24, 80)
    )
    chunks = process.chunks()
    assert b"up" in await anext(chunks)
    process.write(b"\x03")
    assert b"caught" in b"".join([one async for one in chunks])
    assert (await process.exit()).code == 5


async def test_a_python_prompt_answers_in_a_terminal(runner: Runner) -> None:
    process = await runner.start(
        plan(sys.executable, "-I", "-q", env={**ENV, "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}),
        timeout=120,
        pty=(24, 80),
        input_open=True,
    )
    seen = bytearray()

    async def read() -> None:
        async for chunk in process.chunks():
            seen.extend(chunk)

    reading = asyncio.create_task(read())
    await until(lambda: b">>> " in seen)
    process.write(b"6 * 7\r")
    await until(lambda: b"42" in seen)
    process.end_input()
    assert (await process.exit()).code == 0
    await reading


async def test_fifty_commands_at_once_all_answer(runner: Runner) -> None:
    found = await asyncio.gather(*(ran(runner, sh(f"sleep 0.2; echo {number}")) for number in range(50)))
    assert [printed for printed, _ in found] == [f"{number}\n".encode() for number in range(50)]
    await until(lambda: _zombies(runner.pid) == 0)


def _zombies(pid: int | None) -> int:
    states = [
        Path(f"/proc/{child}/status").read_text() for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ]
    return sum("State:\tZ" in state for state in states)


async def test_orphans_that_end_leave_no_zombies(runner: Runner) -> None:
    process = await runner.start(sh("for i in {1..50}; do (true &) ; done; sleep 0.3; echo x; sleep 60"), timeout=120)
    chunks = process.chunks()
    assert b"x" in await anext(chunks)
    children = _proc(runner.pid, f"task/{runner.pid}/children").split()
    assert max(_zombies(int(child)) for child in children) == 0
    process.kill(grace=0)
    await process.exit()


async def test_killed_runner_mid_command_is_told_and_another_one_starts(runner: Runner) -> None:
    one = mark()
    process = await runner.start(sh(f"(setsid sleep {one} &); echo up; sleep {one}"), timeout=120)
    chunks = process.chunks()
    assert await anext(chunks) == b"up\n"
    first = runner.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert (await process.exit()).reason == "lost"
    assert [chunk async for chunk in chunks] == []
    await until(lambda: alive(one) == [])
    assert (await ran(runner, sh("echo again")))[0] == b"again\n"
    assert runner.pid != first


async def test_a_killed_keeper_is_told_and_what_it_kept_is_ended(runner: Runner) -> None:
    one = mark()
    process = await runner.start(sh(f"(setsid sleep {one} &); echo $PPID; sleep {one}"), timeout=120)
    chunks = process.chunks()
    keeper = int(await anext(chunks))
    os.kill(keeper, signal.SIGKILL)
    assert [chunk async for chunk in chunks] == []
    assert (await process.exit()).reason == "lost"
    await until(lambda: alive(one) == [])
    assert (await ran(runner, sh("echo fine")))[0] == b"fine\n"


async def test_a_runner_without_work_ends_and_comes_back() -> None:
    runner = Runner(SystemClock(), idle=0.05)
    assert runner.pid is None
    await ran(runner, sh("true"))
    first = runner.pid
    await until(lambda: runner.pid is None)
    await until(lambda: not Path(f"/proc/{first}").exists())
    assert (await ran(runner, sh("echo back")))[0] == b"back\n"
    await runner.close()


async def test_closing_ends_every_command_and_starts_no_more() -> None:
    runner, one = Runner(SystemClock()), mark()
    processes = [
        await runner.start(sh(f"trap '' TERM; (setsid sleep {one} &); sleep {one}; sleep {one}"), timeout=120) for _ in range(5)
    ]
    reading = [asyncio.create_task(output(process)) for process in processes]
    await until(lambda: len(alive(one)) >= 10)
    pid = runner.pid
    await runner.close()
    await asyncio.gather(*reading)
    assert alive(one) == []
    await until(lambda: not Path(f"/proc/{pid}").exists())
    with pytest.raises(RunnerGone):
        await runner.start(sh("true"), timeout=1)


GATEWAY = """
import asyncio, os, sys
sys.path.insert(0, os.environ["ROOT"])
from gateway.base.clock import SystemClock
from gateway.runner.frames import WINDOW
from gateway.runner.runner_client import Runner
from tests.runner.commands import sh

async def main():
    runner = Runner(SystemClock())
    kinds = [
        "sleep MARK", "(setsid sleep MARK &); sleep MARK", "trap '' TERM HUP INT; while :; do sleep MARK; done",
        "nohup sleep MARK & wait", "exec >/dev/null 2>&1 </dev/null; setsid sleep MARK",
    ]
    for number in range(20):
        text = kinds[number % 5].replace("MARK", os.environ["MARK"])
        await runner.start(sh(text), timeout=float(os.environ["SECONDS"]), pty=(24, 80) if number % 2 else None)
    print("up", flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


async def _gateway(one: str, *, seconds: float) -> asyncio.subprocess.Process:
    env = {**os.environ, "ROOT": str(Path(__file__).parents[2]), "MARK": one, "SECONDS": str(seconds)}
    house = await asyncio.create_subprocess_exec(sys.executable, "-c", GATEWAY, stdout=asyncio.subprocess.PIPE, env=env)
    assert house.stdout is not None
    assert await house.stdout.readline() == b"up\n"
    return house


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
async def test_when_the_gateway_dies_nothing_of_twenty_commands_is_left(number: int) -> None:
    one = mark()
    house = await _gateway(one, seconds=300)
    await until(lambda: len(alive(f"sleep {one}")) >= 20)
    house.send_signal(number)
    await house.wait()
    await until(lambda: alive(one) == [])


async def test_a_gateway_that_stands_still_ends_no_command_before_its_time() -> None:
    one = mark()
    house = await _gateway(one, seconds=1.5)
    house.send_signal(signal.SIGSTOP)
    await until(lambda: alive(f"sleep {one}") == [])
    house.send_signal(signal.SIGKILL)
    await house.wait()
    await until(lambda: alive(one) == [])
