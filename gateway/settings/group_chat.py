"""How agents are called in groups: ``agents.list[].groupChat`` and ``messages.groupChat``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.settings.mention_patterns import Pattern
from gateway.settings.section import Section

MOST_PATTERNS = 20


class CallSettings(Section):
    """How one agent is called in groups."""

    mention_patterns: Annotated[tuple[Pattern, ...], Field(max_length=MOST_PATTERNS)] | None = None
    """Regular expressions that call the agent as a mention does, capitals aside; unset: those of ``messages.groupChat``, else its name."""


class GroupChatSettings(CallSettings):
    """Groups, whatever the channel."""

    history_limit: Annotated[int, Field(ge=0, le=200)] = 20
    """How many messages of a group that were not for the agent are kept to be told with the next one that is; 0 keeps none."""
