"""The REST API of the Discord peer (https://discord.com/developers/docs/reference): what it answers, and what it refuses."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.peers.discord_state import (
    BOT,
    INVALID,
    UPLOAD_LIMIT,
    Channel,
    Refused,
    check_commands,
    check_components,
    check_content,
    check_nonce,
    check_voice,
    person,
)

if TYPE_CHECKING:
    from aiohttp import web

    from tests.peers.discord import DiscordPeer

LOUD_EMOJI = re.compile(r"[\x00-\x7f]*[A-Za-z][\x00-\x7f]*")
EPHEMERAL = 1 << 6
CONTENT_LIMITED = 1 << 19
SILENT = 1 << 12


@dataclass
class Asked:
    """A call: its form, such as ``POST channels/*/messages``, the parts of its path, and what came with it."""

    call: str
    parts: list[str]
    query: Any
    body: Any
    files: list[tuple[str, bytes]]


async def asked_of(request: web.Request) -> Asked:
    parts = request.match_info["path"].split("/")
    body: Any = {}
    files: list[tuple[str, bytes]] = []
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            content = bytes(await part.read())
            if part.name == "payload_json":
                body = json.loads(content)
            else:
                files.append((part.filename or "", content))
    elif text := await request.text():
        body = json.loads(text)
    return Asked(f"{request.method} {'/'.join(_forms(parts))}", parts, request.query, body, files)


def _forms(parts: list[str]) -> list[str]:
    free = {2} if parts[0] == "interactions" else {5} if "reactions" in parts else set()
    return ["*" if part.isdigit() or place in free else part for place, part in enumerate(parts)]


class Rest:
    def __init__(self, peer: DiscordPeer) -> None:
        self.peer = peer
        self.commands: list[dict[str, Any]] = []
        self.menu_changes = 0
        self._nonces: dict[tuple[str, str], dict[str, Any]] = {}
        self._windows: dict[str, tuple[int, float]] = {}

    def forget_nonces(self) -> None:
        self._nonces.clear()

    async def answer(self, asked: Asked) -> tuple[int, Any]:
        match asked.call.split(" ")[1].split("/")[0]:
            case "channels":
                return await self._channels(asked, self._channel(asked.parts[1]))
            case "interactions":
                return await self._callback(asked)
            case _:
                return self._facts(asked)

    def _facts(self, asked: Asked) -> tuple[int, Any]:
        match asked.call:
            case "GET users/@me":
                return 200, person(BOT, "homebody", bot=True)
            case "GET oauth2/applications/@me":
                owner = person("1", "owner")
                facts = {"id": BOT, "name": "homebody", "icon": None, "description": "", "owner": owner, "team": None}
                flags = CONTENT_LIMITED if self.peer.message_content_allowed else 0
                return 200, {**facts, "bot_public": False, "bot_require_code_grant": False, "verify_key": "k", "flags": flags}
            case "POST users/@me/channels":
                return 200, self.peer.dm(str(asked.body["recipient_id"])).shown()
            case "GET applications/*/commands":
                return 200, self.commands
            case "PUT applications/*/commands":
                self.commands = check_commands(asked.body)
                self.menu_changes += 1
                return 200, self.commands
        raise Refused(404, 0, "404: Not Found")

    async def _channels(self, asked: Asked, channel: Channel) -> tuple[int, Any]:
        form = asked.call.replace(" channels/*", " ")
        match form:
            case "GET ":
                return 200, channel.shown()
            case "GET /messages":
                return 200, self._history(channel, asked.query)
            case "POST /typing":
                self.peer.typed.append(channel.id)
                return 204, None
            case "POST /messages":
                return 200, await self._create(channel, asked)
        if form == "POST /messages/*/threads":
            return 201, await self._open_thread(channel, self._found(channel, asked.parts[3]), asked.body)
        if len(asked.parts) > 3:
            return await self._message(form, asked, channel, self._found(channel, asked.parts[3]))
        raise Refused(404, 0, "404: Not Found")

    async def _message(self, form: str, asked: Asked, channel: Channel, message: dict[str, Any]) -> tuple[int, Any]:
        match form:
            case "GET /messages/*":
                return 200, self.peer.links.fresh(message)
            case "PATCH /messages/*":
                return 200, self._edit(message, asked.body)
            case "DELETE /messages/*":
                if message["author"]["id"] != BOT:
                    raise Refused(403, 50013, "Missing Permissions")
                await self.peer.delete(message["id"])
                return 204, None
        if "reactions" in asked.parts:
            return self._reaction(form, asked, message)
        raise Refused(404, 0, "404: Not Found")

    def _reaction(self, form: str, asked: Asked, message: dict[str, Any]) -> tuple[int, Any]:
        match form:
            case "GET /messages/*/reactions/*":
                if not 1 <= int(asked.query.get("limit", "25")) <= 100:
                    raise Refused(400, INVALID, "Invalid Form Body")
                people = self.peer.reacted.get((message["id"], unquote(asked.parts[5])), [])
                return 200, [{"id": one, "username": f"name{one}", "bot": False} for one in people]
            case "PUT /messages/*/reactions/*/@me":
                emoji = unquote(asked.parts[5])
                if LOUD_EMOJI.fullmatch(emoji) and not re.fullmatch(r"\w+:\d+", emoji):
                    raise Refused(400, 10014, "Unknown Emoji")
                if emoji not in self._own(message):
                    message["reactions"].append({"emoji": {"id": None, "name": emoji}, "count": 1, "me": True})
                return 204, None
            case "DELETE /messages/*/reactions/*/@me":
                emoji = unquote(asked.parts[5])
                if emoji not in self._own(message):
                    raise Refused(404, 10014, "Unknown Emoji")
                message["reactions"] = [one for one in message["reactions"] if one["emoji"]["name"] != emoji]
                return 204, None
        raise Refused(404, 0, "404: Not Found")

    async def _open_thread(self, channel: Channel, message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        """Open a thread on a message. It has the message's id."""
        if channel.no_threads:
            raise Refused(403, 50013, "Missing Permissions")
        if channel.type not in {0, 5}:
            raise Refused(400, 50024, "Cannot execute action on this channel type")
        if not 1 <= len(str(body.get("name") or "")) <= 100 or body.get("auto_archive_duration") not in {
            60,
            1440,
            4320,
            10080,
            None,
        }:
            raise Refused(400, INVALID, "Invalid Form Body")
        if message["id"] in self.peer.channels:
            raise Refused(400, 160004, "A thread has already been created for this message")
        thread = self.peer.add(
            Channel(
                message["id"],
                11,
                guild=channel.guild,
                parent=channel.id,
                owner=BOT,
                name=body["name"],
                archive_after=body.get("auto_archive_duration") or 1440,
            )
        )
        await self.peer.sessions.tell_of(thread)
        return thread.shown()

    @staticmethod
    def _own(message: dict[str, Any]) -> list[str]:
        return [one["emoji"]["name"] for one in message["reactions"] if one["me"]]

    def _channel(self, identity: str) -> Channel:
        found = self.peer.channels.get(identity)
        if found is None:
            raise Refused(404, 10003, "Unknown Channel")
        if found.gone or found.hidden:
            raise Refused(403, 50001, "Missing Access")
        return found

    def _found(self, channel: Channel, identity: str) -> dict[str, Any]:
        message = next((one for one in channel.messages if one["id"] == identity), None)
        if message is None:
            raise Refused(404, 10008, "Unknown Message")
        return message

    def _history(self, channel: Channel, query: Any) -> list[dict[str, Any]]:
        limit = int(query.get("limit", 50))
        if not 1 <= limit <= 100:
            raise Refused(400, INVALID, "Invalid Form Body")
        after = query.get("after")
        before = int(query.get("before", 1 << 63))
        messages = [self.peer.links.fresh(one) for one in channel.messages if int(one["id"]) < before]
        if after is not None:
            newer = [one for one in messages if int(one["id"]) > int(after)][:limit]
            return list(reversed([*newer, *self.peer.odd]))
        return list(reversed(messages))[:limit]

    async def _create(self, channel: Channel, asked: Asked) -> dict[str, Any]:
        body, nonce = asked.body, asked.body.get("nonce")
        if channel.denied:
            raise Refused(403, channel.denied, "Missing Permissions")
        if sum(len(content) for _, content in asked.files) > UPLOAD_LIMIT:
            raise Refused(413, 40005, "Request entity too large")
        content = check_content(body, files=len(asked.files))
        check_voice(channel, body, files=len(asked.files))
        check_nonce(nonce)
        check_components(body.get("components", []))
        known = self._nonces.get((channel.id, str(nonce))) if body.get("enforce_nonce") else None
        if known is not None:
            return known
        answered = body.get("message_reference")
        more: dict[str, Any] = {"flags": body.get("flags", 0), "components": body.get("components", [])}
        if answered is not None:
            more["message_reference"] = answered
            there = any(one["id"] == str(answered["message_id"]) for one in channel.messages)
            if not there and answered.get("fail_if_not_exists", True):
                raise Refused(400, INVALID, "Invalid Form Body: message_reference: Unknown message")
        if nonce is not None:
            more["nonce"] = nonce
        self._pace(channel)
        mentions = body.get("allowed_mentions", {})
        if mentions.get("parse") != [] or mentions.get("users"):
            self.peer.pings.append(content)
        message = self.peer.note(channel, person(BOT, "homebody", bot=True), content, **more)
        message["attachments"] = self._uploaded(channel, body, asked.files)
        if not body.get("flags", 0) & SILENT:
            self.peer.notices.append(content)
        if nonce is not None:
            self._nonces[channel.id, str(nonce)] = message
        await self.peer.announce(channel, message)
        return message

    def _uploaded(self, channel: Channel, body: dict[str, Any], files: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
        names = {one["id"]: one["filename"] for one in body.get("attachments", [])}
        if files and sorted(names) != list(range(len(files))):
            raise Refused(400, INVALID, "Invalid Form Body: attachments")
        return [self.peer.links.keep(channel.id, names[number], content) for number, (_, content) in enumerate(files)]

    def _pace(self, channel: Channel) -> None:
        """Allow ``limit`` messages in a ``window``, which begins with the first of them."""
        if self.peer.limit is None:
            return
        used, left = self._window(channel)
        if used >= self.peer.limit:
            self.peer.too_many += 1
            raise too_many(round(left, 3) + 0.001)
        self._windows[channel.id] = (used + 1, time.monotonic() + left)

    def fill(self, channel: Channel) -> None:
        """Use up the limit of a channel, as another program with the same token does."""
        self._windows[channel.id] = (self.peer.limit or 0, time.monotonic() + self.peer.window)

    def _window(self, channel: Channel) -> tuple[int, float]:
        """Return how many messages were taken in the present window, and the seconds that are left of it."""
        used, until = self._windows.get(channel.id, (0, 0.0))
        left = until - time.monotonic()
        return (used, left) if left > 0 else (0, self.peer.window)

    def headers(self, asked: Asked) -> dict[str, str]:
        """Return what tells a client of its rate limit."""
        channel = self.peer.channels.get(asked.parts[1]) if asked.call == "POST channels/*/messages" else None
        if self.peer.limit is None or channel is None:
            return {}
        used, left = self._window(channel)
        return {
            "X-RateLimit-Bucket": "b1",
            "X-RateLimit-Limit": str(self.peer.limit),
            "X-RateLimit-Remaining": str(self.peer.limit - used),
            "X-RateLimit-Reset": str(time.time() + left),
            "X-RateLimit-Reset-After": f"{left + 0.0005:.3f}",
        }

    def _edit(self, message: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        if message["author"]["id"] != BOT:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        if "content" in body:
            message["content"] = check_content(body, files=len(message["attachments"]))
        if "components" in body:
            check_components(body["components"])
            message["components"] = body["components"]
        message["edited_timestamp"] = datetime.now(UTC).isoformat()
        return message

    async def _callback(self, asked: Asked) -> tuple[int, Any]:
        found = self.peer.interactions.get(asked.parts[1])
        if asked.call != "POST interactions/*/*/callback" or found is None or found.token != asked.parts[2] or found.late:
            raise Refused(404, 10062, "Unknown interaction")
        if found.answer is not None:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        kind, data = asked.body.get("type"), asked.body.get("data", {})
        if kind not in {4, 5, 6, 7} or (kind in {6, 7} and found.kind != 3):
            raise Refused(400, INVALID, "Invalid Form Body: type")
        if kind == 4:
            content = check_content(data, files=0)
            if data.get("flags", 0) & EPHEMERAL:
                self.peer.whispers.append(content)
            else:
                self.peer.note(found.channel, person(BOT, "homebody", bot=True), content)
        if kind == 7 and found.message is not None:
            self._edit(found.message, data)
        found.answer = asked.body
        found.taken.set()
        return 204, None


def too_many(seconds: float, *, everywhere: bool = False) -> Refused:
    scope = {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"} if everywhere else {"X-RateLimit-Scope": "user"}
    headers = {"Via": "1.1 google", "Retry-After": str(seconds), **scope}
    return Refused(429, 0, "You are being rate limited.", headers, retry_after=seconds, **{"global": everywhere})
