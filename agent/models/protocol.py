"""The interface of a language model: requests, streamed parts and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from agent.events import FailedOver, Progress, ReplyNote, Restarted, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Message
from agent.settings import Level

Part: TypeAlias = TextDelta | ThinkingDelta | Progress | Restarted | ReplyNote | FailedOver | AssistantMessage
"""One thing that a model's stream yields."""


class ToolSpec:
    """A tool as it is described to a model. ``parameters`` is a JSON Schema object, or makes it when it is asked for first.

    To make those of all tools takes as long as a quarter of opening a gateway, which may have nobody to talk to for hours.
    """

    __slots__ = ("_make", "_parameters", "description", "name")

    def __init__(self, *, name: str, description: str, parameters: dict[str, Any] | Callable[[], dict[str, Any]]) -> None:
        self.name = name
        self.description = description
        self._parameters = parameters if isinstance(parameters, dict) else None
        self._make = None if isinstance(parameters, dict) else parameters

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema object of the arguments."""
        if self._parameters is None:
            assert self._make is not None
            self._parameters = self._make()
        return self._parameters

    def __eq__(self, other: object) -> bool:
        """Whether a model is told the same."""
        if not isinstance(other, ToolSpec):
            return NotImplemented
        mine, theirs = (self.name, self.description), (other.name, other.description)
        return self is other or (mine == theirs and self.parameters == other.parameters)

    def __hash__(self) -> int:
        """Return the same for what is equal."""
        return hash((self.name, self.description))

    def __repr__(self) -> str:
        """Return name and description."""
        return f"ToolSpec({self.name!r}, {self.description!r})"


class Segment(Struct, frozen=True, kw_only=True):
    """A named part of the system text. ``cache_mark`` asks the provider to keep the prompt up to its end."""

    name: str
    text: str
    cache_mark: bool = False


class Request(Struct, frozen=True, kw_only=True):
    """A model request, most stable part first.

    ``messages`` is a valid wire view: it begins with a user message, every tool call has its result right behind it, and
    nothing in it failed. ``cache_key`` is stable for a session; ``cache_ttl`` is how long the provider is asked to keep the prefix.
    ``cached`` says that another request will go on from this one: a single one asks for no keeping, which costs. With ``kept_parts``
    later requests are the same only up to so many parts of the first message: what stands behind them is kept for a turn at most.
    ``max_output`` is how long the answer may be; thinking comes on top. ``thinking`` is how deep to think: None leaves it to what
    is usual for the model; ``thoughts`` asks for them in words that a person can read. ``background`` marks what
    nobody waits for (a flush, a summary), and ``purpose`` what it is for, where its cost is told apart; providers are not told.
    After ``useful_until`` it is not sent any more, however long it waited.
    """

    system: tuple[Segment, ...]
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    max_output: int
    cache_key: str = ""
    cache_ttl: Literal["5m", "1h"] = "5m"
    cached: bool = True
    kept_parts: int | None = None
    background: bool = False
    purpose: str = ""
    useful_until: datetime | None = None
    thinking: Level | None = None
    thoughts: bool = False


class Model(Protocol):
    """One model of one provider. Its ``name`` is ``provider/model``; its figures may become known only with the first call."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def window(self) -> int:
        """Its context window, in tokens."""
        ...

    @property
    def max_output(self) -> int:
        """Its longest answer, in tokens."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Part]:
        """Yield deltas, then exactly one AssistantMessage, which is last. After a Restarted the deltas begin from nothing.

        Contract: failures of the provider or the network are not raised; they arrive as an AssistantMessage with ``failure``
        set. Cancellation is raised as usual. A stream that broke off after its first byte counts as a failure as a whole.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


def is_cached_by_time(model: Model) -> bool:
    """Return whether a model's provider keeps prompts for a while from their last reading on: the rule of Anthropic's API."""
    model = _innermost(model)
    return getattr(model, "cached_by_time", False) or model.name.startswith(("anthropic/", "openrouter/anthropic/"))


def sees_pictures(model: Model) -> bool:
    """Return whether a model is shown pictures, as far as that is known; true for one that does not say."""
    return bool(getattr(_innermost(model), "sees_pictures", True))


def _innermost(model: Model) -> Model:
    while (inner := getattr(model, "inner", None)) is not None:
        model = inner
    return model
