"""A turn without history that shares the cached prompt of another session, such as a heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.messages import AssistantMessage, Message, UserMessage
from agent.transcript.entries import Entry, Opened
from agent.transcript.history_view import turn_of, view


class LightRun(Struct, frozen=True, kw_only=True):
    """How the requests of such a turn are made.

    ``opened`` is how the shared session began, with the notes in its system text; None where there is no such session yet. ``shared`` is
    the id of that session. ``ttl`` is how long the provider is asked to keep the prompt up to the time stamp; None asks for no keeping.
    """

    opened: Opened | None
    shared: str
    ttl: Literal["5m", "1h"] | None


def light_view(entries: Sequence[Entry], turn: str, zone: tzinfo) -> tuple[Message, ...]:
    """Return what a light turn is shown: its own messages. The time stamp of the first stands behind its text.

    So the text, which is the same from turn to turn, belongs to the part of the prompt that the provider may keep.
    """
    messages = view([entry for entry in entries if turn_of(entry) == turn], zone)
    if not messages or not isinstance(messages[0], UserMessage):
        return messages
    stamp, *content = messages[0].content
    return (replace(messages[0], content=(*content, stamp)), *messages[1:])


def is_first_call(messages: Sequence[Message]) -> bool:
    """Return whether a turn's model was not asked yet."""
    return not any(isinstance(message, AssistantMessage) for message in messages)
