"""The first call of a model does its heavy work off the event loop, and without a network."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from agent.models.adapters import warm_up
from tests.sampling import parametrize_some

TWICE = """
import asyncio, sys
from agent.models.adapters import {module}
from agent.models.catalog.known_models import ModelFacts
from tests.models.conversation import ask, hear, user

async def main():
    facts = ModelFacts(window=1000, max_output=100, assumed=False)
    model = {module}.{name}("m", key="k", facts=facts, base_url="http://127.0.0.1:9/v1")
    _, answer = await hear(model, ask(user("hi")))
    assert answer.failure.kind == "network", answer
    built = set(sys.modules)
    _, answer = await hear(model, ask(user("hi")))
    await model.close()
    print(sorted(set(sys.modules) - built))

asyncio.run(main())
"""


@parametrize_some(
    1,
    ("module", "name"),
    [("anthropic", "AnthropicModel"), ("openai_chat", "OpenAIChatModel"), ("openai_responses", "OpenAIResponsesModel")],
)
def test_after_opening_nothing_is_imported_any_more(module: str, name: str) -> None:
    code = TWICE.format(module=module, name=name)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stdout.strip() == "[]", told.stderr


WATCHED = """
import asyncio, threading, time
from agent.models.adapters import {module}
from agent.models.catalog.known_models import ModelFacts
from tests.models.conversation import ask, hear, user
from tests.peers.{peer} import {Peer}

async def main(url):
    longest, going = 0.0, True

    async def watch():
        nonlocal longest
        before = time.thread_time()
        while going:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    facts = ModelFacts(window=100_000, max_output=4_000, assumed=False)
    model = {module}.{name}("m", key="k", facts=facts, base_url=url)
    for _ in range(3):
        _, answer = await hear(model, ask(user("hi " * 20_000)))
        assert answer.text == "Very well.", answer
    await model.close()
    going = False
    await watcher
    print(round(longest * 1000))

loop, made = asyncio.new_event_loop(), {Peer}()
threading.Thread(target=loop.run_forever, daemon=True).start()
runner = asyncio.run_coroutine_threadsafe(made.start(), loop).result(20)
asyncio.run(main(made.url))
asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
"""


@parametrize_some(
    1,
    ("module", "name", "peer", "kind"),
    [
        ("anthropic", "AnthropicModel", "anthropic", "AnthropicPeer"),
        ("openai_responses", "OpenAIResponsesModel", "compatible", "CompatiblePeer"),
    ],
)
def test_no_step_of_a_first_call_keeps_the_event_loop_for_long(module: str, name: str, peer: str, kind: str) -> None:
    code = WATCHED.format(module=module, name=name, peer=peer, Peer=kind)
    tries = (_longest_step(code) for _ in range(3))  # a busy machine makes the same work cost more
    assert any(0 < one <= 50 for one in tries), "milliseconds of CPU that the loop's own thread spent without a pause"


def _longest_step(code: str) -> int:
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stdout.strip().isdecimal(), told.stderr
    return int(told.stdout)


@pytest.mark.parametrize("play", [warm_up.anthropic_messages, warm_up.chat_completions, warm_up.responses])
def test_a_rehearsal_can_be_played_again_and_reaches_nobody(play: object) -> None:
    assert callable(play)
    play()
    play()


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    with warm_up.loading():
        assert not gc.isenabled()
    assert gc.isenabled()
