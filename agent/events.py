"""Events of a running turn, for those who show it: text, tool calls, notices."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.messages import AssistantMessage, ToolCall, ToolMessage


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the reply that a person may see. Never contains a part of NO_REPLY."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """The streamed answer broke off and starts again: discard every delta since the last finished answer.

    ``reason`` says briefly what happened; ``wait`` is the pause before the next try, in seconds.
    """

    reason: str
    wait: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """Something arrived that is not shown, such as a part of a tool's arguments. ``chars`` is its length."""

    chars: int = 0


@dataclass(frozen=True, slots=True)
class ReplyNote:
    """A line that is added to the reply, such as that a model does not take a thinking level."""

    text: str


@dataclass(frozen=True, slots=True)
class FailedOver:
    """A fallback is asked, because ``instead_of`` failed or is cooling down. ``reason`` is its failure."""

    model: str
    instead_of: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool begins to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The last lines that a running tool has printed. They replace those of the event before."""

    call: ToolCall
    text: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool is done."""

    call: ToolCall
    result: ToolMessage
    seconds: float


@dataclass(frozen=True, slots=True)
class AnswerFinished:
    """A model's answer is complete and in the transcript."""

    message: AssistantMessage


@dataclass(frozen=True, slots=True)
class Notice:
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
