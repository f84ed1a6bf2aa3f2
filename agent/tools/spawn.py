"""The ``spawn`` tool: starts a sub-agent, whose result comes as a message."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, AliasChoices, Field

from agent.errors import RequestRefused
from agent.tools.arguments import Arguments, CheckedTool, CleanText, at_most, failed
from agent.tools.protocol import Act, Outcome, ToolContext

LONGEST_TASK = 50_000
LONGEST_LABEL = 40


def _positive(usd: float | None) -> float | None:
    if usd is not None and not 0 < usd < math.inf:
        raise ValueError("must be more than 0")
    return usd


class SpawnArguments(Arguments):
    """What ``spawn`` takes."""

    task: Annotated[CleanText, at_most(LONGEST_TASK), Field(validation_alias=AliasChoices("task", "prompt"))]
    label: Annotated[CleanText, at_most(LONGEST_LABEL)] | None = None
    model: Annotated[str | None, Field(exclude=True)] = None
    tools: Annotated[tuple[str, ...] | None, Field(description="fewer than yours")] = None
    usd: Annotated[
        float | None, AfterValidator(_positive), Field(exclude=True, validation_alias=AliasChoices("usd", "budget"))
    ] = None
    agent: Annotated[str | None, Field(validation_alias=AliasChoices("agent", "agentId", "agent_id"))] = None


class Spawner(Protocol):
    """Starts sub-agents."""

    async def spawn(self, wanted: SpawnArguments, context: ToolContext) -> Outcome:
        """Start one, and say which; the same call starts no second one.

        Raises:
            RequestRefused: a limit or a setting forbids it, or something that it names does not exist.
        """
        ...


class Spawn(CheckedTool[SpawnArguments]):
    """Starts a sub-agent. A repeat of the same call finds the one that it started: hence "idempotent"."""

    def __init__(self, spawner: Spawner) -> None:
        super().__init__(
            SpawnArguments,
            name="spawn",
            description=(
                "Start a sub-agent, which sees only this task. Its result comes later as a message: end your turn, do not wait."
            ),
            effect="idempotent",
        )
        self._spawner = spawner

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return what would be started: it costs money, so rules judge it. None for arguments that ``run`` refuses."""
        del context
        given = self.checked(arguments)
        if given is None:
            return None
        name = f" “{given.label}”" if given.label else ""
        chosen = [f" of the agent {given.agent}"] if given.agent else []
        chosen += [f" with {given.model}"] if given.model else []
        chosen += [f" for at most ${given.usd:.2f} a day"] if given.usd is not None else []
        return Act(kind="spawn", summary=f"start a sub-agent{name}{''.join(chosen)}", details=given.task)

    async def act(self, arguments: SpawnArguments, context: ToolContext) -> Outcome:
        """Start it."""
        try:
            return await self._spawner.spawn(arguments, context)
        except RequestRefused as refused:
            return failed(str(refused), refused.hint)
