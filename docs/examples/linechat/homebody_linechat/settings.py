"""What the channel needs to know: the settings under ``channels.plugins.linechat.settings``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class LineChatSettings(BaseModel):
    """The settings. A wrong or unknown one is told as this channel's trouble, with its name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    """Where the chat server is."""
    port: int = Field(ge=1, le=65_535)
    """The port that it listens on."""
    password: SecretStr
    """What it asks for. It may be written as ``env:NAME`` or ``file:PATH``, and is not shown."""
