"""Nothing is looked up for a prompt: notes are searched, and questions embedded, when the model or the owner asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.messages import ToolCall, ToolMessage
from memory.workspace_memory import WorkspaceMemory
from tests.peers.embeddings import KEY, EmbeddingPeer, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agent.models.protocol import Request
    from tests.gateway.conftest import Street

QUESTION = "where does grandmother keep the spare key to her boat?"
FACT = "The spare key of the boat hangs behind the barometer"


@pytest.fixture
async def embeddings() -> AsyncIterator[EmbeddingPeer]:
    async with serving() as made:
        yield made


def embedded(peer: EmbeddingPeer) -> list[str]:
    """Every text that was sent to be embedded."""
    inputs = [seen.body["input"] for seen in peer.seen]
    return [text for given in inputs for text in ([given] if isinstance(given, str) else given)]


def shown(request: Request) -> str:
    """Everything that the model was shown."""
    return f"{request.system}\n{request.messages}"


async def test_a_turn_embeds_and_finds_nothing_until_the_model_searches(
    street: Callable[..., Street], embeddings: EmbeddingPeer
) -> None:
    remote = {"baseUrl": embeddings.openai, "apiKey": KEY}
    s = street(agent={"memorySearch": {"provider": "openai", "remote": remote}})
    old = s.workspace / "memory" / "2025-06-01.md"  # too old to be among the notes that a session starts with
    old.parent.mkdir(parents=True)
    old.write_text(f"{FACT}\n")
    async with s.house() as (house, talk):
        memory = house.agents["main"].memory
        assert isinstance(memory, WorkspaceMemory)
        await memory.sync()
        s.model.then("I would have to look.")
        await talk.ask(QUESTION)
        assert any(FACT in text for text in embedded(embeddings))  # the note has its vector ...
        assert not any("grandmother" in text for text in embedded(embeddings))  # ... and nobody asked with the message
        assert all("barometer" not in shown(request) for request in s.model.requests)

        s.model.then(ToolCall(id="c1", name="memory_search", arguments={"query": "spare key boat"}), "Behind the barometer.")
        await talk.ask("look, please")
        assert [text for text in embedded(embeddings) if "spare key boat" in text] == ["spare key boat"]
        result = s.model.requests[-1].messages[-1]
        assert isinstance(result, ToolMessage)
        assert "barometer" in result.text
