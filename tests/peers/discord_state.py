"""What the Discord peer keeps: channels, sessions, interactions, faults; how it refuses, and what it finds wrong with a payload."""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.peers.relay import Socket

BOT = "900000000000000001"
LONGEST = 2000
UPLOAD_LIMIT = 10 * 1024 * 1024
INVALID = 50035
_COMMAND = re.compile(r"[-_'\w]{1,32}")


class Refused(Exception):
    def __init__(self, status: int, code: int, text: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(text)
        self.status = status
        self.body = {"message": text, "code": code, **more}
        self.headers = headers or {}


class Banned(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = int(seconds)


@dataclass
class Fault:
    """What goes wrong with the next calls.

    kind: ``drop_before`` and ``drop_after`` cut the connection without or with the effect; ``status`` and ``status_after`` answer
    with ``code`` without or with the effect; ``retry_after`` answers 429 with ``seconds``, for this call, ``everywhere`` for
    all of the bot's; ``banned`` answers so in the way of what stands before Discord.
    """

    call: str
    kind: str
    times: int = 1
    code: int = 500
    seconds: float = 0


@dataclass
class Channel:
    """A channel. ``gone``: it was deleted, or (with ``denied``) the bot may not do there what it asks for."""

    id: str
    type: int
    guild: str = ""
    parent: str = ""
    person: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    gone: bool = False
    denied: int = 0
    hidden: bool = False
    archived: bool = False
    owner: str = "1"
    name: str = "general"
    archive_after: int = 60
    no_threads: bool = False
    no_voice: bool = False

    def shown(self) -> dict[str, Any]:
        last = self.messages[-1]["id"] if self.messages else None
        base: dict[str, Any] = {"id": self.id, "type": self.type, "last_message_id": last}
        if self.person:
            return {**base, "recipients": [person(self.person, "Anna")]}
        base |= {"guild_id": self.guild, "name": self.name, "position": 0, "permission_overwrites": [], "parent_id": None}
        if self.type == 15:
            base |= {
                "available_tags": [],
                "default_reaction_emoji": None,
                "default_sort_order": None,
                "default_forum_layout": 0,
            }
        if self.parent:
            now = datetime.now(UTC).isoformat()
            meta = {
                "archived": self.archived,
                "auto_archive_duration": self.archive_after,
                "archive_timestamp": now,
                "locked": False,
            }
            base |= {
                "parent_id": self.parent,
                "owner_id": self.owner,
                "message_count": 0,
                "member_count": 1,
                "thread_metadata": meta,
            }
        return base


@dataclass
class Session:
    id: str
    intents: int
    events: list[dict[str, Any]] = field(default_factory=list)
    socket: Socket | None = None

    def wants(self, name: str, guild: str) -> bool:
        """Tell whether the intents include an event."""
        match name:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE":
                return bool(self.intents & (1 << 9 if guild else 1 << 12))
            case "MESSAGE_REACTION_ADD":
                return bool(self.intents & (1 << 10 if guild else 1 << 13))
            case "GUILD_CREATE" | "GUILD_DELETE" | "CHANNEL_CREATE" | "CHANNEL_DELETE" | "THREAD_CREATE" | "THREAD_DELETE":
                return bool(self.intents & 1)
        return True


@dataclass
class Interaction:
    """A command or a press that waits for its answer: three seconds, and once."""

    id: str
    token: str
    kind: int
    channel: Channel
    message: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    late: bool = False
    taken: asyncio.Event = field(default_factory=asyncio.Event)


def person(identity: str, name: str, *, bot: bool = False) -> dict[str, Any]:
    return {"id": identity, "username": name, "global_name": name, "discriminator": "0", "avatar": None, "bot": bot}


def member(identity: str, name: str, *, bot: bool = False) -> dict[str, Any]:
    joined = "2024-01-01T00:00:00+00:00"
    facts = {"roles": [], "joined_at": joined, "deaf": False, "mute": False, "flags": 0, "permissions": "0"}
    return {**facts, "user": person(identity, name, bot=bot)}


def check_content(body: dict[str, Any], *, files: int) -> str:
    content = body.get("content")
    if not files and (not isinstance(content, str) or not content.strip()):
        raise Refused(400, 50006, "Cannot send an empty message")
    if len(content or "") > LONGEST:
        raise Refused(400, INVALID, "Invalid Form Body: content: Must be 2000 or fewer in length.")
    return content or ""


def check_voice(channel: Channel, body: dict[str, Any], *, files: int) -> None:
    """Check a voice message, by its flag: one recording with its length and curve, and nothing else."""
    if not body.get("flags", 0) & 1 << 13:
        return
    if channel.no_voice:
        raise Refused(400, 50173, "You cannot send voice messages in this channel.")
    if body.get("content") or body.get("components") or body.get("embeds"):
        raise Refused(400, 50159, "Voice messages do not support additional content.")
    told = body.get("attachments") or []
    if files != 1 or len(told) != 1:
        raise Refused(400, 50160, "Voice messages must have a single audio attachment.")
    try:
        curve = base64.b64decode(str(told[0].get("waveform") or ""), validate=True)
    except ValueError:
        curve = b""
    if not isinstance(told[0].get("duration_secs"), float) or told[0]["duration_secs"] <= 0 or not 1 <= len(curve) <= 256:
        raise Refused(400, 50161, "Voice messages must have supporting metadata.")


def check_nonce(nonce: Any) -> None:
    if nonce is not None and len(str(nonce)) > 25:
        raise Refused(400, INVALID, "Invalid Form Body: nonce")


def check_components(rows: Any) -> list[dict[str, Any]]:
    """Return the buttons of a message's rows, which must be what Discord takes."""
    if not isinstance(rows, list) or len(rows) > 5:
        raise Refused(400, INVALID, "Invalid Form Body: components: Must be 5 or fewer in length.")
    for row in rows:
        if row.get("type") != 1 or not 1 <= len(row.get("components") or ()) <= 5:
            raise Refused(400, INVALID, "Invalid Form Body: components: BASE_TYPE_BAD_LENGTH")
    buttons = [button for row in rows for button in row["components"]]
    for button in buttons:
        if button.get("type") != 2 or button.get("style") not in {1, 2, 3, 4}:
            raise Refused(400, INVALID, "Invalid Form Body: components: style")
        if not 1 <= len(button.get("label", "")) <= 80 or not 1 <= len(button.get("custom_id", "")) <= 100:
            raise Refused(400, INVALID, "Invalid Form Body: components: BASE_TYPE_BAD_LENGTH")
    if len({button["custom_id"] for button in buttons}) < len(buttons):
        raise Refused(400, INVALID, "Invalid Form Body: components: COMPONENT_CUSTOM_ID_DUPLICATED")
    return buttons


def check_commands(commands: Any) -> list[dict[str, Any]]:
    """Return commands as Discord keeps them: with the defaults that were not given."""
    if not isinstance(commands, list) or len(commands) > 100:
        raise Refused(400, 30032, "Maximum number of application commands reached (100)")
    if len({one.get("name") for one in commands}) < len(commands):
        raise Refused(400, INVALID, "Invalid Form Body: APPLICATION_COMMANDS_DUPLICATE_NAME")
    for one in commands:
        _check_named(one)
        options = one.get("options", [])
        for option in options:
            _check_named(option)
        if len(options) > 25 or any(option.get("type") not in range(3, 12) for option in options):
            raise Refused(400, INVALID, "Invalid Form Body: options")
    defaults = {"version": "1", "default_member_permissions": None, "nsfw": False, "application_id": BOT, "type": 1}
    return [{"id": str(number), **defaults, **_stored(one)} for number, one in enumerate(commands, 1)]


def _check_named(one: dict[str, Any]) -> None:
    name = one.get("name", "")
    if not _COMMAND.fullmatch(name) or name != name.lower() or not 1 <= len(one.get("description", "")) <= 100:
        raise Refused(400, INVALID, f"Invalid Form Body: {name!r}: STRING_TYPE_REGEX")


def _stored(command: dict[str, Any]) -> dict[str, Any]:
    options = [{key: value for key, value in one.items() if key != "required" or value} for one in command.get("options", [])]
    kept = {key: value for key, value in command.items() if key != "options"}
    return {**kept, "options": options} if options else kept
