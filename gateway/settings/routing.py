"""The sections ``bindings`` and ``broadcast``: which agents answer which conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, model_validator

from gateway.settings.section import Section

if TYPE_CHECKING:
    from typing import Self

STRATEGY = "strategy"


class PeerMatch(Section):
    """One person or one group."""

    kind: Literal["dm", "direct", "group", "channel"] = "dm"
    """``dm`` for a person, ``group`` or ``channel`` for a group."""
    id: str
    """The platform's id of the person or group."""


class BindingMatch(Section):
    """What a conversation must be like; everything that is said must hold."""

    channel: str
    """The channel, such as ``telegram``."""
    account_id: str | None = None
    """The account; none means the default one, ``*`` any."""
    peer: PeerMatch | None = None
    """One person or one group."""
    thread: str | None = None
    """One topic or thread of that group, by its id."""
    guild_id: str | None = None
    """The Discord server that a group lies in."""
    team_id: str | None = None
    """The Slack workspace that a group lies in."""

    @model_validator(mode="after")
    def _of_a_group(self) -> Self:
        if self.thread is not None and self.peer is None:
            raise ValueError("thread says which topic of a group is meant: name the group under peer")
        return self


class Binding(Section):
    """One rule that gives conversations to an agent."""

    agent_id: str
    """The agent that answers."""
    match: BindingMatch
    """The conversations it answers."""


def _strategy(given: dict[str, str | tuple[str, ...]]) -> dict[str, str | tuple[str, ...]]:
    for key, value in given.items():
        if key == STRATEGY and value != "parallel":
            raise ValueError("strategy: there is parallel only, in which each agent answers as soon as it can")
        if key != STRATEGY and (isinstance(value, str) or not value):
            raise ValueError(f"{key}: name the agents as a list, such as [main, work]")
    return given


Broadcast = Annotated[dict[str, str | tuple[str, ...]], AfterValidator(_strategy)]
"""Agents by conversation; the key ``strategy`` says how they answer."""
