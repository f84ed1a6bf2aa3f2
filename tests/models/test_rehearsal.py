"""The first call of a model does its heavy work off the event loop, and without a network."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from agent.models import rehearsal

TWICE = """
import asyncio, sys
from agent.models import {module}
from agent.models.catalog import Facts
from tests.models.conversation import ask, hear, user

async def main():
    facts = Facts(window=1000, max_output=100, assumed=False)
    model = {module}.{name}("m", key="k", facts=facts, base_url="http://127.0.0.1:9/v1")
    _, answer = await hear(model, ask(user("hi")))
    assert answer.failure.kind == "network", answer
    built = set(sys.modules)
    _, answer = await hear(model, ask(user("hi")))
    await model.close()
    print(sorted(set(sys.modules) - built))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [("anthropic", "AnthropicModel"), ("openai_chat", "OpenAIChatModel"), ("openai_responses", "OpenAIResponsesModel")],
)
def test_after_opening_nothing_is_imported_any_more(module: str, name: str) -> None:
    code = TWICE.format(module=module, name=name)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stdout.strip() == "[]", told.stderr


@pytest.mark.parametrize("play", [rehearsal.anthropic_messages, rehearsal.chat_completions, rehearsal.responses])
def test_a_rehearsal_can_be_played_again_and_reaches_nobody(play: object) -> None:
    assert callable(play)
    play()
    play()


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    with rehearsal.loading():
        assert not gc.isenabled()
    assert gc.isenabled()
