"""The sections ``agents.list[].groupChat`` and ``messages.groupChat``: mentions and history in groups."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gateway.settings.mention_patterns import Pattern
from gateway.settings.section import Section

MOST_PATTERNS = 20


class CallSettings(Section):
    """How one agent is mentioned in groups."""

    mention_patterns: Annotated[tuple[Pattern, ...], Field(max_length=MOST_PATTERNS)] | None = None
    """Regular expressions, ignoring case, that count as a mention. Unset: those of ``messages.groupChat``, else the agent's name."""


class GroupChatSettings(CallSettings):
    """Groups on all channels."""

    history_limit: Annotated[int, Field(ge=0, le=200)] = 20
    """Number of earlier group messages without a mention that are added to the next one with a mention. 0: none."""
