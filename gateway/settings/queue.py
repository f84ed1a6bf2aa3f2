"""The sections ``messages.queue`` and ``messages.inbound``: what becomes of messages that arrive quickly, or while a turn runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from gateway.settings.section import Section

QueueMode = Literal["collect", "steer", "followup", "interrupt"]
MODES: tuple[str, ...] = get_args(QueueMode)
OLDER_NAMES = {"queue": "steer", "steer-backlog": "steer", "steer+backlog": "steer"}
"""Names that the documents give the modes; a backlog that is answered twice is nobody's wish."""


def _by_older_name(value: Any) -> Any:
    return OLDER_NAMES.get(value, value) if isinstance(value, str) else value


Mode = Annotated[QueueMode, BeforeValidator(_by_older_name)]
Milliseconds = Annotated[int, Field(ge=0, le=60_000)]


class QueueSettings(Section):
    """What becomes of messages that arrive while their session is at work. None is ever dropped."""

    mode: Mode = "collect"
    """``collect`` answers what waits together in the next turn, ``steer`` lets it into the running one between its tools, ``followup`` gives each a turn of its own, ``interrupt`` stops the running turn for it."""  # noqa: E501
    by_channel: dict[str, Mode] = Field(default_factory=dict)
    """Other modes by channel, such as ``{discord: steer}``; ``/queue`` in a conversation goes before both."""
    debounce_ms: Milliseconds = 500
    """How long it must have been quiet before messages that waited are answered together, in milliseconds."""
    debounce_ms_by_channel: dict[str, Milliseconds] = Field(default_factory=dict)
    """Other such times by channel."""
    cap: Annotated[int, Field(ge=1, le=1000)] = 20
    """Most messages that one turn answers together; what is beyond it is answered in the next one."""
    drop: Literal["none", "old", "new", "summarize"] = "none"
    """Understood for the sake of older files and without effect: messages beyond ``cap`` wait, and are never dropped."""

    def mode_on(self, channel: str) -> QueueMode:
        """Return the mode on a channel."""
        return self.by_channel.get(channel, self.mode)

    def quiet_on(self, channel: str) -> float:
        """Return how long a channel must have been quiet, in seconds."""
        return self.debounce_ms_by_channel.get(channel, self.debounce_ms) / 1000


class InboundSettings(Section):
    """What becomes of messages that one person sends in quick succession."""

    debounce_ms: Milliseconds = 0
    """Texts of one person that follow each other within this time, in milliseconds, are answered as one; 0 answers each at once."""
    by_channel: dict[str, Milliseconds] = Field(default_factory=dict)
    """Other such times by channel, such as ``{telegram: 1500}``."""

    def within(self, channel: str) -> float:
        """Return the time on a channel, in seconds."""
        return self.by_channel.get(channel, self.debounce_ms) / 1000
