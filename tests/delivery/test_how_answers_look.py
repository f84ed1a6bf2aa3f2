"""What answers begin with, and pauses between their blocks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import TextDelta
from agent.messages import ToolCall
from gateway.outbound.replying import prefix_of
from gateway.settings.block_streaming import BlockSettings, BlockStreaming, HumanDelay, manner_of
from gateway.settings.root import ChannelsSettings
from tests.peers.phone import Village

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = {"blockStreaming": {"enabled": True, "minChars": 5}}


def step(number: int, text: str) -> list[Any]:
    return [TextDelta(text), ToolCall(id=f"c{number}", name="list", arguments={})]


@pytest.mark.parametrize(
    ("chosen", "several", "prefix"),
    [
        (None, False, ""),
        (None, True, "**Home:** "),
        ("auto", False, "[Home] "),
        ("🏠 {agent}:", True, "🏠 Home: "),
        ("", True, ""),
        ("bot\n", False, "bot\n"),
    ],
)
def test_what_an_answer_begins_with(chosen: str | None, several: bool, prefix: str) -> None:
    assert prefix_of(chosen, "Home", several=several) == prefix


async def test_every_answer_and_no_further_block_of_it_has_the_prefix(tmp_path: Path) -> None:
    v = Village(tmp_path, messages={"responsePrefix": "🏠", **BLOCKS})
    v.model.then(step(1, "Looking around."), "Done.")
    v.model.then("Again.")
    async with v.house() as (_, phone):
        await phone.say("go")
        await phone.until(lambda: len(phone.sent) == 2)
        await phone.say("and?")
        await phone.until(lambda: len(phone.sent) == 3)
    assert phone.texts() == ["🏠 Looking around.", "🏠 Done.", "🏠 Again."]


async def test_between_blocks_there_is_a_pause_and_before_the_first_there_is_none(tmp_path: Path) -> None:
    v = Village(tmp_path, messages=BLOCKS, agent={"humanDelay": {"mode": "custom", "minMs": 2000, "maxMs": 3000}})
    v.model.then(step(1, "Looking around."), "Done.")
    async with v.house() as (_, phone):
        began = v.clock.monotonic()
        await phone.say("go")
        await phone.until(lambda: len(phone.sent) == 1)
        assert v.clock.monotonic() == began
        while len(phone.sent) < 2:
            await asyncio.sleep(0.002)
            v.clock.move(0.1)
        assert v.clock.monotonic() - began >= 2.0
    assert phone.texts() == ["Looking around.", "Done."]


@pytest.mark.parametrize(
    ("delay", "bounds"),
    [
        ({}, (0.0, 0.0)),
        ({"mode": "natural", "minMs": 5}, (0.8, 2.5)),
        ({"mode": "custom", "minMs": 3000, "maxMs": 1000}, (3.0, 3.0)),
    ],
)
def test_how_long_a_pause_is(delay: dict[str, Any], bounds: tuple[float, float]) -> None:
    assert HumanDelay.model_validate(delay).bounds() == bounds


def test_nobody_at_the_terminal_or_in_the_page_waits() -> None:
    agent = BlockStreaming.model_validate({"humanDelay": {"mode": "natural"}})
    for channel, pause in (("telegram", (0.8, 2.5)), ("terminal", (0.0, 0.0)), ("web", (0.0, 0.0)), ("api", (0.0, 0.0))):
        assert manner_of(BlockSettings(), ChannelsSettings(), agent, channel, "default").pause == pause
