"""Answers that are sent in blocks: what the settings of every channel may say of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class BlockCoalescing(BaseModel):
    """How long blocks are gathered before they are sent."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    idle_ms: Annotated[int, Field(ge=50, le=60_000)] = 1000
    """After so many milliseconds in which nothing more was written, what ends with a sentence is sent, if it is long enough."""
    min_chars: Annotated[int, Field(ge=1, le=4000)] | None = None
    """Letters that a block has at least; unset: as ``blockStreamingChunk`` says, or 1500 on Discord and Slack where that says nothing."""
    max_chars: Annotated[int, Field(ge=100, le=16_000)] | None = None
    """Letters that a block has at most; unset: as many as ``blockStreamingChunk`` says, or room for ``minChars``."""
