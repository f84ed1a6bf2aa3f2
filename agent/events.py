"""What happens during a turn, as it happens: one union, for whoever shows it to a person."""

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
    """The answer being streamed broke off and begins anew: every delta since the last finished answer is void.

    ``reason`` says in a few words what happened; ``wait`` is for how many seconds nothing is tried. Whoever shows deltas takes
    them back; whoever shows only finished answers need not do anything.
    """

    reason: str
    wait: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """Something arrived that nobody is shown, such as more of a tool's arguments: the model is at work. ``chars`` is how much."""

    chars: int = 0


@dataclass(frozen=True, slots=True)
class ReplyNote:
    """A line that the owner is to be told with the reply, such as a thinking level that a model does not take."""

    text: str


@dataclass(frozen=True, slots=True)
class FailedOver:
    """Another model is asked now, because ``instead_of`` gave no answer or rests after that. ``reason`` is what it failed with."""

    model: str
    instead_of: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool begins to run."""

    call: ToolCall


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


Event = TextDelta | ThinkingDelta | Restarted | ReplyNote | FailedOver | ToolStarted | ToolFinished | AnswerFinished | Notice
