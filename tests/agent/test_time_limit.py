"""How long something may take, on a loop whose clock can jump as behind a sleep."""

from __future__ import annotations

import asyncio

import pytest

from agent.loop.turn import SLICE, running_limit


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose clock can be set ahead."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def run(work) -> None:
    with asyncio.Runner(loop_factory=Jumping) as runner:
        runner.run(work)


def test_what_takes_too_long_is_ended() -> None:
    async def live() -> None:
        with pytest.raises(TimeoutError):
            async with running_limit(0.01):
                await asyncio.Event().wait()

    run(live())


def test_what_ends_in_time_leaves_nothing_behind() -> None:
    async def live() -> None:
        async with running_limit(600):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    run(live())


def test_a_sleep_of_the_machine_counts_for_a_moment_only() -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Jumping)
        async with running_limit(600):
            for _ in range(3):
                await asyncio.sleep(0)
                loop.ahead += 7200
                await asyncio.sleep(0.01)

    run(live())


def test_time_that_passes_while_it_runs_counts_whole() -> None:
    async def live() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Jumping)
        ticks = 0

        async def work() -> None:
            nonlocal ticks
            async with running_limit(600):
                while True:
                    loop.ahead += SLICE
                    ticks += 1
                    await asyncio.sleep(0.001)

        with pytest.raises(TimeoutError):
            await work()
        assert 100 <= ticks <= 125

    run(live())
