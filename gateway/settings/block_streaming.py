"""How what an agent says is sent in blocks: what the settings say of it, and what holds for one conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from channels.common.shared_settings import BlockCoalescing
from channels.common.stream_splitter import Limits, Preference
from gateway.settings.section import Section

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway.settings.root import ChannelsSettings

Sending = Literal["whole", "finished", "written"]
"""When an agent's words are sent: when its turn is over, after each finished answer too, or as they are written."""
AS_IT_IS_WRITTEN = "terminal"
"""The channel that shows an answer letter by letter, and needs no blocks."""
ROOM = 0.75
"""No block has to be longer than this share of the longest one, or there were no choice where to cut."""


class BlockSettings(Section):
    """Sending what an agent says between its tools as messages, while it works on."""

    enabled: bool = False
    """Whether it is done; otherwise such words are seen in the preview only."""
    by_channel: dict[str, bool] = Field(default_factory=dict)
    """Other such choices by channel, such as ``{telegram: true}``; ``channels.<name>.blockStreaming`` goes before."""
    min_chars: Annotated[int, Field(ge=0, le=10_000)] = 80
    """Characters that a finished answer has at least: shorter words wait for the next ones, or for the end."""


class BlockChunking(Section):
    """How long blocks are, and where they end."""

    min_chars: Annotated[int, Field(ge=1, le=4000)] = 800
    """Letters that a block of an unfinished answer has at least."""
    max_chars: Annotated[int, Field(ge=100, le=16_000)] = 1200
    """Letters that it has at most; never more than the channel's ``textChunkLimit``."""
    break_preference: Preference = "paragraph"
    """At what a block that is long enough ends; at a lesser break only when it would become too long."""


class BlockStreaming(Section):
    """Sending an answer in blocks, while it is still being written."""

    block_streaming_default: Literal["off", "on"] = "off"
    """Whether it is done on chat platforms of which ``channels.<name>.blockStreaming`` says nothing."""
    block_streaming_break: Literal["text_end", "message_end"] | None = None
    """When blocks are sent: as soon as their text is written, or when an answer is finished and tools run. Unset: ``message_end``
    where only ``messages.blockStreaming`` asks for blocks, otherwise ``text_end``."""
    block_streaming_chunk: BlockChunking = BlockChunking()
    """How long blocks are, and where they end."""
    block_streaming_coalesce: BlockCoalescing = BlockCoalescing()
    """How long blocks are gathered before they are sent."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How what an agent says in one conversation is sent.

    ``least`` is how long a finished answer is at least; ``limits`` and ``resting`` are those of a block of an unfinished one,
    the latter when nothing more came for ``idle`` seconds.
    """

    sent: Sending = "whole"
    least: int = 80
    limits: Limits = field(default_factory=lambda: Limits(800, 1200))
    resting: int = 800
    idle: float = 1.0


def manner_of(messages: BlockSettings, channels: ChannelsSettings, agent: BlockStreaming, channel: str, account: str) -> Manner:
    """Return how one agent's words are sent by an account of a channel. What is said nearest holds."""
    section = channels.account(channel, account)
    said: bool | None = getattr(section, "block_streaming", None)
    asked = said
    if said is None and (said := messages.by_channel.get(channel)) is None:
        asked = True if agent.block_streaming_default == "on" and channel != AS_IT_IS_WRITTEN else None
        said = asked or messages.enabled
    if not said:
        return Manner(least=messages.min_chars)
    usual = "text_end" if asked else "message_end"
    if (agent.block_streaming_break or usual) == "message_end":
        return Manner("finished", messages.min_chars)
    coalescing: BlockCoalescing = getattr(section, "block_streaming_coalesce", None) or agent.block_streaming_coalesce
    return _written(messages.min_chars, agent, coalescing, section)


def _written(least: int, agent: BlockStreaming, coalescing: BlockCoalescing, section: BaseModel | None) -> Manner:
    chunk = agent.block_streaming_chunk
    room: int | None = getattr(section, "text_chunk_limit", None)
    usual: int = chunk.min_chars
    if "block_streaming_chunk" not in agent.model_fields_set:
        usual = getattr(section, "usual_block_chars", usual)
    gathered = coalescing.min_chars or usual
    shortest = max(chunk.min_chars, gathered)
    longest = coalescing.max_chars or max(chunk.max_chars, round(shortest / ROOM))
    longest = min(longest, room) if room else longest
    shortest = min(shortest, int(longest * ROOM))
    limits = Limits(shortest, longest, chunk.break_preference)
    return Manner("written", least, limits, min(gathered, shortest), coalescing.idle_ms / 1000)
