"""The ``session`` section: who shares a session, and when it starts afresh."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

DmScope = Literal["main", "per-peer", "per-channel-peer"]
ResetMode = Literal["daily", "idle", "daily+idle", "none"]


class Section(BaseModel):
    """A part of the settings: camelCase keys, unknown keys passed over (the reader warns of them)."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )


class ResetSettings(Section):
    """When a session starts afresh."""

    mode: ResetMode = "daily"
    """``daily``: every day at ``atHour``; ``idle``: after ``idleMinutes`` of silence; ``daily+idle``: whichever is first; ``none``."""
    at_hour: Annotated[int, Field(ge=0, le=23)] = 4
    """Hour of the daily reset, in the owner's time zone."""
    idle_minutes: Annotated[int, Field(ge=1)] = 60
    """Minutes without a message from a person after which an idle reset is due."""
    defer_minutes: Annotated[int, Field(ge=0)] = 30
    """A daily reset waits until nobody has written for this many minutes; 0 resets at once."""
    notice: bool = True
    """Tell the owner in one line when a session was started afresh by the clock."""


class SessionSettings(Section):
    """Sessions."""

    dm_scope: DmScope = "main"
    """``main``: all private chats with the owner are one session; ``per-peer``: one per person; ``per-channel-peer``: one per person and channel."""  # noqa: E501
    identity_links: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Names of people, each with their ids as ``channel:id``, who share a session across channels where ``dmScope`` is not ``main``."""
    reset: ResetSettings = ResetSettings()
    """When sessions start afresh."""
    reset_triggers: tuple[str, ...] = ("/new", "/reset")
    """Messages that start a fresh session."""
