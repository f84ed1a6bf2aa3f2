"""The section ``subagents``: limits of the sessions that an agent starts for parts of its work."""

from typing import Annotated

from pydantic import Field

from agent.section import Section
from agent.settings import Duration, Level


class SubAgentSettings(Section):
    """Sub-agents: sessions that an agent starts with the tool ``spawn`` for parts of its work."""

    max_concurrent: Annotated[int, Field(ge=1, le=200)] = Field(default=8, json_schema_extra={"reload": "restart"})
    """How many sub-agents of all agents work at once; further ones wait. They take no places from people's turns."""
    max_children: Annotated[int, Field(ge=1, le=100)] = 5
    """How many unfinished sub-agents one session may have."""
    max_per_request: Annotated[int, Field(ge=1, le=1000)] = 20
    """How many sub-agents may come of one message in all, with those that sub-agents start, and those that results lead to."""
    max_spawn_depth: Annotated[int, Field(ge=1, le=5)] = 2
    """How deep sub-agents may be nested: 1 means that sub-agents start none."""
    max_messages: Annotated[int, Field(ge=1, le=100)] = 5
    """How many messages a sub-agent may be sent, its task included."""
    timeout_seconds: Duration = 600.0
    """Longest duration of one turn of a sub-agent: seconds, or such as `15m`."""
    usd: Annotated[float, Field(ge=0)] | None = 1.0
    """USD that one sub-agent may spend in a day; `spawn` may ask for less. null: only the other budgets count."""
    model: str | None = None
    """Their model, as `provider/model` or an alias. Unset: that of the session that starts them."""
    thinking: Level | None = None
    """How deep their models think: off, minimal, low, medium, high, xhigh or adaptive. Unset: as the agent's."""
    archive_after_minutes: Annotated[int, Field(ge=1, le=100_000)] = 60
    """How long a sub-agent that has ended can still be asked and looked at, in minutes."""
    allow_agents: tuple[str, ...] = ()
    """Ids of other agents that this agent may start as sub-agents and send messages to; `*` for all. Empty: none."""
