"""The middleware around a model: its order, and what it hands on."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.catalog.model_selection import find
from agent.models.middleware.failover import FailoverMiddleware
from agent.models.middleware.key_health import KeyHealth
from agent.models.middleware.key_rotation import KeyRotationMiddleware
from agent.models.middleware.model_middleware import ModelMiddleware
from agent.models.middleware.model_retry import RetryMiddleware
from agent.models.notebook.notebook_model import NotebookModel
from agent.models.scripted import ScriptedModel
from agent.settings import ModelsSettings
from gateway.base.clock import ManualClock
from gateway.budget.budgeted_calls import BudgetMiddleware
from gateway.models.model_stack import StackParts, build_model
from tests.models.conversation import ask, hear, user

if TYPE_CHECKING:
    from agent.models.catalog.model_selection import ResolvedModel


class Guard:
    def price(self, _model: str) -> Any:
        raise AssertionError("no call is made here")


async def nothing(_place: ResolvedModel, _model: object) -> None:
    return None


def parts() -> StackParts:
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    return StackParts(
        clock=clock,
        random=random.Random(1),
        health=KeyHealth(clock),
        keys=lambda place: place.keys,
        keeps_order=lambda _provider: True,
        answered=nothing,
    )


def place(name: str) -> ResolvedModel:
    settings = ModelsSettings.model_validate({"providers": {"nas": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "secret"}}})
    found = find(name, settings, {})
    assert found is not None
    return found


def layers(model: object) -> list[type]:
    found = [type(model)]
    while isinstance(model, ModelMiddleware):
        model = model.inner
        found.append(type(model))
    return found


def test_the_order_is_budget_failover_retry_key_rotation_adapter() -> None:
    one, two = place("nas/one"), place("nas/two")
    model = build_model((one, two), parts(), fails_over=True, budget=(Guard(), "s"))  # type: ignore[arg-type]
    assert layers(model) == [BudgetMiddleware, FailoverMiddleware, RetryMiddleware, KeyRotationMiddleware, OpenAIChatModel]
    assert model.name == "nas/one"


def test_without_fallbacks_and_without_budgets_there_is_neither() -> None:
    assert layers(build_model((place("nas/one"),), parts())) == [RetryMiddleware, KeyRotationMiddleware, OpenAIChatModel]


def test_what_was_built_before_is_used_as_it_is_and_the_notebook_has_no_budget() -> None:
    shared, notebook = ScriptedModel(()), NotebookModel()
    first, second = (build_model((shared,), parts(), budget=(Guard(), key)) for key in ("a", "b"))  # type: ignore[arg-type]
    assert first is not second
    assert isinstance(first, ModelMiddleware)
    assert isinstance(second, ModelMiddleware)
    assert first.inner is second.inner is shared
    assert build_model((notebook,), parts(), budget=(Guard(), "s")) is notebook  # type: ignore[arg-type]


async def test_middleware_that_overrides_nothing_changes_nothing() -> None:
    inner = ScriptedModel(lambda _: "the sky is blue")
    model = ModelMiddleware(inner)
    assert (model.name, model.window, model.max_output) == (inner.name, inner.window, inner.max_output)
    told = await hear(model, ask(user("what colour is it?")))
    assert told == await hear(inner, ask(user("what colour is it?")))
    await model.close()
