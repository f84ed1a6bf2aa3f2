"""Which of an agent's tools may be used in a group: the same section in the settings of every channel."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class GroupTools(BaseModel):
    """Tools in one group. It can only narrow what the agent has: a group gives no rights."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    allow: tuple[str, ...] = ("*",)
    """Names of tools that may be used here, with `*`, or groups such as `group:memory`."""
    deny: tuple[str, ...] = ()
    """Names of tools that may not be used here, with `*`, or groups; this wins over `allow`."""
