"""Words between tools as messages of their own: in order, each once, whatever happens in between."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.events import TextDelta
from agent.messages import AssistantMessage, Text, ToolCall
from agent.models.scripted import Stall
from agent.transcript.entries import Entry, Said
from gateway.outbound.blocks import pieces
from tests.patience import PATIENCE
from tests.peers.phone import Village

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Village]

ON = {"blockStreaming": {"enabled": True, "minChars": 5}}


@pytest.fixture
def village(tmp_path: Path) -> Make:
    return lambda **settings: Village(tmp_path, **settings)


def call(number: int) -> ToolCall:
    return ToolCall(id=f"c{number}", name="list", arguments={})


def step(number: int, text: str) -> list[Any]:
    return [TextDelta(text), call(number)]


async def test_words_between_tools_arrive_while_the_turn_goes_on(village: Make) -> None:
    v, gate = village(messages=ON), asyncio.Event()
    v.model.then(step(1, "Looking around."), [Stall(gate), TextDelta("Done.")])
    async with v.house() as (_, phone):
        await phone.say("go")
        await phone.until(lambda: phone.texts() == ["Looking around."])
        gate.set()
        await phone.until(lambda: len(phone.sent) == 2)
        assert phone.texts() == ["Looking around.", "Done."]


async def test_without_the_setting_they_stay_in_the_preview(village: Make) -> None:
    v = village(messages={"blockStreaming": {"enabled": True, "byChannel": {"phone": False}}})
    v.model.then(step(1, "Looking around."), "Done.")
    async with v.house() as (house, phone):
        await phone.say("go")
        await phone.until(lambda: phone.sent)
        await house.delivery.settled()
        assert phone.texts() == ["Done."]
        assert any("Looking around." in draft for draft in phone.drafts)


async def test_short_words_wait_for_the_next_and_silence_is_not_said(village: Make) -> None:
    v = village(messages=ON)
    v.model.then(step(1, "Hm."), step(2, "NO_REPLY"), step(3, "[[reply_to_current]] So."), step(4, "Ah."), "Done.")
    async with v.house() as (_, phone):
        await phone.say("go")
        await phone.until(lambda: "Done." in phone.texts())
        assert phone.texts() == ["Hm.\n\n So.", "Ah.", "Done."] or phone.texts() == ["Hm.\n\nSo.", "Ah.", "Done."]


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 60), max_size=2))
def test_wherever_the_house_is_stopped_each_piece_arrives_once_and_in_order(pauses: list[int]) -> None:
    asyncio.run(lives(pauses))


async def lives(pauses: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        v = Village(Path(folder), messages=ON)
        words = ["First piece.", "Second piece.", "Third piece."]

        def answer(request: Any) -> Any:
            made = sum(message.role == "tool" for message in request.messages)
            return step(made, words[made]) if made < len(words) else "Done."

        v.model.reply_with(answer)
        seen: dict[str, str] = {}
        for number, pause in enumerate([*pauses, None]):
            async with v.house() as (house, phone):
                if number == 0:
                    await phone.say("go")
                if pause is None:
                    await house.lanes.quiet()
                    async with asyncio.timeout(PATIENCE):
                        while (await house.ledger.tally()).outbox.get("ready", 0):  # noqa: ASYNC110
                            await asyncio.sleep(0.002)
                    await house.delivery.settled()
                else:
                    for _ in range(pause):
                        await asyncio.sleep(0.0005)
                    await house.lanes.drain(0)
            seen |= {one.key: one.text for one in phone.sent}
        said = [text for text in seen.values() if text.strip("().") != "I was restarted and went on"]
        assert said == [*words, "Done."]


def entries(texts: list[str]) -> list[Entry]:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return [
        Entry(
            id=f"t:{n}",
            parent=None,
            at=at,
            body=Said(message=AssistantMessage(content=(Text(text=text), call(n)), model="m", stop="tools")),
        )
        for n, text in enumerate(texts)
    ]


@given(st.lists(st.text("ab \n", max_size=12), max_size=8), st.integers(0, 15))
def test_what_was_worked_out_stays_as_more_is_said(texts: list[str], least: int) -> None:
    whole = pieces(entries(texts), least, finished=True, whole=True)
    for end in range(len(texts) + 1):
        part = pieces(entries(texts[:end]), least, finished=True, whole=False)
        assert whole[: len(part)] == part
    assert "".join("".join(piece.text for piece in whole).split()) == "".join("".join(texts).split())
