"""The sections ``messages.queue`` and ``messages.inbound``: messages during a turn or in quick succession."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from gateway.settings.section import Section

QueueMode = Literal["collect", "steer", "followup", "interrupt"]
MODES: tuple[str, ...] = get_args(QueueMode)
OLDER_NAMES = {"queue": "steer", "steer-backlog": "steer", "steer+backlog": "steer"}
"""Accepted aliases of the modes."""


def _by_older_name(value: Any) -> Any:
    return OLDER_NAMES.get(value, value) if isinstance(value, str) else value


Mode = Annotated[QueueMode, BeforeValidator(_by_older_name)]
Milliseconds = Annotated[int, Field(ge=0, le=60_000)]


class QueueSettings(Section):
    """What happens to messages that arrive while their session is busy. None is dropped."""

    mode: Mode = "collect"
    """``collect``: answer waiting messages together in the next turn. ``steer``: add them to the running turn between tool calls. ``followup``: one turn for each. ``interrupt``: stop the running turn."""  # noqa: E501
    by_channel: dict[str, Mode] = Field(default_factory=dict)
    """Mode by channel, such as ``{discord: steer}``. ``/queue`` in a conversation takes precedence."""
    debounce_ms: Milliseconds = 500
    """Milliseconds without a new message before waiting messages are answered together."""
    debounce_ms_by_channel: dict[str, Milliseconds] = Field(default_factory=dict)
    """The same by channel, in milliseconds."""
    cap: Annotated[int, Field(ge=1, le=1000)] = 20
    """Maximum number of messages answered in one turn; further ones are answered in the next turn."""
    drop: Literal["none", "old", "new", "summarize"] = "none"
    """Accepted for compatibility but ignored: messages beyond ``cap`` wait and are never dropped."""

    def mode_on(self, channel: str) -> QueueMode:
        """Return the mode on a channel."""
        return self.by_channel.get(channel, self.mode)

    def quiet_on(self, channel: str) -> float:
        """Return the debounce time of a channel in seconds."""
        return self.debounce_ms_by_channel.get(channel, self.debounce_ms) / 1000


class InboundSettings(Section):
    """Messages that one person sends in quick succession."""

    debounce_ms: Milliseconds = 0
    """Texts of one person within this many milliseconds of each other are joined and answered as one. 0: off."""
    by_channel: dict[str, Milliseconds] = Field(default_factory=dict)
    """The same by channel, in milliseconds, such as ``{telegram: 1500}``."""

    def within(self, channel: str) -> float:
        """Return the time of a channel in seconds."""
        return self.by_channel.get(channel, self.debounce_ms) / 1000
