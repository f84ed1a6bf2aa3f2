"""The section ``messages.attachments``: size limits and retention of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from channels.messages import ChatAddress

if TYPE_CHECKING:
    from gateway.settings.root import ChannelsSettings

MB = 1024 * 1024


class AttachmentSettings(BaseModel):
    """Files received with messages, and files that an agent sends."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    max_bytes: Annotated[int, Field(ge=0, le=100 * MB)] = 20 * MB
    """Maximum size of a received or sent file, in bytes. 0: no files."""
    max_count: Annotated[int, Field(ge=0, le=100)] = 10
    """Maximum number of files downloaded per message. The agent is told the names of the others."""
    total_bytes: Annotated[int, Field(ge=0)] = 50 * MB
    """Maximum total size of the files downloaded per message, in bytes."""
    inline_chars: Annotated[int, Field(ge=0, le=200_000)] = 8000
    """Characters of a received text file that are added to the message; the model can read the rest from the file."""
    keep_days: Annotated[int, Field(ge=0)] = 30
    """Days after which received files are deleted from the ``inbox`` folders. 0: never."""
    keep_bytes: Annotated[int, Field(ge=0)] = 2048 * MB
    """Maximum total size of an agent's ``inbox`` folders in bytes; beyond it the oldest files are deleted. 0: unlimited."""


def largest_file(channels: ChannelsSettings, place: ChatAddress) -> int | None:
    """Return ``mediaMaxMb`` of the conversation's account, or of its channel, in bytes."""
    said: float | None = getattr(channels.account(place.channel, place.account), "media_max_mb", None)
    return None if said is None else int(said * MB)
