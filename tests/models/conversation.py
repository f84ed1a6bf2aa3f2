"""Words for tests of models: messages, requests, and what a model says to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from agent.events import Progress, Restarted, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Image, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent.models.protocol import Request, Segment, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.messages import Message
    from agent.models.catalog.model_selection import Discover
    from agent.models.protocol import Model
    from agent.settings import ModelsSettings

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
READ = ToolSpec(
    name="read", description="Read a file.", parameters={"type": "object", "properties": {"path": {"type": "string"}}}
)
WRITE = ToolSpec(
    name="write", description="Write a file.", parameters={"type": "object", "properties": {"path": {"type": "string"}}}
)


async def choose(
    name: str | None, settings: ModelsSettings, env: Mapping[str, str], *, discover: Discover | None = None
) -> Model:
    """The model that a name, or none, leads to, without what the gateway puts around it."""
    from agent.models.adapter_factory import build_adapter
    from agent.models.catalog.model_selection import resolve_model
    from agent.models.notebook.notebook_model import NotebookModel

    place = await resolve_model(name, settings, env, discover=discover)
    return NotebookModel() if place is None else build_adapter(place)


def user(text: str, *images: Image, at: datetime = NOON) -> UserMessage:
    return UserMessage(content=(Text(text=text), *images), at=at)


def assistant(*parts: str | Text | Thinking | ToolCall, model: str = "anthropic/claude-sonnet-5-5") -> AssistantMessage:
    content = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    calls = any(isinstance(part, ToolCall) for part in content)
    return AssistantMessage(content=content, model=model, stop="tools" if calls else "end")


def call(name: str = "read", call_id: str = "t1", **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def result(text: str, call_id: str = "t1", *, is_error: bool = False, images: tuple[Image, ...] = ()) -> ToolMessage:
    return ToolMessage(call_id=call_id, name="read", text=text, is_error=is_error, images=images)


def ask(*messages: Message, system: tuple[Segment, ...] = (), tools: tuple[ToolSpec, ...] = (), **more: Any) -> Request:
    return Request(system=system, tools=tools, messages=messages, **{"max_output": 1000, **more})


async def hear(model: Model, request: Request) -> tuple[list[TextDelta | ThinkingDelta | Restarted], AssistantMessage]:
    """Return the deltas and the answer, and hold the model to its contract: one answer, which comes last."""
    parts = [part async for part in model.stream(request) if not isinstance(part, Progress)]
    answer = parts.pop()
    assert isinstance(answer, AssistantMessage)
    deltas = [part for part in parts if not isinstance(part, AssistantMessage)]
    assert len(deltas) == len(parts)
    return deltas, answer


def shown(deltas: list[TextDelta | ThinkingDelta | Restarted]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


texts = st.text(st.characters(exclude_categories=()), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
images = st.builds(Image, media_type=st.sampled_from(["image/png", "image/jpeg", "image/tiff"]), data=st.just("aGk="))
thinkings = st.builds(
    Thinking,
    text=texts,
    opaque=st.none()
    | st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": "sig"}, texts)
    | st.builds(lambda words: {"message": {"reasoning_content": words}}, texts),
)
calls = st.builds(
    lambda call_id, name, arguments, raw: ToolCall(
        id=call_id, name=name, arguments=arguments, raw="" if arguments is not None else raw
    ),
    st.sampled_from(["a", "b", "call_0", "toolu_1", "weird id!", "é", "", "x" * 80]) | texts,
    st.sampled_from(["read", "write"]),
    st.none() | st.dictionaries(texts, values, max_size=3),
    texts,
)


@st.composite
def _exchange(draw: st.DrawFn) -> list[Message]:
    """A few user messages, an answer, and the results of its calls."""
    said = draw(
        st.lists(
            st.builds(
                lambda parts: UserMessage(content=tuple(parts), at=NOON),
                st.lists(st.builds(Text, text=texts) | images, min_size=1, max_size=3),
            ),
            min_size=1,
            max_size=2,
        )
    )
    made = draw(st.lists(calls, max_size=3, unique_by=lambda made: made.id))
    words = draw(st.lists(st.builds(Text, text=texts) | thinkings, max_size=3))
    name = draw(st.sampled_from(["anthropic/claude-sonnet-5-5", "openai/gpt-6.1-terra", "ollama/qwen3"]))
    answer = AssistantMessage(content=(*words, *made), model=name, stop="tools" if made else "end")
    if not answer.text.strip() and not made:
        return [*said]
    results = [
        ToolMessage(
            call_id=one.id,
            name=one.name,
            text=draw(texts),
            is_error=draw(st.booleans()),
            images=tuple(draw(st.lists(images, max_size=1))),
        )
        for one in made
    ]
    return [*said, answer, *results]


@st.composite
def views(draw: st.DrawFn) -> tuple[Message, ...]:
    """A valid wire view: it begins with a user message and ends with something to answer."""
    exchanges = draw(st.lists(_exchange(), max_size=4))
    return tuple(message for exchange in [*exchanges, [user(draw(texts))]] for message in exchange)


segments = st.lists(st.builds(Segment, name=st.just("s"), text=texts, cache_mark=st.booleans()), max_size=6).map(tuple)
requests = st.builds(
    Request,
    system=segments,
    tools=st.sampled_from([(), (READ,), (READ, WRITE)]),
    messages=views(),
    max_output=st.integers(1, 100_000),
    cache_ttl=st.sampled_from(["5m", "1h"]),
)
