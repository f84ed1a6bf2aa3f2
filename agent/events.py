"""Events of a running turn, for those who show it: text, tool calls, notices."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from agent.messages import AssistantMessage, ToolCall, ToolMessage, Usage


class TextDelta(Struct, frozen=True):
    """More of the reply that a person may see. Never contains a part of NO_REPLY."""

    text: str


class ThinkingDelta(Struct, frozen=True):
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """The streamed answer broke off and starts again: discard every delta since the last finished answer.

    ``reason`` says briefly what happened; ``wait`` is the pause before the next try, in seconds. ``usage`` is what the provider told of
    the try that ends with it.
    """

    reason: str
    wait: float = field(default=0.0, compare=False)
    usage: Usage | None = field(default=None, compare=False)


class Progress(Struct, frozen=True):
    """Something arrived that is not shown, such as a part of a tool's arguments. ``chars`` is its length."""

    chars: int = 0


class ReplyNote(Struct, frozen=True):
    """A line that is added to the reply, such as that a model does not take a thinking level."""

    text: str


class FailedOver(Struct, frozen=True):
    """A fallback is asked, because ``instead_of`` failed or is cooling down. ``reason`` is its failure."""

    model: str
    instead_of: str
    reason: str


class ToolStarted(Struct, frozen=True):
    """A tool begins to run."""

    call: ToolCall


class ToolOutput(Struct, frozen=True):
    """The last lines that a running tool has printed. They replace those of the event before."""

    call: ToolCall
    text: str


class ToolFinished(Struct, frozen=True):
    """A tool is done."""

    call: ToolCall
    result: ToolMessage
    seconds: float


class AnswerFinished(Struct, frozen=True):
    """A model's answer is complete and in the transcript."""

    message: AssistantMessage


class Notice(Struct, frozen=True):
    """Something the owner may want to know (a compaction, a fallback). ``verbose`` ones are shown only on request."""

    text: str
    verbose: bool = False


Event = (
    TextDelta
    | ThinkingDelta
    | Restarted
    | ReplyNote
    | FailedOver
    | ToolStarted
    | ToolOutput
    | ToolFinished
    | AnswerFinished
    | Notice
)
