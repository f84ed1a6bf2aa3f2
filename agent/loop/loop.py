"""The agent loop: call the model, run its tool calls, add messages that arrived meanwhile, until it answers without tools.

Failures arrive as data (a failed answer, a refused call). The loop only decides whether to continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from agent.messages import AssistantMessage, Failure, ToolCall

GRACE_ROUNDS = 2
"""How many more answers with tool calls are accepted after the limit of tool calls was reached."""
MOST_CUTS = 5
"""How often an answer may break off after a part of it was sent, and be continued, in one turn."""


class Steps(Protocol):
    """The steps of the loop. They raise nothing but cancellation and ``TranscriptWriteError``."""

    @property
    def exhausted(self) -> bool:
        """Whether the turn's tool calls are used up."""
        ...

    @property
    def suspended(self) -> bool:
        """Whether a tool call waits for the owner's approval, so that the turn cannot go on now."""
        ...

    async def call_model(self) -> tuple[AssistantMessage, str]:
        """Ask the model once; the answer is durable, and comes with the id of its entry. One that was cut off is to be gone on with."""
        ...

    async def run_tools(self, calls: Sequence[ToolCall], answer: str) -> None:
        """Run the tools that an answer asks for; the results are durable."""
        ...

    async def free_context(self) -> bool:
        """Shrink the context after an overflow. Returns whether it is worth asking again."""
        ...

    async def drain_steering(self) -> None:
        """Add messages that arrived meanwhile, so that the next call shows them."""
        ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ended. ``answer`` is the model's last word; with "failed" it says what was wrong.

    "suspended": it goes on with the same messages once the owner has decided. ``answer`` is None where the model was not asked.
    """

    outcome: Literal["answered", "failed", "stopped", "suspended"]
    answer: AssistantMessage | None


async def run(steps: Steps, *, resume: tuple[AssistantMessage, str] | None = None) -> Ending:
    """Run until the model is done. ``resume`` is an answer that a restart found last in the transcript.

    A message that arrives while the final answer is written is left for the next turn.
    """
    pending = resume
    grace, cuts = GRACE_ROUNDS, MOST_CUTS
    if pending is None and steps.suspended:
        return Ending("suspended", None)
    while True:
        answer, entry = pending or await steps.call_model()
        pending = None
        if answer.stop == "cut":
            if (cuts := cuts - 1) < 0:
                return Ending("failed", replace(answer, failure=_cut_too_often(answer.model)))
            continue
        if _overflowed(answer) and await steps.free_context():
            continue
        if answer.failure is not None or _overflowed(answer):
            return Ending("failed", answer)
        if not answer.calls:
            return Ending("answered", answer)
        if steps.exhausted and (grace := grace - 1) < 0:
            return Ending("stopped", answer)
        await steps.run_tools(answer.calls, entry)
        if steps.suspended:
            return Ending("suspended", answer)
        await steps.drain_steering()


def _overflowed(answer: AssistantMessage) -> bool:
    return answer.stop == "overflow" or (answer.failure is not None and answer.failure.kind == "overflow")


def _cut_too_often(model: str) -> Failure:
    hint = "Say “go on” for the rest, or choose another model with /model."
    return Failure(kind="network", message=f"{model} broke off its answer {MOST_CUTS + 1} times.", hint=hint)
