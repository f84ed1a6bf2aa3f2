"""Tests a model with one short request: `homebody models probe`, setup and doctor."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any

from agent.errors import AgentError
from agent.messages import AssistantMessage, Failure, Text, UserMessage
from agent.models.adapter_factory import build_adapter
from agent.models.catalog.discovery import find_local
from agent.models.catalog.model_names import ModelNames
from agent.models.catalog.model_selection import ResolvedModel, resolve_model
from agent.models.catalog.provider_keys import Key
from agent.models.middleware.key_health import ROTATING_KINDS
from agent.models.middleware.key_rotation import without_key
from agent.models.protocol import Model, Request, Segment, ToolSpec
from agent.settings import ModelChoice
from gateway.base.errors import HomebodyError, NoModel
from gateway.models.key_profiles import Profiles
from gateway.settings.root import Settings

_THOUSAND = 1000
_NO_MODEL = "export ANTHROPIC_API_KEY=...   (or: homebody models auth add anthropic; all ways: homebody models status)"


async def probed(settings: Settings, name: str | None, agent_id: str | None, profiles: Profiles) -> dict[str, Any]:
    """Return the result, and the keys that were rejected before.

    Raises:
        NoModel: there is no model, it lacks a key or an address, or all keys were rejected.
        HomebodyError: any other failure; UsageError for an unknown agent.
    """
    agent = agent_id or settings.default_agent
    try:
        place = await placed(settings, name or wanted_model(settings, agent), agent, profiles)
        if place is None:
            raise NoModel("no language model is configured, so the built-in notebook answers", hint=_NO_MODEL)
        return await _probe_keys(place)
    except AgentError as error:
        raise NoModel(str(error).rstrip("."), hint=error.hint) from error


async def placed(settings: Settings, name: str | None, agent_id: str, profiles: Profiles) -> ResolvedModel | None:
    """Return the endpoint of an agent's model; None for the notebook. Raises AgentError."""
    key_source = profiles.key_source(agent_id)
    names = ModelNames(settings.agent(agent_id).settings, settings.models, os.environ, key_source=key_source)
    full = None if name is None else names.full(name)
    return await resolve_model(full, settings.models, os.environ, discover=find_local, key_source=key_source)


def wanted_model(settings: Settings, agent_id: str) -> str | None:
    """Return the model of an agent according to the settings."""
    model = settings.agent(agent_id).settings.model
    return model.primary if isinstance(model, ModelChoice) else model


async def _probe_keys(place: ResolvedModel) -> dict[str, Any]:
    refused: list[dict[str, str]] = []
    for key in place.keys:  # there is one at least
        facts, failure = await ask(place, key)
        if failure is None:
            return facts | {"refused": refused}
        if failure.kind not in ROTATING_KINDS or key is place.keys[-1]:
            raise failed(place, key, failure, others=len(refused))
        refused.append({"from": key.label, "why": failure.message, "mend": _renewed(place, key)})
    raise AssertionError("the last key answers or fails")


async def ask(place: ResolvedModel, key: Key) -> tuple[dict[str, Any], Failure | None]:
    """Send one short request with one key; return what came of it, and the failure where there was one."""
    model = build_adapter(place, key)
    try:
        answer, first, whole = await _timed(model, _question())
    finally:
        await model.close()
    answer = without_key(answer, key)
    return _facts(model, answer) | {"key": _key_label(key), "firstMs": first, "ms": whole}, answer.failure


def failed(place: ResolvedModel, key: Key, failure: Failure, *, others: int = 0) -> HomebodyError:
    """Return the error for a call that failed, with the command that mends it. ``others``: how many keys were rejected before."""
    if failure.kind == "auth":
        also = f", nor {others} others before it" if others else ""
        where = f"{key.label}{also}" if _key_label(key) else place.base_url
        return NoModel(failure.message.rstrip("."), where=where, hint=_renewed(place, key))
    kind = NoModel if failure.kind in {"unknown_model", "billing"} else HomebodyError
    return kind(failure.message.rstrip("."), where=f"{place.name} at {place.base_url}", hint=failure.hint)


def _renewed(place: ResolvedModel, key: Key) -> str:
    """The command that replaces this key."""
    if key.origin == "profile":
        return f"homebody models auth add {place.provider} --id {key.label.removeprefix('profile ')}"
    if key.origin == "settings":
        return f"homebody config set '{key.label}'"
    return f"export {key.label}=..." if key.origin == "environment" else f"homebody models auth add {place.provider}"


def _key_label(key: Key) -> str | None:
    return None if key.origin == "none needed" else key.label


def _facts(model: Model, answer: AssistantMessage) -> dict[str, Any]:
    usage = answer.usage
    return {
        "model": model.name,
        "window": model.window,
        "maxOutput": model.max_output,
        "reply": answer.text.strip() or ", ".join(f"(calls {call.name})" for call in answer.calls),
        "stop": answer.stop,
        "usage": usage
        and {
            "input": usage.input,
            "output": usage.output,
            "cacheRead": usage.cache_read,
            "cacheWrite": usage.cache_write,
            "cost": usage.cost,
        },
    }


async def _timed(model: Model, request: Request) -> tuple[AssistantMessage, int, int]:

    started = time.monotonic()
    first: float | None = None
    async for part in model.stream(request):
        first = first or time.monotonic()
        if isinstance(part, AssistantMessage):
            return part, _ms(started, first), _ms(started, time.monotonic())
    raise AssertionError("a model's stream ends with its answer")


def _ms(since: float, until: float) -> int:
    return round((until - since) * _THOUSAND)


def _question() -> Request:
    """A request that any model can answer, with a tool, because models without tool support reject such a request."""
    tool = ToolSpec(name="look", description="Look at nothing in particular.", parameters={"type": "object", "properties": {}})
    said = UserMessage(content=(Text(text="Are you there? Answer with the one word: here"),), at=datetime.now(UTC))
    system = (Segment(name="instructions", text="Answer at once, without a tool."),)
    return Request(system=system, tools=(tool,), messages=(said,), max_output=512)
