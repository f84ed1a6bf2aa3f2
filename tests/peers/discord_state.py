"""What the Discord peer keeps: channels, sessions, faults; and how it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web


class Refused(Exception):
    def __init__(self, status: int, code: int, text: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(text)
        self.status = status
        self.body = {"message": text, "code": code, **more}
        self.headers = headers or {}


@dataclass
class Fault:
    """What goes wrong with the next calls.

    kind: ``drop_before`` and ``drop_after`` cut the connection without or with the effect; ``status`` and ``status_after`` answer
    with ``code`` without or with the effect; ``retry_after`` answers 429 with ``seconds``.
    """

    call: str
    kind: str
    times: int = 1
    code: int = 500
    seconds: float = 0


@dataclass
class Channel:
    id: str
    type: int
    guild: str = ""
    parent: str = ""
    person: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    gone: bool = False

    def shown(self) -> dict[str, Any]:
        last = self.messages[-1]["id"] if self.messages else None
        base: dict[str, Any] = {"id": self.id, "type": self.type, "last_message_id": last}
        if self.person:
            return {**base, "recipients": [person(self.person, "Anna")]}
        base |= {"guild_id": self.guild, "name": "general", "position": 0, "permission_overwrites": [], "parent_id": None}
        if self.parent:
            now = datetime.now(UTC).isoformat()
            meta = {"archived": False, "auto_archive_duration": 60, "archive_timestamp": now, "locked": False}
            base |= {"parent_id": self.parent, "owner_id": "1", "message_count": 0, "member_count": 1, "thread_metadata": meta}
        return base


def person(identity: str, name: str, *, bot: bool = False) -> dict[str, Any]:
    return {"id": identity, "username": name, "global_name": name, "discriminator": "0", "avatar": None, "bot": bot}


@dataclass
class Session:
    id: str
    intents: int
    events: list[dict[str, Any]] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None
