"""The section ``messages.attachments``: how large files may be, and how long they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from channels.messages import ChatAddress
    from gateway.settings.root import ChannelsSettings

MB = 1024 * 1024


class AttachmentSettings(BaseModel):
    """Files that come with messages, and files that an agent sends."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    max_bytes: Annotated[int, Field(ge=0, le=100 * MB)] = 20 * MB
    """Largest file that is taken or sent, in bytes; 0 takes and sends none."""
    max_count: Annotated[int, Field(ge=0, le=100)] = 10
    """Most files that are taken with one message; the others are named to the agent and stay on the platform."""
    total_bytes: Annotated[int, Field(ge=0)] = 50 * MB
    """Most bytes that are taken with one message, in all its files."""
    inline_chars: Annotated[int, Field(ge=0, le=200_000)] = 8000
    """Characters of a text file that the model is shown at once; it reads the rest in the file."""
    keep_days: Annotated[int, Field(ge=0)] = 30
    """Days after which files that were sent to the house are removed from its ``inbox`` folders; 0 keeps them for ever."""
    keep_bytes: Annotated[int, Field(ge=0)] = 2048 * MB
    """Most bytes that the ``inbox`` folders of an agent may hold; beyond it the oldest files are removed. 0 sets no bound."""


def largest_file(channels: ChannelsSettings, place: ChatAddress) -> int | None:
    """Return what ``mediaMaxMb`` says for a conversation, in bytes: that of its account, or else of its channel."""
    said: float | None = getattr(channels.account(place.channel, place.account), "media_max_mb", None)
    return None if said is None else int(said * MB)
