"""A Matrix homeserver on loopback: the client-server API that a bot uses, as strict as its specification (https://spec.matrix.org).

In a test it is an async context manager.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from tests.patience import PATIENCE
from tests.peers.failing import cut, failing
from tests.peers.matrix_state import BOT, PASSWORD, SERVER, Homeserver, Refused, Room
from tests.peers.mood import Mood
from tests.peers.site import Site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TOKEN = "syt_peer_on_loopback"
DEVICE = "PEERDEVICE"
_V3 = "/_matrix/client/v3"


@dataclass
class Fault:
    """What goes wrong with the next requests that contain ``where``: see ``tests.peers.slack.Fault``."""

    where: str
    kind: str
    times: int = 1
    code: int = 500
    errcode: str = "M_UNKNOWN"
    seconds: float = 0


@dataclass
class MatrixPeer:
    """The server. Start it with ``async with``; ``root`` is its address."""

    port: int = 0
    mood: Mood = field(default_factory=Mood)
    faults: list[Fault] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    timeline: int = 50
    """The most events of a room that a sync gives, whatever is asked for."""

    def __post_init__(self) -> None:
        self.home = Homeserver(self.mood.start(1))
        self.home.devices[TOKEN] = (BOT, DEVICE)
        self._news = asyncio.Condition()
        self._site = Site()
        self._syncing: set[asyncio.Task[Any]] = set()
        self.extra: list[dict[str, Any]] = []
        """Malformed parts that are merged into the next sync."""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        bad_day = failing(lambda request: self.mood if request.path.startswith("/_matrix/client/v3/rooms") else None, _words)
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[bad_day])
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.port = await self._site.open(app, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._site.close()

    async def go_away(self) -> None:
        await self._site.away()

    async def come_back(self) -> None:
        await self._site.back()

    async def cut(self) -> None:
        """Cut the connections that wait for news."""
        for task in list(self._syncing):
            task.cancel()

    def fault(self, where: str, kind: str, **more: Any) -> None:
        self.faults.append(Fault(where, kind, **more))

    def count(self, where: str) -> int:
        return sum(1 for one in self.calls if where in one)

    async def changed(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    # -- people ------------------------------------------------------------------------------------------------------

    async def say(self, room: Room, person: str, text: str, *, kind: str = "m.room.message", **more: Any) -> str:
        content = {"msgtype": "m.text", "body": text, "m.mentions": {}, **more}
        event = self.home.add(room, person, kind, content)
        await self.changed()
        return str(event["event_id"])

    async def put(self, room: Room, person: str, kind: str, content: dict[str, Any], state_key: str | None = None) -> str:
        event = self.home.add(room, person, kind, content, state_key=state_key)
        await self.changed()
        return str(event["event_id"])

    def said(self, room: Room) -> list[str]:
        return [str(one["content"]["body"]) for one in self.home.shown(room)]

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        where = request.path
        await self.mood.late()
        self.calls.append(f"{request.method} {where}")
        fault = next((one for one in self.faults if one.where in self.calls[-1] and one.times > 0), None)
        if fault is not None:
            fault.times -= 1
        try:
            await broken_by(fault, request, "before")
            answer = await self._routed(request, where)
            await broken_by(fault, request, "after")
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status)
        finally:
            await self.changed()
        return answer if isinstance(answer, web.Response) else web.json_response(self.mood.more(answer))

    async def _routed(self, request: web.Request, where: str) -> Any:
        if where == "/_matrix/client/versions":
            return {"versions": ["v1.11", "v1.12"]}
        if where == f"{_V3}/login":
            return self._login(await request.json())
        if "access_token" in request.query:
            raise Refused(400, "M_BAD_JSON", "a token in the address ends up in logs")
        device = self._device(request)
        parts = [part for part in request.raw_path.partition("?")[0].split("/") if part]
        names = [_unquoted(part) for part in parts]
        if where.startswith(f"{_V3}/rooms/"):
            return await self._in_room(
                request, device, self.home.room_of(names[4], BOT) if names[5] != "join" else None, names[4:]
            )
        if where.startswith("/_matrix/client/v1/rooms/"):
            return self._relations(self.home.room_of(names[4]), names[6])
        simple: dict[str, Callable[[], Awaitable[Any]]] = {
            f"GET {_V3}/account/whoami": lambda: _ready({"user_id": BOT, "device_id": device}),
            f"GET {_V3}/sync": lambda: self._sync(request),
            f"POST {_V3}/createRoom": lambda: self._create(request),
            "POST /_matrix/media/v3/upload": lambda: self._upload(request),
            f"POST {_V3}/join/{names[-1]}": lambda: _ready(self._join(names[-1])),
            f"POST {_V3}/logout": lambda: self._logout(request),
        }
        found = simple.get(f"{request.method} {where}")
        if found is not None:
            return await found()
        if where.startswith("/_matrix/client/v1/media/download/"):
            return self._download(names[-2], names[-1])
        raise Refused(404, "M_UNRECOGNIZED", f"Unrecognized request {request.method} {where}")

    def _device(self, request: web.Request) -> str:
        found = self.home.devices.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if found is None:
            raise Refused(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.", soft_logout=False)
        return found[1]

    def _login(self, asked: dict[str, Any]) -> dict[str, Any]:
        identity = asked.get("identifier", {})
        if asked.get("type") != "m.login.password" or identity.get("type") != "m.id.user":
            raise Refused(400, "M_UNKNOWN", "unknown login type")
        if identity["user"] not in {BOT, BOT[1:].partition(":")[0]} or asked.get("password") != PASSWORD:
            raise Refused(403, "M_FORBIDDEN", "Invalid username or password")
        device = asked.get("device_id") or f"GIVEN{self.home.number()}"
        token = f"syt_{device}_{self.home.number()}"
        for known in [one for one, (_, held) in self.home.devices.items() if held == device]:
            del self.home.devices[known]
        self.home.devices[token] = (BOT, device)
        return {"user_id": BOT, "device_id": device, "access_token": token, "home_server": SERVER}

    async def _logout(self, request: web.Request) -> dict[str, Any]:
        del self.home.devices[request.headers["Authorization"].removeprefix("Bearer ")]
        return {}

    async def _in_room(self, request: web.Request, device: str, room: Room | None, names: list[str]) -> Any:
        what = names[1]
        if what == "join":
            return self._join(names[0])
        assert room is not None
        answers: dict[str, Callable[[], Any]] = {
            "PUT typing": lambda: self._typing(room, names[2], asked),
            "PUT send": lambda: {"event_id": self.home.send(device, room, names[2], names[3], asked)},
            "PUT redact": lambda: {"event_id": self.home.redact(room, names[2])},
            "POST receipt": lambda: _receipt(room, names[3]),
            "GET messages": lambda: self._messages(room, request),
            "GET event": lambda: _public(_found(room, names[2]), room),
        }
        asked = await request.json() if request.can_read_body else {}
        found = answers.get(f"{request.method} {what}")
        if found is None:
            raise Refused(404, "M_UNRECOGNIZED", f"Unrecognized request {what}")
        return found()

    async def _create(self, request: web.Request) -> dict[str, Any]:
        return {"room_id": self.home.created(await request.json()).id}

    def _join(self, identity: str) -> dict[str, Any]:
        room = self.home.rooms.get(identity)
        rule = {} if room is None else room.state().get(("m.room.join_rules", ""), {}).get("content", {})
        if room is None or (room.membership(BOT) not in {"invite", "join"} and rule.get("join_rule") != "public"):
            raise Refused(403, "M_FORBIDDEN", "You are not invited to this room.")
        if room.membership(BOT) != "join":
            self.home.member(room, BOT, "join")
        return {"room_id": identity}

    def _typing(self, room: Room, person: str, asked: dict[str, Any]) -> dict[str, Any]:
        if person != BOT or not isinstance(asked.get("typing"), bool) or not isinstance(asked.get("timeout"), int):
            raise Refused(400, "M_BAD_JSON", "typing and timeout")
        room.typing.append((person, asked["timeout"]))
        return {}

    def _relations(self, room: Room, target: str) -> dict[str, Any]:
        found = [
            one
            for one in room.events
            if isinstance(one["content"], dict) and (one["content"].get("m.relates_to") or {}).get("event_id") == target
        ]
        return {"chunk": [_public(one, room) for one in found if one["type"] == "m.reaction"]}

    def _messages(self, room: Room, request: web.Request) -> dict[str, Any]:
        if request.query.get("dir") != "b":
            raise Refused(400, "M_MISSING_PARAM", "dir")
        wanted = json.loads(request.query.get("filter", "{}"))
        start = int(request.query["from"][1:]) if "from" in request.query else self.home.position + 1
        end = int(request.query["to"][1:]) if "to" in request.query else 0
        limit = min(int(request.query.get("limit", "10")), 100)
        senders = wanted.get("senders")
        found = [
            one for one in room.events[::-1] if end < one["_pos"] < start and (senders is None or one["sender"] in senders)
        ][:limit]
        answer: dict[str, Any] = {"chunk": [_public(one, room) for one in found], "start": f"t{start}", "state": []}
        if len(found) == limit:
            answer["end"] = f"t{found[-1]['_pos']}"
        return answer

    async def _upload(self, request: web.Request) -> dict[str, Any]:
        media = f"media{self.home.number()}"
        self.home.media[media] = (request.headers.get("Content-Type", ""), await request.read())
        return {"content_uri": f"mxc://{SERVER}/{media}"}

    def _download(self, server: str, media: str) -> web.Response:
        found = self.home.media.get(media)
        if server != SERVER or found is None:
            raise Refused(404, "M_NOT_FOUND", "Not found")
        return web.Response(body=found[1], content_type="application/octet-stream")

    # -- sync --------------------------------------------------------------------------------------------------------

    async def _sync(self, request: web.Request) -> dict[str, Any]:
        wanted = json.loads(request.query.get("filter", "{}"))
        if not wanted.get("room", {}).get("state", {}).get("lazy_load_members"):
            raise Refused(400, "M_BAD_JSON", "this server has rooms of 10,000 members: load them lazily")
        since = request.query.get("since")
        if since is not None and not since.startswith("s"):
            raise Refused(400, "M_UNKNOWN", "Invalid stream token")
        after = int(since[1:]) if since is not None else None
        limit = min(int(wanted["room"]["timeline"]["limit"]), self.timeline)
        told = self._told(after, limit)
        seconds = int(request.query.get("timeout", "0")) / 1000
        if after is not None and seconds and not told.pop("_any"):
            task = asyncio.current_task()
            assert task is not None
            self._syncing.add(task)
            try:
                async with asyncio.timeout(seconds), self._news:
                    await self._news.wait_for(lambda: self._told(after, limit)["_any"])
            except TimeoutError:
                pass
            except asyncio.CancelledError:
                raise cut(request) from None
            finally:
                self._syncing.discard(task)
            told = self._told(after, limit)
        told.pop("_any", None)
        while self.extra:
            merge(told, self.extra.pop(0))
        if after is not None and self.mood.may(0.1):
            told.setdefault("org.example.future", {"events": [{"type": "x"}]})
        return told

    def _told(self, after: int | None, limit: int) -> dict[str, Any]:
        join, invite, leave = {}, {}, {}
        for room in self.home.rooms.values():
            fresh = [one for one in room.events if after is None or one["_pos"] > after]
            membership = room.membership(BOT)
            if membership == "join" and (fresh or after is None):
                join[room.id] = self._joined(room, after, fresh, limit)
            elif membership == "invite" and (fresh or after is None):
                state = [one for one in room.state().values() if one["type"] in {"m.room.create", "m.room.member"}]
                invite[room.id] = {
                    "invite_state": {"events": [_stripped(one) for one in state if one.get("state_key") in {BOT, ""}]}
                }
            elif fresh and membership in {"leave", "ban"} and room.state().get(("m.room.member", BOT)):
                leave[room.id] = {"timeline": {"events": []}, "state": {"events": []}}
        return {
            "next_batch": f"s{self.home.position}",
            "rooms": {"join": join, "invite": invite, "leave": leave},
            "_any": bool(join or invite or leave or self.extra),
        }

    def _joined(self, room: Room, after: int | None, fresh: list[dict[str, Any]], limit: int) -> dict[str, Any]:
        member = room.state().get(("m.room.member", BOT))
        assert member is not None
        if after is not None and member["_pos"] > after:
            fresh = room.events  # newly joined: its history comes with it
        shown = fresh[-limit:]
        limited = len(fresh) > len(shown)
        before = room.state(shown[0]["_pos"] if shown else None)
        writers = {one["sender"] for one in shown} | {BOT}
        state = [
            one
            for (kind, key), one in before.items()
            if (kind != "m.room.member" or key in writers)
            and (after is None or limited or one["_pos"] > after or kind == "m.room.member")
        ]
        told: dict[str, Any] = {
            "timeline": {
                "events": [_public(one, room) for one in shown],
                "limited": limited,
                "prev_batch": f"t{shown[0]['_pos'] if shown else self.home.position}",
            },
            "state": {"events": [_public(one, room) for one in state]},
            "ephemeral": {"events": []},
            "account_data": {"events": []},
        }
        if after is None or limited or any(one["type"] == "m.room.member" for one in fresh):
            others = [key for kind, key in room.state() if kind == "m.room.member" and key != BOT]
            told["summary"] = {
                "m.joined_member_count": room.count("join"),
                "m.invited_member_count": room.count("invite"),
                "m.heroes": others[:5],
            }
        return told


def _found(room: Room, identity: str) -> dict[str, Any]:
    event = room.event(identity)
    if event is None:
        raise Refused(404, "M_NOT_FOUND", "Event not found.")
    return event


def _receipt(room: Room, identity: str) -> dict[str, Any]:
    room.receipts[BOT] = str(_found(room, identity)["event_id"])
    return {}


def _public(event: dict[str, Any], room: Room) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "_pos"} | {"room_id": room.id}


def _stripped(event: dict[str, Any]) -> dict[str, Any]:
    return {key: event[key] for key in ("type", "sender", "state_key", "content")}


def merge(told: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(told.get(key), dict):
            merge(told[key], value)
        elif isinstance(value, list) and isinstance(told.get(key), list):
            told[key] = value + told[key]
        elif not isinstance(told.get(key), dict | list):
            told[key] = value


async def broken_by(fault: Fault | None, request: web.Request, when: str) -> None:
    if fault is None:
        return
    if fault.kind == f"drop_{when}":
        await request.read()
        raise cut(request)
    if fault.kind == ("status" if when == "before" else "status_after"):
        raise Refused(fault.code, fault.errcode, "as you wished")
    if fault.kind == "retry_after" and when == "before":
        raise Refused(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=int(fault.seconds * 1000))


async def _ready(answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def _unquoted(part: str) -> str:
    from urllib.parse import unquote

    return unquote(part)


def _words(_request: web.Request, status: int) -> dict[str, Any]:
    return {"errcode": "M_UNKNOWN", "error": f"Internal server error ({status})"}
