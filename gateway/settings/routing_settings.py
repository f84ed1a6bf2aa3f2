"""The sections ``bindings`` and ``broadcast``: which agents answer which conversations."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from agent.section import Section

STRATEGY = "strategy"


class PeerMatch(Section):
    """One person or one group."""

    kind: Literal["dm", "direct", "group", "channel"] = "dm"
    """``dm`` for a person, ``group`` or ``channel`` for a group."""
    id: str
    """The platform's id of the person or group."""


class BindingMatch(Section):
    """Conditions on a conversation; all given ones must match."""

    channel: str
    """The channel, such as ``telegram``."""
    account_id: str | None = None
    """The account. Unset: the default one. ``*``: any."""
    peer: PeerMatch | None = None
    """One person or one group."""
    thread: str | None = None
    """The id of a topic or thread in that group."""
    guild_id: str | None = None
    """The group's Discord server."""
    team_id: str | None = None
    """The group's Slack workspace."""

    @model_validator(mode="after")
    def _of_a_group(self) -> Self:
        if self.thread is not None and self.peer is None:
            raise ValueError("thread is a topic of a group: give the group under peer")
        return self


class Binding(Section):
    """A rule that assigns conversations to an agent."""

    agent_id: str
    """The agent that answers."""
    match: BindingMatch
    """The conversations that it answers."""


def _strategy(given: dict[str, str | tuple[str, ...]]) -> dict[str, str | tuple[str, ...]]:
    for key, value in given.items():
        if key == STRATEGY and value != "parallel":
            raise ValueError("strategy: only parallel is supported (each agent answers as soon as it can)")
        if key != STRATEGY and (isinstance(value, str) or not value):
            raise ValueError(f"{key}: give the agents as a list, such as [main, work]")
    return given


Broadcast = Annotated[dict[str, str | tuple[str, ...]], AfterValidator(_strategy)]
"""Agents by conversation; the key ``strategy`` sets how they answer."""
