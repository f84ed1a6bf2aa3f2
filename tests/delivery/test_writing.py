"""What cuts an answer while it is written: it stops when told to, and does not insist on a disk that is full."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from channels.common.stream_splitter import Limits
from gateway.base.clock import ManualClock
from gateway.outbound.blocks import BlockWriter, unsent
from gateway.settings.block_streaming import Manner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.transcript.entries import SentPart

PARAGRAPH = "A paragraph of some length, which is enough.\n\n"
MANNER = Manner("written", limits=Limits(20, 100), resting=20)


class Keeper:
    """Keeps blocks, unless ``full``; slowly, while ``gate`` is closed."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.asked = 0
        self.full = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, ahead: SentPart) -> bool:
        self.asked += 1
        await self.gate.wait()
        if not self.full:
            self.kept.append(ahead.text)
        return not self.full


@contextlib.asynccontextmanager
async def writing(keeper: Keeper) -> AsyncIterator[BlockWriter]:
    made = BlockWriter(MANNER, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), keeper)
    running = asyncio.ensure_future(made.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def soon() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_stopping_waits_for_what_is_being_kept_and_forgets_the_rest() -> None:
    keeper = Keeper()
    async with writing(keeper) as made:
        keeper.gate.clear()
        made.hear(PARAGRAPH + "Half of")
        await soon()
        stopping = asyncio.ensure_future(made.stop())
        await soon()
        assert not stopping.done()
        keeper.gate.set()
        await stopping
        made.hear(" a word that begins another one.\n\nAnd")
        await soon()
        assert keeper.kept == [PARAGRAPH, " a word that begins another one.\n\n"]


async def test_a_disk_that_refuses_a_block_is_asked_again_with_the_next_answer_only() -> None:
    keeper = Keeper()
    keeper.full = True
    async with writing(keeper) as made:
        for _ in range(3):
            made.hear(PARAGRAPH)
            await soon()
        assert keeper.asked == 1
        keeper.full = False
        await made.stop()
        made.hear(PARAGRAPH + "More")
        await soon()
        assert keeper.kept == [PARAGRAPH]


async def test_what_is_being_kept_is_kept_although_the_house_closes() -> None:
    keeper = Keeper()
    async with writing(keeper) as made:
        keeper.gate.clear()
        made.hear(PARAGRAPH * 4 + "And")
        await soon()
        asyncio.get_running_loop().call_soon(keeper.gate.set)
    assert (keeper.kept, keeper.asked) == ([PARAGRAPH * 2], 1)


@given(st.text("ab \n"), st.text("ab \n"), st.integers(0, 30))
def test_nothing_of_a_text_is_lost_behind_what_was_sent_of_it(whole: str, other: str, end: int) -> None:
    sent = whole[:end]
    assert unsent(whole, sent) == whole[end:]
    assert "".join(unsent(" ".join(whole), sent).split()) == "".join(whole[end:].split()), "blanks may differ"
    assert other.endswith(unsent(other, sent)), "of another text at least the end is said"
