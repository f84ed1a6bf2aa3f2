"""Discord on loopback: the gateway and the REST API, as strict as its documentation (https://discord.com/developers/docs).

It keeps channels as the people in them see them, which makes it the oracle of what was said and how often.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from aiohttp import WSMsgType, web

from tests.peers.discord_state import Channel, Fault, Refused, Session, person

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "peer-on-loopback.discord.token"
BOT = "900000000000000001"
EPOCH_MS = 1_420_070_400_000
MESSAGE_CONTENT = 1 << 15
SUPPRESS_EMBEDS = 1 << 2
LONGEST = 2000


@dataclass
class DiscordPeer:
    """The server. Start it with ``async with``; ``root`` and ``gateway`` are its addresses."""

    token: str = TOKEN
    message_content_allowed: bool = True
    heartbeat_ms: int = 30_000
    limit: int | None = None
    calls: list[tuple[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    channels: dict[str, Channel] = field(default_factory=dict)
    pings: list[str] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.identified = self.resumed = 0
        self._nonces: dict[tuple[str, str], dict[str, Any]] = {}
        self._ids = itertools.count(1)
        self._last = 0
        self._news = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self._sent_at: dict[str, list[float]] = {}
        self.port = 0

    # -- what a test does and sees -----------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v10"

    @property
    def gateway(self) -> str:
        return f"ws://127.0.0.1:{self.port}/gateway"

    def dm(self, user: str) -> Channel:
        found = next((one for one in self.channels.values() if one.person == user), None)
        return found or self._add(Channel(self.snowflake(), 1, person=user))

    def guild_channel(self, guild: str, *, parent: str = "") -> Channel:
        return self._add(Channel(self.snowflake(), 11 if parent else 0, guild=guild, parent=parent))

    async def say(
        self,
        user: str,
        text: str,
        *,
        channel: Channel | None = None,
        mention: bool = False,
        reply_to: str | None = None,
        bot: bool = False,
        kind: int = 0,
        name: str = "Anna",
    ) -> str:
        """Let somebody write, in private unless a channel is given; return the message's id."""
        place = channel or self.dm(user)
        content = f"<@{BOT}> {text}" if mention else text
        message = self._note(place, person(user, name, bot=bot), content, kind=kind)
        message["mentions"] = [person(BOT, "homebody", bot=True)] if mention else []
        if reply_to:
            answered = next(one for one in place.messages if one["id"] == reply_to)
            reference = {"message_id": reply_to, "channel_id": place.id, "type": 0}
            message |= {"message_reference": reference, "referenced_message": answered, "type": 19}
        await self._announce(place, message)
        return str(message["id"])

    async def repeat(self, message_id: str) -> None:
        """Announce a message a second time."""
        for place in self.channels.values():
            for one in place.messages:
                if one["id"] == message_id:
                    await self._announce(place, one)

    def fault(self, call: str, kind: str, *, times: int = 1, code: int = 500, seconds: float = 0) -> None:
        self.faults.append(Fault(call, kind, times, code, seconds))

    def forget_nonces(self) -> None:
        """Let the minutes pass in which Discord compares nonces."""
        self._nonces.clear()

    def transcript(self, channel: Channel) -> list[tuple[str, str]]:
        return [("bot" if one["author"]["bot"] else one["author"]["username"], one["content"]) for one in channel.messages]

    def said(self, channel: Channel) -> list[str]:
        return [text for who, text in self.transcript(channel) if who == "bot"]

    def count(self, call: str) -> int:
        return sum(1 for name, _ in self.calls if name == call)

    async def cut(self) -> None:
        """Cut all gateway connections, as a router does."""
        for session in self.sessions.values():
            if session.socket is not None and session.socket._req is not None and session.socket._req.transport is not None:
                session.socket._req.transport.abort()
            session.socket = None

    async def ask_to_reconnect(self) -> None:
        await self._frames({"op": 7, "d": None})

    async def invalidate(self) -> None:
        frames = [session.socket for session in self.sessions.values() if session.socket]
        self.sessions.clear()
        for socket in frames:
            await socket.send_str(json.dumps({"op": 9, "d": False}))

    async def until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    def snowflake(self) -> str:
        self._last = max(self._last + 1, (int(time.time() * 1000) - EPOCH_MS) << 22)
        return str(self._last)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/gateway", self._gateway)
        app.router.add_route("*", "/api/v10/{path:.*}", self._rest)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    # -- state -------------------------------------------------------------------------------------------------------

    def _add(self, channel: Channel) -> Channel:
        self.channels[channel.id] = channel
        return channel

    def _note(self, place: Channel, author: dict[str, Any], content: str, *, kind: int = 0, **more: Any) -> dict[str, Any]:
        message = {
            "id": self.snowflake(),
            "channel_id": place.id,
            "author": author,
            "content": content,
            "timestamp": datetime.now(UTC).isoformat(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": kind,
            **more,
        }
        place.messages.append(message)
        return message

    async def _announce(self, place: Channel, message: dict[str, Any]) -> None:
        event = {**message, "guild_id": place.guild} if place.guild else message
        for session in self.sessions.values():
            told = event
            if place.guild and not session.intents & MESSAGE_CONTENT and not message["mentions"]:
                told = {**event, "content": ""}
            await self._event(session, "MESSAGE_CREATE", told)
        await self._changed()

    async def _changed(self) -> None:
        async with self._news:
            self._news.notify_all()

    # -- gateway -----------------------------------------------------------------------------------------------------

    async def _event(self, session: Session, name: str, content: dict[str, Any]) -> None:
        frame = {"op": 0, "t": name, "s": len(session.events) + 1, "d": content}
        session.events.append(frame)
        if session.socket is not None and not session.socket.closed:
            await session.socket.send_str(json.dumps(frame))

    async def _frames(self, frame: dict[str, Any]) -> None:
        for session in list(self.sessions.values()):
            if session.socket is not None and not session.socket.closed:
                await session.socket.send_str(json.dumps(frame))

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            await socket.close(code=4012, message=b"Invalid API version")
            return socket
        await socket.send_str(json.dumps({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}}))
        session: Session | None = None
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            asked = json.loads(frame.data)
            if asked.get("op") == 1:
                await socket.send_str(json.dumps({"op": 11, "d": None}))
            else:
                session = await self._asked(socket, session, asked)
        if session is not None and session.socket is socket:
            session.socket = None
        return socket

    async def _asked(self, socket: web.WebSocketResponse, session: Session | None, asked: dict[str, Any]) -> Session | None:
        match asked.get("op"):
            case 2 | 6 if session is not None:
                await socket.close(code=4005, message=b"Already authenticated")
            case 2:
                return await self._identify(socket, asked["d"])
            case 6:
                return await self._resume(socket, asked["d"])
            case 3 | 4 | 8 if session is None:
                await socket.close(code=4003, message=b"Not authenticated")
            case 3 | 4 | 8:
                pass
            case _:
                await socket.close(code=4001, message=b"Unknown opcode")
        return session

    async def _identify(self, socket: web.WebSocketResponse, asked: dict[str, Any]) -> Session | None:
        if asked.get("token") != self.token:
            await socket.close(code=4004, message=b"Authentication failed")
            return None
        if asked["intents"] & MESSAGE_CONTENT and not self.message_content_allowed:
            await socket.close(code=4014, message=b"Disallowed intent(s)")
            return None
        self.sessions.clear()
        session = Session(f"s{next(self._ids)}", asked["intents"], socket=socket)
        self.sessions[session.id] = session
        self.identified += 1
        guilds = {one.guild for one in self.channels.values() if one.guild}
        ready = {
            "v": 10,
            "user": person(BOT, "homebody", bot=True),
            "guilds": [{"id": guild, "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self.gateway,
            "application": {"id": BOT, "flags": 0},
        }
        await self._event(session, "READY", ready)
        for guild in guilds:
            await self._event(session, "GUILD_CREATE", self._guild(guild))
        await self._changed()
        return session

    def _guild(self, guild: str) -> dict[str, Any]:
        here = [one for one in self.channels.values() if one.guild == guild]
        return {
            "id": guild,
            "name": "Home",
            "owner_id": "1",
            "roles": [],
            "emojis": [],
            "members": [],
            "member_count": 2,
            "channels": [one.shown() for one in here if not one.parent],
            "threads": [one.shown() for one in here if one.parent],
        }

    async def _resume(self, socket: web.WebSocketResponse, asked: dict[str, Any]) -> Session | None:
        session = self.sessions.get(asked["session_id"])
        if asked.get("token") != self.token:
            await socket.close(code=4004, message=b"Authentication failed")
            return None
        if session is None or asked["seq"] > len(session.events):
            await socket.send_str(json.dumps({"op": 9, "d": False}))
            return None
        session.socket = socket
        self.resumed += 1
        for event in session.events[asked["seq"] :]:
            await socket.send_str(json.dumps(event))
        await self._event(session, "RESUMED", {})
        await self._changed()
        return session

    # -- REST --------------------------------------------------------------------------------------------------------

    async def _rest(self, request: web.Request) -> web.Response:
        parts = request.match_info["path"].split("/")
        call = f"{request.method} {'/'.join('*' if part.isdigit() else part for part in parts)}"
        text = await request.text()
        body = json.loads(text) if text else {}
        self.calls.append((call, body))
        try:
            self._authorise(request)
            fault = self._fault(call)
            self._break(fault, request, "")
            status, result = await self._answer(call, parts, body, request.query)
            self._break(fault, request, "_after")
        except Refused as refused:
            return self._reply(refused.status, refused.body, refused.headers)
        finally:
            await self._changed()
        return self._reply(status, result, {})

    def _reply(self, status: int, body: Any, headers: dict[str, str]) -> web.Response:
        if status == 204:
            return web.Response(status=204, headers=headers)
        return web.Response(
            status=status, body=json.dumps(body).encode(), headers={**headers, "Content-Type": "application/json"}
        )

    def _fault(self, call: str) -> Fault | None:
        for fault in self.faults:
            if fault.call == call and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def _authorise(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bot {self.token}":
            raise Refused(401, 0, "401: Unauthorized")

    def _break(self, fault: Fault | None, request: web.Request, when: str) -> None:
        kind = fault.kind if fault else ""
        if fault is None or (kind in {"drop_after", "status_after"}) != (when == "_after"):
            return
        if kind.startswith("drop"):
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError
        if kind == "retry_after":
            self._too_many(fault.seconds)
        raise Refused(fault.code, 0, "Internal Server Error")

    def _too_many(self, seconds: float) -> None:
        headers = {"Via": "1.1 google", "Retry-After": str(seconds), "X-RateLimit-Scope": "user"}
        raise Refused(429, 0, "You are being rate limited.", headers, retry_after=seconds, **{"global": False})

    async def _answer(  # noqa: PLR0911 - one line for each call
        self, call: str, parts: list[str], body: dict[str, Any], query: Any
    ) -> tuple[int, Any]:
        match call:
            case "GET users/@me":
                return 200, person(BOT, "homebody", bot=True)
            case "GET oauth2/applications/@me":
                owner = person("1", "owner")
                facts = {"id": BOT, "name": "homebody", "icon": None, "description": "", "owner": owner, "team": None}
                return 200, {**facts, "bot_public": False, "bot_require_code_grant": False, "verify_key": "k", "flags": 0}
            case "POST users/@me/channels":
                return 200, self.dm(str(body["recipient_id"])).shown()
            case "GET channels/*":
                return 200, self._channel(parts[1]).shown()
            case "GET channels/*/messages":
                return 200, self._history(self._channel(parts[1]), query)
            case "POST channels/*/typing":
                self.typed.append(self._channel(parts[1]).id)
                return 204, None
            case "POST channels/*/messages":
                return 200, await self._create(self._channel(parts[1]), body)
            case "PATCH channels/*/messages/*":
                return 200, self._edit(self._channel(parts[1]), parts[3], body)
            case _:
                raise Refused(404, 0, "404: Not Found")

    def _channel(self, identity: str) -> Channel:
        found = self.channels.get(identity)
        if found is None:
            raise Refused(404, 10003, "Unknown Channel")
        if found.gone:
            raise Refused(403, 50001, "Missing Access")
        return found

    def _history(self, channel: Channel, query: Any) -> list[dict[str, Any]]:
        limit = int(query.get("limit", 50))
        if not 1 <= limit <= 100:
            raise Refused(400, 50035, "Invalid Form Body")
        after = query.get("after")
        if after is not None:
            return list(reversed([one for one in channel.messages if int(one["id"]) > int(after)][:limit]))
        return list(reversed(channel.messages))[:limit]

    async def _create(self, channel: Channel, body: dict[str, Any]) -> dict[str, Any]:
        content = self._content(body)
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > 25:
            raise Refused(400, 50035, "Invalid Form Body")
        known = self._nonces.get((channel.id, str(nonce))) if body.get("enforce_nonce") else None
        if known is not None:
            return known
        answered = body.get("message_reference")
        more: dict[str, Any] = {"flags": body.get("flags", 0)}
        if answered is not None:
            more["message_reference"] = answered
            there = any(one["id"] == str(answered["message_id"]) for one in channel.messages)
            if not there and answered.get("fail_if_not_exists", True):
                raise Refused(400, 50035, "Invalid Form Body")
        if nonce is not None:
            more["nonce"] = nonce
        self._pace(channel)
        mentions = body.get("allowed_mentions", {})
        if mentions.get("parse") != [] or mentions.get("users"):
            self.pings.append(content)
        message = self._note(channel, person(BOT, "homebody", bot=True), content, **more)
        if not body.get("flags", 0) & 1 << 12:
            self.notices.append(content)
        if nonce is not None:
            self._nonces[channel.id, str(nonce)] = message
        await self._announce(channel, message)
        return message

    def _pace(self, channel: Channel) -> None:
        """Allow ``limit`` messages in five seconds."""
        if self.limit is None:
            return
        now = time.monotonic()
        recent = [at for at in self._sent_at.get(channel.id, []) if now - at < 5]
        if len(recent) >= self.limit:
            self._too_many(round(5 - (now - recent[0]), 3))
        self._sent_at[channel.id] = [*recent, now]

    def _content(self, body: dict[str, Any]) -> str:
        content = body.get("content")
        if not isinstance(content, str) or not content.strip():
            raise Refused(400, 50006, "Cannot send an empty message")
        if len(content) > LONGEST:
            raise Refused(400, 50035, "Invalid Form Body: content: Must be 2000 or fewer in length.")
        return content

    def _edit(self, channel: Channel, identity: str, body: dict[str, Any]) -> dict[str, Any]:
        message = next((one for one in channel.messages if one["id"] == identity), None)
        if message is None:
            raise Refused(404, 10008, "Unknown Message")
        if message["author"]["id"] != BOT:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        message["content"] = self._content(body)
        message["edited_timestamp"] = datetime.now(UTC).isoformat()
        return message
