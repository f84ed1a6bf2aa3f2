"""Builds the middleware stack around a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random

from msgspec import Struct

from agent.models.adapter_factory import build_adapter
from agent.models.catalog.model_selection import ResolvedModel
from agent.models.catalog.provider_keys import Key
from agent.models.middleware.failover import FailoverMiddleware
from agent.models.middleware.key_health import KeyHealth
from agent.models.middleware.key_rotation import KeyRotationMiddleware
from agent.models.middleware.model_retry import RetryMiddleware
from agent.models.protocol import Model
from agent.timing import Clock
from gateway.budget.budget_guard import BudgetGuard
from gateway.budget.budgeted_calls import within_budget


class StackParts(Struct, frozen=True, kw_only=True):
    """What middleware is made with.

    ``keys`` gives the keys of a model as they are now; ``keeps_order`` says whether the owner put a provider's keys in an order;
    ``answered`` is called with the adapter that gave an answer, which by then may know more of its limits.
    """

    clock: Clock
    random: Random
    health: KeyHealth
    keys: Callable[[ResolvedModel], Sequence[Key]]
    keeps_order: Callable[[str], bool]
    answered: Callable[[ResolvedModel, Model], Awaitable[None]]


def build_model(
    choices: Sequence[ResolvedModel | Model],
    parts: StackParts,
    *,
    fails_over: bool = False,
    budget: tuple[BudgetGuard, str] | None = None,
) -> Model:
    """Return the first of ``choices`` inside its middleware; with ``fails_over`` the others are its fallbacks.

    From the outside in: budget (one for each session), failover (one for each list of choices), retry and key rotation (one for
    each model), adapter (one for each key). Another key needs no wait, so keys are inside retry; other models come last, so
    failover is outside it. Choices that were built before are used as they are, so that sessions share connections. ``budget``
    is a budget guard with the key of the session; the notebook, which costs nothing, has none.
    """

    def adapter(place: ResolvedModel) -> Callable[[Key], Model]:
        return partial(build_adapter, place)

    def key_rotation(place: ResolvedModel) -> Model:
        return KeyRotationMiddleware(
            partial(parts.keys, place),
            adapter(place),
            parts.health,
            fixed=partial(parts.keeps_order, place.provider),
            answered=partial(parts.answered, place),
        )

    def retry(choice: ResolvedModel | Model) -> Model:
        return (
            RetryMiddleware(key_rotation(choice), clock=parts.clock, random=parts.random)
            if isinstance(choice, ResolvedModel)
            else choice
        )

    def failover() -> Model:
        return FailoverMiddleware(list(map(retry, choices)), clock=parts.clock) if fails_over else retry(choices[0])

    model = failover()
    return within_budget(model, budget)
