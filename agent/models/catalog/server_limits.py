"""Asks compatible servers for the context window of a model, in each server's own extension of the API.

Ollama's figure needs care: its compatible endpoint cuts a longer prompt silently, and the size in force is known only once
the model is loaded (`/api/ps`). Until then what the model's settings or its makers say is taken, within a cautious bound.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from agent.models.catalog.known_models import PROVIDERS, ModelFacts
from agent.models.catalog.prices import MILLION, Price

Fetch: TypeAlias = Callable[..., Awaitable[Any]]
"""``fetch(url, post=None)``: JSON data, or None."""

_OLLAMA_UNLOADED = 32_768
"""The most that is assumed of an Ollama model that is not loaded yet."""


async def ask_limits(fetch: Fetch, provider: str, base_url: str, model: str, facts: ModelFacts) -> ModelFacts:
    """Return the facts with what the server tells; unchanged, and still assumed, where it tells nothing."""
    root = re.sub(r"/v\d\w*/?$", "", base_url.rstrip("/"))
    if provider == "ollama":
        return of_ollama(facts, await fetch(f"{root}/api/ps"), await fetch(f"{root}/api/show", {"model": model}), model)
    if provider == "lmstudio":
        return of_list(facts, await fetch(f"{root}/api/v0/models"), model)
    listed = of_list(facts, await fetch(f"{base_url.rstrip('/')}/models"), model)
    public = provider in PROVIDERS and not PROVIDERS[provider].local
    if listed.window != facts.window or public or provider == "vllm":
        return listed
    return of_props(listed, await fetch(f"{root}/props"))


def of_props(facts: ModelFacts, answer: Any) -> ModelFacts:
    """Read llama.cpp's `/props`: the window that the server was started with, which may be far smaller than the model's own."""
    settings = answer.get("default_generation_settings") if isinstance(answer, dict) else None
    size = _integer(settings.get("n_ctx")) if isinstance(settings, dict) else None
    if size is None:
        return facts
    can = answer.get("modalities")
    images = bool(can.get("vision")) if isinstance(can, dict) else facts.images
    return replace(facts, window=size, max_output=min(facts.max_output, size), images=images, assumed=False)


def of_ollama(facts: ModelFacts, loaded: Any, shown: Any, model: str) -> ModelFacts:
    """Read Ollama's `/api/ps` and `/api/show`."""
    running = [item for item in _items(loaded, "models") if model in {item.get("name"), item.get("model"), _untagged(item)}]
    images = "vision" in (shown.get("capabilities") or ()) if isinstance(shown, dict) else facts.images
    if running and (size := _integer(running[0].get("context_length"))):
        return replace(facts, window=size, images=images, assumed=False)
    if not isinstance(shown, dict):
        return facts
    wanted = re.search(r"^\s*num_ctx\s+(\d+)", str(shown.get("parameters") or ""), re.MULTILINE)
    info = shown.get("model_info") or {}
    trained = next((size for key, value in info.items() if key.endswith(".context_length") and (size := _integer(value))), None)
    window = int(wanted[1]) if wanted else min(trained or facts.window, _OLLAMA_UNLOADED)
    return replace(facts, window=window, images=images)


def of_list(facts: ModelFacts, answer: Any, model: str) -> ModelFacts:
    """Read the list of models: vLLM's, OpenRouter's and LM Studio's have fields of their own for the window."""
    found = next((item for item in _items(answer, "data") if item.get("id") == model), None)
    if found is None:
        return facts
    names = ("max_model_len", "loaded_context_length", "max_context_length", "context_length", "context_window")
    window = next((size for name in names if (size := _integer(found.get(name)))), None)
    if window is None:
        return replace(facts, assumed=False)
    top = found.get("top_provider")
    longest = _integer(top.get("max_completion_tokens")) if isinstance(top, dict) else None
    return replace(
        facts,
        window=window,
        max_output=min(longest or facts.max_output, window),
        price=_price(found.get("pricing")) or facts.price,
        images=_takes_pictures(found, facts.images),
        assumed=False,
    )


def _takes_pictures(found: dict[str, Any], assumed: bool) -> bool:
    architecture = found.get("architecture")
    kinds = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    if isinstance(kinds, list):
        return "image" in kinds
    return found.get("type") == "vlm" or assumed


def _price(pricing: Any) -> Price | None:
    """OpenRouter's prices are dollars for one token, as text; a router's own entry has -1."""
    if not isinstance(pricing, dict):
        return None
    try:
        figures = {
            name: float(pricing.get(name) or 0) * MILLION
            for name in ("prompt", "completion", "input_cache_read", "input_cache_write")
        }
    except (TypeError, ValueError):
        return None
    if min(figures.values()) < 0:
        return None
    return Price(
        input=figures["prompt"],
        output=figures["completion"],
        cache_read=figures["input_cache_read"],
        cache_write=figures["input_cache_write"],
    )


def _items(answer: Any, name: str) -> list[dict[str, Any]]:
    listed = answer.get(name) if isinstance(answer, dict) else None
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _untagged(item: dict[str, Any]) -> str:
    return str(item.get("name", "")).removesuffix(":latest")


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
