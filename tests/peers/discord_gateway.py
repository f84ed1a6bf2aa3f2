"""The gateway of the Discord peer: sessions, events by intent, resuming (https://discord.com/developers/docs/events/gateway)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from tests.peers.discord_state import BOT, Channel, Session, person
from tests.peers.relay import Socket

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.peers.discord import DiscordPeer

MESSAGE_CONTENT = 1 << 15
_CONTENT = {"content": "", "attachments": [], "embeds": [], "components": []}


class Gateway:
    def __init__(self, peer: DiscordPeer) -> None:
        self.peer = peer
        self.sessions: dict[str, Session] = {}
        self.identified = self.resumed = self.connections = self.heartbeats = 0
        self.refusals: list[int] = []
        self.presences: list[Any] = []
        self.deaf = False
        """While it is, connections stay open and nothing comes of them, as behind a router that forgot them."""
        self._ids = itertools.count(peer.mood.start(1))
        self._tasks: set[asyncio.Task[None]] = set()

    async def announce(self, name: str, content: dict[str, Any], guild: str = "") -> None:
        """Tell every session of an event that its intents include."""
        for session in self.sessions.values():
            if not session.wants(name, guild):
                continue
            told = {**content, "guild_id": guild} if guild else content
            if guild and "content" in content and not session.intents & MESSAGE_CONTENT and not content.get("mentions"):
                told = {**told, **_CONTENT}
            stranger = self.peer.mood.stranger()
            if stranger is not None:
                await self.event(session, "STAR_RISEN", stranger)
            await self._offered(session, name, self.peer.mood.more(told))
        await self.peer.changed()

    async def _offered(self, session: Session, name: str, told: dict[str, Any]) -> None:
        """Send an event; on a bad day it may come twice, behind later ones, or where a connection ends."""
        mood = self.peer.mood
        failure = mood.failure()
        if failure == "cut before":
            await self.cut()
        for _ in range(1 + (mood.bad and mood.twice())):
            if held := mood.held():
                self._later(self._event_in(held, session, name, told))
            else:
                await self.event(session, name, told)
        if failure == "cut after":
            await self.cut()

    async def _event_in(self, seconds: float, session: Session, name: str, told: dict[str, Any]) -> None:
        await asyncio.sleep(seconds)
        await self.event(session, name, told)
        await self.peer.changed()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Send nothing more."""
        for task in self._tasks:
            task.cancel()

    async def event(self, session: Session, name: str, content: dict[str, Any]) -> None:
        frame = {"op": 0, "t": name, "s": len(session.events) + 1, "d": content}
        session.events.append(json.loads(json.dumps(frame)))
        if session.socket is not None and not session.socket.closed and not self.deaf:
            with contextlib.suppress(ConnectionError):  # it died a moment ago, and may resume
                await session.socket.send_str(json.dumps(frame))

    async def frames(self, frame: dict[str, Any]) -> None:
        for session in list(self.sessions.values()):
            if session.socket is not None and not session.socket.closed:
                await session.socket.send_str(json.dumps(frame))

    async def cut(self) -> None:
        for session in self.sessions.values():
            if session.socket is not None:
                session.socket.cut()
            session.socket = None

    async def invalidate(self) -> None:
        sockets = [session.socket for session in self.sessions.values() if session.socket]
        self.sessions.clear()
        for socket in sockets:
            await socket.send_str(json.dumps({"op": 9, "d": False}))

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve a connection, unless ``refusals`` says otherwise of it: with a status of HTTP, or a code to close it with."""
        self.connections += 1
        refusal = self.refusals.pop(0) if self.refusals else 0
        await self.peer.changed()
        if 0 < refusal < 1000:
            return web.Response(status=refusal)
        socket = Socket()
        await socket.prepare(request)
        if refusal:
            await socket.close(code=refusal)
            return socket
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            await socket.close(code=4012, message=b"Invalid API version")
            return socket
        await socket.send_str(json.dumps({"op": 10, "d": {"heartbeat_interval": self.peer.heartbeat_ms}}))
        session: Session | None = None
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            asked = json.loads(frame.data)
            if self.deaf:
                continue
            if asked.get("op") == 1:
                await socket.send_str(json.dumps({"op": 11, "d": None}))
                self.heartbeats += 1
                await self.peer.changed()
            else:
                session = await self._asked(socket, session, asked)
        if session is not None and session.socket is socket:
            session.socket = None
        return socket

    async def _asked(self, socket: Socket, session: Session | None, asked: dict[str, Any]) -> Session | None:
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

    async def _identify(self, socket: Socket, asked: dict[str, Any]) -> Session | None:
        if asked.get("token") != self.peer.token:
            await socket.close(code=4004, message=b"Authentication failed")
            return None
        if asked["intents"] & MESSAGE_CONTENT and not self.peer.message_content_allowed:
            await socket.close(code=4014, message=b"Disallowed intent(s)")
            return None
        self.presences.append(asked.get("presence"))
        self.sessions.clear()
        session = Session(f"s{next(self._ids)}", asked["intents"], socket=socket)
        self.sessions[session.id] = session
        self.identified += 1
        guilds = {one.guild for one in self.peer.channels.values() if one.guild and not one.hidden}
        ready = {
            "v": 10,
            "user": person(BOT, "homebody", bot=True),
            "guilds": [{"id": guild, "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self.peer.gateway,
            "application": {"id": BOT, "flags": 0},
        }
        await self.event(session, "READY", ready)
        for guild in guilds:
            await self.event(session, "GUILD_CREATE", self._guild(guild))
        await self.peer.changed()
        return session

    def _guild(self, guild: str) -> dict[str, Any]:
        here = [one for one in self.peer.channels.values() if one.guild == guild and not one.gone and not one.hidden]
        return {
            "id": guild,
            "name": "Home",
            "joined_at": self.peer.joined.get(guild, "2024-01-01T00:00:00+00:00"),
            "owner_id": "1",
            "system_channel_id": self.peer.system.get(guild),
            "roles": [],
            "emojis": [],
            "members": [],
            "member_count": 2,
            "channels": [one.shown() for one in here if not one.parent],
            "threads": [one.shown() for one in here if one.parent and not one.archived],
        }

    async def tell_of(self, channel: Channel) -> None:
        """Announce a new channel or thread."""
        name = "THREAD_CREATE" if channel.parent else "CHANNEL_CREATE"
        more = {"newly_created": True} if channel.parent else {}
        await self.announce(name, {**channel.shown(), **more}, channel.guild)

    async def _resume(self, socket: Socket, asked: dict[str, Any]) -> Session | None:
        session = self.sessions.get(asked["session_id"])
        if asked.get("token") != self.peer.token:
            await socket.close(code=4004, message=b"Authentication failed")
            return None
        if session is None or asked["seq"] > len(session.events):
            await socket.send_str(json.dumps({"op": 9, "d": False}))
            return None
        session.socket = socket
        self.resumed += 1
        for event in session.events[asked["seq"] :]:
            await socket.send_str(json.dumps(event))
        await self.event(session, "RESUMED", {})
        await self.peer.changed()
        return session
