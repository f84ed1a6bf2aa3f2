"""A key that memory search embeds with is used as the settings and the files of keys have it now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.models.key_profiles import Profile, Profiles
from gateway.settings.auth_settings import AuthSettings
from memory.errors import EmbeddingFailed
from tests.peers.embeddings import KEY, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.app.gateway import Gateway
    from memory.embedding.protocol import Embedder
    from tests.peers.embeddings import EmbeddingPeer
    from tests.reload.place import Place


@pytest.fixture
async def peer() -> AsyncIterator[EmbeddingPeer]:
    async with serving() as made:
        yield made


def with_key(place: Place, peer: EmbeddingPeer, key: Any, **more: Any) -> None:
    place.write(
        {
            "agents": {"defaults": {"memorySearch": {"provider": "openai", "sync": {"watch": False}, **more}}},
            "models": {"providers": {"openai": {"baseUrl": peer.openai, "apiKey": key}}},
        }
    )


def embedder(house: Gateway) -> Embedder:
    found: Any = house.agents["main"].memory
    return getattr(found.embedder, "within", None)  # type: ignore[no-any-return]


async def test_a_key_that_was_changed_is_sent_with_the_next_call_and_the_agent_stays_as_it_is(
    place: Place, peer: EmbeddingPeer
) -> None:
    with_key(place, peer, "a-key-that-was-withdrawn")
    async with place.open() as house:
        before = house.agents["main"]
        with pytest.raises(EmbeddingFailed):
            await embedder(house).embed(["tea"], purpose="query")
        with_key(place, peer, [KEY, "a-second-one"])
        assert (await house.reload.now())["taken"] == ["models.providers"]
        await house.agent_supervisor.settled()
        assert house.agents["main"] is before
        assert len(await embedder(house).embed(["tea"], purpose="query")) == 1


async def test_another_address_or_a_first_key_makes_the_memory_anew(place: Place, peer: EmbeddingPeer) -> None:
    async with place.open() as house:
        assert embedder(house) is None
        with_key(place, peer, KEY)
        await house.reload.now()
        await house.agent_supervisor.settled()
        assert len(await embedder(house).embed(["tea"], purpose="query")) == 1
        with_key(place, peer, KEY, remote={"baseUrl": f"{peer.openai}/", "apiKey": "not-" + KEY})
        await house.reload.now()
        await house.agent_supervisor.settled()
        with pytest.raises(EmbeddingFailed):
            await embedder(house).embed(["tea"], purpose="query")


async def test_a_first_key_in_a_profile_is_found_when_the_gateway_is_told(place: Place) -> None:
    async with place.open() as house:
        assert embedder(house) is None
        Profiles(place.paths, AuthSettings()).file().put(Profile("openai:new", "openai", "api_key", "sk-first"))
        assert (await house.reload.now())["taken"] == []
        await house.agent_supervisor.settled()
        assert embedder(house).provider == "openai"
        assert embedder(house).endpoint.key() == "sk-first"  # type: ignore[attr-defined]
        Profiles(place.paths, AuthSettings()).file().put(Profile("openai:new", "openai", "api_key", "sk-second"))
        assert embedder(house).endpoint.key() == "sk-second"  # type: ignore[attr-defined]
