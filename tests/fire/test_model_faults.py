"""A provider that fails: the message is answered once, or its failure told once, and the conversation goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from datetime import UTC
from typing import TYPE_CHECKING, Any

from agent.messages import AssistantMessage, Text
from agent.models.scripted import ScriptedModel
from agent.transcript import history_view
from agent.transcript.entries import decode
from tests.fire.faulty import FAULTS, FaultyModel
from tests.fire.scenarios import Verdict, judge_view
from tests.gateway.conftest import Street, Talk
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.app.gateway import Gateway

LASTING = {"400", "401", "402", "413", "429, come back in an hour", "too long for the window", "a page for people"}
"""What the same request would only meet again."""


@contextlib.asynccontextmanager
async def house_with(model: FaultyModel, root: Path) -> AsyncIterator[tuple[Gateway, Talk, Street]]:
    """A house whose model is real but for the provider, and whose time runs on a second with each look of the event loop."""
    await asyncio.to_thread(importlib.import_module, "openai.resources.chat")  # would take minutes of that time
    provider: dict[str, Any] = {
        "baseUrl": model.url,
        "apiKey": "none",
        "api": "openai-completions",
        "models": [{"id": "m", "contextWindow": 50_000, "maxTokens": 1000}],
    }
    agent = {"model": "fire/m", "memorySearch": {"enabled": False}, "skipBootstrap": True}
    street = Street(root, {"agent": agent, "models": {"mode": "replace", "providers": {"fire": provider}}})

    async def turn() -> None:
        while True:
            await asyncio.sleep(0.002)
            street.clock.move(1)

    async with street.house() as (house, talk):
        turning = asyncio.ensure_future(turn())
        try:
            yield house, talk, street
        finally:
            turning.cancel()


def judge_transcripts(root: Path, *said: str) -> None:
    """Every line can be read, what a model is shown is well formed, and each message is in it once."""
    verdict = Verdict()
    entries = [
        decode(line) for path in root.glob("home/agents/main/sessions/*.jsonl") for line in path.read_bytes().splitlines()
    ]
    assert len({entry.id for entry in entries}) == len(entries)
    view = history_view.view(entries, UTC)
    judge_view(view, verdict)
    assert verdict.told == []
    texts = [message.text for message in view if message.role == "user"]
    assert [sum(one in text for text in texts) for one in said] == [1] * len(said)


@parametrize_some(9, "name", FAULTS)
async def test_a_fault_that_passes_is_not_seen_and_one_that_lasts_is_told_once(tmp_path: Path, name: str) -> None:
    async with FaultyModel() as model, house_with(model, tmp_path) as (_, talk, _street):
        model.fault, model.left = FAULTS[name], 0 if name in LASTING else 1
        assert (await talk.ask("tell me apple"))["reply"] == "heard apple"
        assert model.left == 0
        model.left = None
        asked = model.calls
        failed = await talk.ask("tell me plum")
        assert failed["exit"] != 0
        assert failed["reply"].startswith("⚠️")
        assert failed["reply"].count("⚠️") == 1
        assert "Traceback" not in failed["reply"]
        assert model.calls - asked <= 7, "no storm"
        model.fault = None
        assert "heard pear" in (await talk.ask("tell me pear"))["reply"]
        assert len(talk.replies()) == 3
    judge_transcripts(tmp_path, "tell me apple", "tell me plum", "tell me pear")


async def test_a_provider_that_is_down_for_an_hour_costs_one_notice_a_message(tmp_path: Path) -> None:
    async with FaultyModel() as model, house_with(model, tmp_path) as (_, talk, street):
        model.fault = FAULTS["hangs up"]
        for word in ("apple", "plum"):
            assert (await talk.ask(f"tell me {word}"))["reply"].startswith("⚠️")
            street.clock.move(1800)
        asked = model.calls
        model.fault = None
        assert "heard pear" in (await talk.ask("tell me pear"))["reply"]
        assert len(talk.replies()) == 3
        assert model.calls == asked + 1, "nobody asks while nothing is said"
    judge_transcripts(tmp_path, "tell me apple", "tell me plum", "tell me pear")


async def test_a_defect_is_told_once_and_the_next_message_is_answered(tmp_path: Path) -> None:
    answers = iter([ZeroDivisionError("a defect"), AssistantMessage(content=(Text(text="well"),), model="m", stop="end")])

    def answer(_: object) -> AssistantMessage:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    street = Street(tmp_path, {})
    street.model = ScriptedModel(answer)
    async with street.house() as (house, talk):
        failed = await talk.ask("tell me apple")
        assert "Something went wrong on my side" in failed["reply"]
        assert (await talk.ask("tell me pear"))["reply"] == "well"
        assert (await house.ledger.tally()).running == 0
    judge_transcripts(tmp_path, "tell me apple", "tell me pear")
