"""Finding a model server on this machine, and leaving alone whatever else listens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from agent.models.catalog.discovery import fetch_json, find_local, local_servers, ollama_url

if TYPE_CHECKING:
    from tests.peers.compatible import CompatiblePeer

TOOLS = {
    "capabilities": ["completion", "tools"],
    "model_info": {"qwen3.context_length": 40_960},
    "parameters": "num_ctx   16384\nstop x",
}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("127.0.0.1:4000", "http://127.0.0.1:4000/v1"),
        ("nas.local", "http://nas.local:11434/v1"),
        ("http://nas:8080/", "http://nas:8080/v1"),
        ("https://models.example", "https://models.example:443/v1"),
        ("[::1]:11434", "http://[::1]:11434/v1"),
        ("nas:no-port", "http://127.0.0.1:11434/v1"),
        ("http://nas:8080/ollama", "http://nas:8080/ollama/v1"),
    ],
)
def test_every_form_of_ollama_host(host: str, url: str) -> None:
    assert ollama_url({"OLLAMA_HOST": host}) == url


async def test_the_newest_model_with_tools_is_taken_with_its_window(compatible_peer: CompatiblePeer) -> None:
    models = [{"name": "nomic-embed-text:latest"}, {"name": "qwen3:8b"}, {"name": "older:7b"}]
    compatible_peer.pages = {"/api/tags": {"models": models}, "/api/show": TOOLS}
    found = await find_local({}, budget=5, servers={"ollama": compatible_peer.url})
    assert found is not None
    assert (found.provider, found.model, found.base_url) == ("ollama", "qwen3:8b", compatible_peer.url)
    assert found.facts.window == 16_384


async def test_models_that_cannot_use_tools_are_no_models_for_an_agent(compatible_peer: CompatiblePeer) -> None:
    compatible_peer.pages = {"/api/tags": {"models": [{"name": "gemma:2b"}]}, "/api/show": {"capabilities": ["completion"]}}
    assert await find_local({}, budget=5, servers={"ollama": compatible_peer.url}) is None


@pytest.mark.parametrize("page", [{}, [], {"models": []}, {"models": "many"}, {"models": [None, {}, 5]}])
async def test_whatever_else_answers_there_is_no_model_server(compatible_peer: CompatiblePeer, page: object) -> None:
    compatible_peer.pages = {"/api/tags": page}
    assert await find_local({}, budget=5, servers={"ollama": compatible_peer.url}) is None


@pytest.mark.parametrize("provider", ["lmstudio", "vllm"])
async def test_servers_that_speak_only_openais_words_are_found_too(compatible_peer: CompatiblePeer, provider: str) -> None:
    compatible_peer.pages = {"/v1/models": {"data": [{"id": "text-embedding-x"}, {"id": "qwen3", "max_model_len": 12_000}]}}
    found = await find_local({}, budget=5, servers={provider: compatible_peer.url})
    assert found is not None
    assert (found.provider, found.model, found.facts.window) == (provider, "qwen3", 12_000)


def test_the_usual_places_are_looked_at() -> None:
    assert local_servers({}) == {
        "ollama": "http://127.0.0.1:11434/v1",
        "lmstudio": "http://127.0.0.1:1234/v1",
        "llamacpp": "http://127.0.0.1:8080/v1",
        "vllm": "http://127.0.0.1:8000/v1",
    }


async def test_nothing_there_takes_no_time_to_speak_of(unused_tcp_port: int) -> None:
    started = time.monotonic()
    assert await find_local({}, servers={"ollama": f"http://127.0.0.1:{unused_tcp_port}/v1"}) is None
    assert time.monotonic() - started < 30, "the budget is 0.3 s, and a server that does not answer is given minutes elsewhere"


def test_what_is_no_json_is_nothing(unused_tcp_port: int) -> None:
    assert fetch_json(f"http://127.0.0.1:{unused_tcp_port}/x", None, 0.2) is None
    assert fetch_json("http://127.0.0.1:99999/x", None, 0.2) is None
