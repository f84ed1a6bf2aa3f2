"""What a call costs does not grow with the history, but for our own translation and the JSON encoder's one pass."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.models.adapters.anthropic import AnthropicModel
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.adapters.openai_responses import OpenAIResponsesModel
from agent.models.catalog.known_models import ModelFacts
from tests.models.conversation import READ, ask, assistant, call, hear, result, user
from tests.peers.anthropic import text
from tests.peers.compatible import said, words

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from agent.messages import Message
    from agent.models.protocol import Model, Request
    from tests.peers.anthropic import AnthropicPeer
    from tests.peers.compatible import CompatiblePeer

FACTS = ModelFacts(window=1_000_000, max_output=4_000, assumed=False)
PER_MESSAGE = 80
"""Calls of Python functions that one message of history may cost, those of our own translation included."""
OF_AN_SDK = 5
"""Those of them that may be an SDK's: anthropic's looks for tags on each message; openai's ``create`` ran 300."""


def history(count: int) -> Request:
    said: list[Message] = []
    for n in range(count // 4):
        said += [
            user(f"question {n}"),
            assistant(call(call_id=f"t{n}", path="a.md")),
            result("text", f"t{n}"),
            assistant(f"{n}"),
        ]
    return ask(*said, user("and now?"), tools=(READ,))


async def calls_in(model: Model, request: Request) -> tuple[int, int]:
    """Return how many Python functions a call of the model runs in all, and how many of them are an SDK's."""
    total = sdk = 0

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal total, sdk
        if event == "call":
            path = Path(frame.f_code.co_filename).parts
            if "aiohttp" not in path and "peers" not in path:
                total += 1
                sdk += "openai" in path or "anthropic" in path

    sys.setprofile(count)
    try:
        _, answer = await hear(model, request)
    finally:
        sys.setprofile(None)
    assert answer.text == "Very well."
    return total, sdk


@pytest.mark.parametrize("kind", [OpenAIChatModel, OpenAIResponsesModel, AnthropicModel])
async def test_an_sdk_does_not_walk_over_the_history(
    compatible_peer: CompatiblePeer, anthropic_peer: AnthropicPeer, kind: Callable[..., Any]
) -> None:
    at = anthropic_peer.url if kind is AnthropicModel else compatible_peer.url
    model = kind("m", key="k", facts=FACTS, base_url=at, provider="custom")
    for _ in range(3):
        compatible_peer.answer(said("Very well.") if kind is OpenAIResponsesModel else words("Very well."))
        anthropic_peer.answer(text("Very well."))
    await hear(model, history(4))  # opens the connection, and loads what is loaded once
    few, many = await calls_in(model, history(4)), await calls_in(model, history(400))
    await model.close()
    assert many[1] - few[1] < 396 * OF_AN_SDK, "the SDK hands the body on as it is"
    assert many[0] - few[0] < 396 * PER_MESSAGE
