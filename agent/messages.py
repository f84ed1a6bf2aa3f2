"""Messages: the common form that every model API is translated to and from, and that transcripts store."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

Stop = Literal["end", "tools", "length", "refusal", "overflow", "error", "cancelled", "cut", "repeated"]
Taint: TypeAlias = tuple[str, ...]
"""Where untrusted text in a message comes from, such as "web:example.org" or "file:report.pdf". Nothing is stored where there is none."""
FailureKind = Literal[
    "auth", "billing", "rate_limit", "overloaded", "timeout", "network", "overflow", "bad_request", "unknown_model", "refusal"
]


class Text(Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Plain text."""

    text: str
    type: ClassVar[Literal["text"]] = "text"


class Thinking(Struct, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """A model's reasoning. ``opaque`` is the provider's own block, sent back unchanged to the model family that made it."""

    text: str
    opaque: dict[str, Any] | None = None
    type: ClassVar[Literal["thinking"]] = "thinking"


class Image(Struct, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """A picture, base64-encoded. Its sides are in pixels; 0 where they are not known."""

    media_type: str
    data: str
    width: int = 0
    height: int = 0
    type: ClassVar[Literal["image"]] = "image"


class ToolCall(Struct, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    """A tool call that a model asks for. ``arguments`` is None when what the model wrote is not a JSON object: ``raw`` then has it."""

    id: str
    name: str
    arguments: dict[str, Any] | None
    raw: str = ""
    type: ClassVar[Literal["tool_call"]] = "tool_call"


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one model call. The three input figures are disjoint: what was sent is their sum. ``cost`` is in USD."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None

    @property
    def prompt(self) -> int:
        """All tokens that the model was shown in this call."""
        return self.input + self.cache_read + self.cache_write


def added(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add up what calls used; a call that told nothing adds nothing. A cost that is not known makes the sum unknown."""
    if one is None or other is None:
        return one or other
    return replace(
        one,
        input=one.input + other.input,
        output=one.output + other.output,
        cache_read=one.cache_read + other.cache_read,
        cache_write=one.cache_write + other.cache_write,
        cost=None if one.cost is None or other.cost is None else one.cost + other.cost,
    )


class Failure(Struct, frozen=True, kw_only=True, rename={"hint": "mend"}):
    """Why a model gave no answer, as data. ``hint`` tells the owner what to do; ``retry_after`` is in seconds.

    On disk ``hint`` is called ``mend``, so that older transcripts can be read.
    Of an overflow ``window`` and ``prompt`` are what the provider said of its window and of the prompt, in tokens. ``unclear`` says that
    it refused the request for a reason that is not known here.
    """

    kind: FailureKind
    message: str
    hint: str = ""
    retry_after: float | None = None
    window: int | None = None
    prompt: int | None = None
    unclear: bool = False


class UserMessage(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="role", tag="user"):
    """A message of a person, or of the runtime in a person's place. ``at`` has a zone: the owner's.

    ``taint`` names the sources of the untrusted text in it. ``runtime``: the runtime says it, and no person did. ``automation`` says
    what started the turn where no person did: "schedule", "webhook" or "agent"; ``sender`` then says which one.
    """

    content: tuple[Text | Image, ...]
    at: datetime
    sender: str = ""
    taint: Taint = ()
    runtime: bool = False
    automation: str = ""
    role: ClassVar[Literal["user"]] = "user"

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


class AssistantMessage(Struct, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """One complete answer of a model, or the record that it failed (``failure`` set, ``stop`` "error", "overflow" or "cancelled").

    With ``stop`` "repeated" it repeated itself and was ended; its text ends after the first round.
    With ``stop`` "cut" it broke off after a part was sent to a person: that part is shown to the model, which is asked to continue.
    """

    content: tuple[Text | Thinking | ToolCall, ...]
    model: str
    stop: Stop
    usage: Usage | None = None
    failure: Failure | None = None
    role: ClassVar[Literal["assistant"]] = "assistant"

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools it wants run, in order."""
        return tuple(part for part in self.content if isinstance(part, ToolCall))


class ToolMessage(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="role", tag="tool"):
    """The result of a tool call. ``taint`` names the sources of the untrusted text in it."""

    call_id: str
    name: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    taint: Taint = ()
    role: ClassVar[Literal["tool"]] = "tool"


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def is_of_a_person(message: UserMessage | AssistantMessage | ToolMessage) -> TypeGuard[UserMessage]:
    """Return whether a person said it, not the runtime or an automation in a person's place."""
    return isinstance(message, UserMessage) and not message.runtime and not message.automation


def begins_turn(message: UserMessage | AssistantMessage | ToolMessage) -> TypeGuard[UserMessage]:
    """Return whether a turn answers it: a person or an automation said it."""
    return isinstance(message, UserMessage) and not message.runtime


def tells_context(message: UserMessage | AssistantMessage | ToolMessage) -> bool:
    """Whether a message is an answer of which the provider reported how long the prompt before it was."""
    return isinstance(message, AssistantMessage) and message.usage is not None and message.usage.prompt > 0


def begins_with(messages: tuple[Message, ...], former: tuple[Message, ...]) -> bool:
    """Whether the first of ``messages`` are those of ``former``. Of the same objects tens of thousands are compared in microseconds."""
    try:
        return former <= messages  # messages have no order: they are equal up to the end of one of the two, or it fails
    except TypeError:
        return False


def with_distinct_call_ids(answer: AssistantMessage) -> AssistantMessage:
    """Give calls that share an id, or have none, ids of their own: results are paired by id."""
    seen: set[str] = set()
    parts = []
    for part in answer.content:
        fixed = part
        if isinstance(part, ToolCall):
            call_id = part.id or "call"
            while call_id in seen:
                call_id = f"{call_id}_{len(seen)}"
            seen.add(call_id)
            fixed = part if call_id == part.id else replace(part, id=call_id)
        parts.append(fixed)
    return answer if tuple(parts) == answer.content else replace(answer, content=tuple(parts))
