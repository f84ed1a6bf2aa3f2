"""Confined commands run like others: they print, take keys, tidy up when they are asked to end, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from gateway.sandbox import landlock, restrict
from gateway.sandbox.bubblewrap import Bubblewrap
from gateway.sandbox.places import Places
from gateway.sandbox.protocol import Limits, Request
from tests.runner.commands import alive, mark, output, plan, soon, until
from tests.runner.hands import hands

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.runner.runner_client import Runner
    from gateway.sandbox.protocol import Confined
    from tests.runner.hands import Hands

ROOT = Path(__file__).parents[2]
BWRAP = shutil.which("bwrap")
pytestmark = pytest.mark.skipif(
    BWRAP is None or restrict.landlock_version() < landlock.OLDEST, reason="there is nothing to confine with"
)
Make: TypeAlias = "Callable[..., Any]"


def confinement(means: str, tmp: Path, limits: Limits) -> Callable[[Request], Confined]:
    if means == "bwrap":
        assert BWRAP is not None
        made = Bubblewrap(program=BWRAP, version=(0, 8, 0), landlock=restrict.landlock_version())
        return lambda request: made.confine(request, Places(), limits)
    other = landlock.Landlock(version=restrict.landlock_version())
    return lambda request: other.confine(request, Places(), limits, tmp=str(tmp), processes=100_000)


@pytest.fixture(params=["bwrap", "landlock"])
def confined(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    @contextlib.asynccontextmanager
    async def make(limits: Limits | None = None, **more: Any) -> AsyncIterator[Hands]:
        (tmp_path / "tmp").mkdir(exist_ok=True)
        async with hands(tmp_path, confine=confinement(request.param, tmp_path / "tmp", limits or Limits()), **more) as one:
            yield one

    return make


async def test_it_prints_and_ends_with_its_code(confined: Make) -> None:
    async with confined() as one:
        answer = await one.exec("pwd; echo err >&2; echo kept > file; exit 3")
        assert answer.text.startswith(f"{one.root}\nerr\n[exit code 3 after ")
        assert (one.root / "file").read_text() == "kept\n"
        assert "exit code 127" in (await one.exec("no-such-program")).text
        assert "exit code 139 after" in (await one.exec("bash -c 'kill -SEGV $$'; exit $?")).text


async def test_a_terminal_has_a_size_and_ctrl_c_reaches_the_command(confined: Make) -> None:
    async with confined() as one:
        text = "stty size; trap 'echo caught; exit 9' INT; echo up; while :; do sleep 0.1; done"
        job = (await one.exec(text, pty=True, yieldMs=0)).details["job"]
        told = ""
        while "up" not in told:
            told += (await one.process("poll", job=job, timeout=10)).text
        assert "40 120" in told
        told = (await one.process("send-keys", job=job, keys=["ctrl-c"])).text
        while "exit code 9" not in told:
            told = (await one.process("poll", job=job, timeout=10)).text


async def test_it_may_tidy_up_when_it_is_asked_to_end(confined: Make) -> None:
    async with confined() as one:
        job = (await one.exec("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done", yieldMs=0)).details["job"]
        told = ""
        while "up" not in told:
            told += (await one.process("poll", job=job, timeout=10)).text
        killed = await one.process("kill", job=job)
        assert "exit code 7 after" in killed.text
        assert "bye\n" in (await one.process("log", job=job)).text


async def test_nothing_outlives_it(confined: Make) -> None:
    async with confined() as one:
        this = mark()
        ended = await one.exec(f"(setsid sleep {this} &); nohup sleep {this} >/dev/null 2>&1 & exit 0")
        assert "exit code 0" in ended.text
        await until(lambda: alive(this) == [])
        late = await one.exec(f"trap '' TERM HUP; (setsid sleep {this} &); sleep {this}; sleep {this}", timeout=0.5)
        assert "it was ended after 0.5 s" in late.text
        await until(lambda: alive(this) == [])


async def test_what_uses_too_much_is_ended_and_told(confined: Make) -> None:
    async with confined(Limits(processes=40, memory_bytes=200 << 20, file_bytes=1 << 20)) as one:
        bomb = await one.exec("bomb() { bomb | bomb & }; bomb; sleep 100", timeout=30)
        assert bomb.is_error
        large = await one.exec("head -c 50000000 /dev/zero > big")
        assert "a file would have grown larger than files may" in large.text
        hungry = "import time\nheld = []\nwhile True: held.append(b'x' * 5_000_000); time.sleep(0.002)\n"
        (one.root / "hungry.py").write_text(hungry)
        fed = await one.exec("/usr/bin/python3 hungry.py", timeout=60)
        assert "too much memory" in fed.text or "MemoryError" in fed.text, fed.text


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("means", ["bwrap", "off"])
async def test_a_command_can_be_ended_at_any_moment_after_its_start(
    runner: Runner, tmp_path: Path, means: str, rounds: int
) -> None:
    moments = random.Random(7)
    how = confinement("bwrap", tmp_path, Limits())

    async def start_and_kill() -> None:
        this = mark()
        argv = ("/bin/bash", "-c", f"(setsid sleep {this} &); sleep {this}")
        request = Request(argv=argv, cwd=str(tmp_path), workspace=str(tmp_path), agent="main", access="rw")
        process = await runner.start(how(request) if means == "bwrap" else plan(*argv), timeout=120)
        reading = asyncio.create_task(output(process))
        await asyncio.sleep(moments.uniform(0, 0.05))
        asked = time.monotonic()
        process.kill()
        assert (await process.exit()).reason == "stopped"
        assert time.monotonic() - asked < soon(2.0)
        assert alive(this) == []
        await reading

    for _ in range(rounds):
        await asyncio.gather(*(start_and_kill() for _ in range(10)))


GATEWAY = """
import asyncio, os, sys
sys.path.insert(0, os.environ["ROOT"])
from pathlib import Path
from gateway.sandbox.protocol import Limits
from tests.runner.hands import hands
from tests.runner.test_confined import confinement

async def main():
    folder, this = Path(os.environ["FOLDER"]), os.environ["MARK"]
    (folder / "tmp").mkdir()
    async with hands(folder, confine=confinement(os.environ["MEANS"], folder / "tmp", Limits())) as one:
        for kind in ("sleep MARK", "(setsid sleep MARK &); sleep MARK", "trap '' TERM HUP INT; while :; do sleep MARK; done") * 4:
            await one.exec(kind.replace("MARK", this), background=True, pty="trap" in kind)
        print("up", flush=True)
        await asyncio.sleep(300)

asyncio.run(main())
"""


@pytest.mark.parametrize("means", ["bwrap", "landlock"])
async def test_nothing_outlives_the_gateway(tmp_path: Path, means: str) -> None:
    this = mark()
    env = {**os.environ, "ROOT": str(ROOT), "MARK": this, "FOLDER": str(tmp_path), "MEANS": means}
    house = await asyncio.create_subprocess_exec(sys.executable, "-c", GATEWAY, stdout=asyncio.subprocess.PIPE, env=env)
    assert house.stdout is not None
    assert await house.stdout.readline() == b"up\n"
    await until(lambda: len(alive(f"sleep {this}")) >= 12)
    house.send_signal(signal.SIGKILL)
    await house.wait()
    await until(lambda: alive(this) == [])
