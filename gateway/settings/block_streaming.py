"""Settings of block streaming, and the effective values for one conversation."""

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import Field

from agent.section import Section
from channels.common.shared_settings import BlockCoalescing
from channels.common.stream_splitter import Limits, Preference
from channels.messages import API, CLIENT_CHANNELS

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gateway.settings.root import ChannelsSettings

Sending = Literal["whole", "finished", "written"]
"""When text is sent: at the end of the turn, after each finished answer, or while it is written."""

NATURAL = (0.8, 2.5)
"""Seconds of a pause that looks natural."""
ROOM = 0.75
"""Maximum ratio of minimum to maximum block length, so that there is a choice of places to split."""


class BlockSettings(Section):
    """Sends what an agent says between tool calls as messages during the turn."""

    enabled: bool = False
    """Send such text as messages; otherwise it is only visible in the preview."""
    by_channel: dict[str, bool] = Field(default_factory=dict)
    """Overrides by channel, such as ``{telegram: true}``; ``channels.<name>.blockStreaming`` takes precedence."""
    min_chars: Annotated[int, Field(ge=0, le=10_000)] = 80
    """Minimum length of such a message in characters; shorter text is joined with the next one or with the final answer."""


class BlockChunking(Section):
    """Length of blocks, and where they end."""

    min_chars: Annotated[int, Field(ge=1, le=4000)] = 800
    """Minimum length of a block of an unfinished answer, in characters."""
    max_chars: Annotated[int, Field(ge=100, le=16_000)] = 1200
    """Maximum length of a block, in characters; limited by the channel's ``textChunkLimit``."""
    break_preference: Preference = "paragraph"
    """Where a block of sufficient length ends; at a lesser break only if it would become too long."""


class HumanDelay(Section):
    """A pause between the blocks of an answer, as of somebody who types."""

    mode: Literal["off", "natural", "custom"] = "off"
    """Whether there is a pause: none, one of 0.8 to 2.5 seconds, or one between `minMs` and `maxMs`."""
    min_ms: Annotated[int, Field(ge=0, le=10_000)] = 800
    """The shortest pause with `custom`, in milliseconds."""
    max_ms: Annotated[int, Field(ge=0, le=10_000)] = 2500
    """The longest pause with `custom`, in milliseconds."""

    def bounds(self) -> tuple[float, float]:
        """Return the shortest and the longest pause in seconds."""
        if self.mode == "off":
            return 0.0, 0.0
        if self.mode == "natural":
            return NATURAL
        return self.min_ms / 1000, max(self.min_ms, self.max_ms) / 1000


class BlockStreaming(Section):
    """Sends an answer in blocks while it is being written."""

    block_streaming_default: Literal["off", "on"] = "off"
    """Default for chat platforms without ``channels.<name>.blockStreaming``."""
    block_streaming_break: Literal["text_end", "message_end"] | None = None
    """When blocks are sent: ``text_end``, as soon as their text is written, or ``message_end``, when an answer is finished and tools
    run. Unset: ``message_end`` if only ``messages.blockStreaming`` enables blocks, otherwise ``text_end``."""
    block_streaming_chunk: BlockChunking = BlockChunking.model_construct()
    """Length of blocks, and where they end."""
    block_streaming_coalesce: BlockCoalescing = BlockCoalescing.model_construct()
    """How blocks are merged before they are sent."""
    human_delay: HumanDelay = HumanDelay.model_construct()
    """A pause between blocks on chat platforms."""


class Manner(Struct, frozen=True):
    """How an agent's text is sent in one conversation.

    ``least``: minimum length of a finished answer, in characters. ``limits``: length of a block of an unfinished one.
    ``resting``: minimum length of a block after ``idle`` seconds without new text. ``pause``: seconds between two blocks, from and to.
    """

    sent: Sending = "whole"
    least: int = 80
    limits: Limits = field(default_factory=lambda: Limits(800, 1200))
    resting: int = 800
    idle: float = 1.0
    pause: tuple[float, float] = (0.0, 0.0)


def manner_of(
    messages: BlockSettings, channels: "ChannelsSettings", agent: BlockStreaming, channel: str, account: str
) -> Manner:
    """Return how one agent's text is sent by an account of a channel. The most specific setting applies."""
    manner = _manner_of(messages, channels, agent, channel, account)
    return manner if channel in CLIENT_CHANNELS else replace(manner, pause=agent.human_delay.bounds())


def _manner_of(
    messages: BlockSettings, channels: "ChannelsSettings", agent: BlockStreaming, channel: str, account: str
) -> Manner:
    section = channels.account(channel, account)
    said: bool | None = getattr(section, "block_streaming", None)
    asked = said
    if said is None and (said := messages.by_channel.get(channel)) is None:
        asked = True if agent.block_streaming_default == "on" and channel not in CLIENT_CHANNELS else None
        said = asked or messages.enabled
    if not said or channel == API:  # its answers are one text, whatever blocks it is written in
        return Manner(least=messages.min_chars)
    usual = "text_end" if asked else "message_end"
    if (agent.block_streaming_break or usual) == "message_end":
        return Manner("finished", messages.min_chars)
    coalescing: BlockCoalescing = getattr(section, "block_streaming_coalesce", None) or agent.block_streaming_coalesce
    return _written(messages.min_chars, agent, coalescing, section)


def _written(least: int, agent: BlockStreaming, coalescing: BlockCoalescing, section: "BaseModel | None") -> Manner:
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
