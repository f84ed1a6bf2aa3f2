"""Slack on loopback: the Web API and Socket Mode, as strict as its documentation (https://docs.slack.dev).

It keeps channels as the people in them see them, which makes it the oracle of what was said and how often.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import WSMsgType, web

if TYPE_CHECKING:
    from collections.abc import Callable

BOT_TOKEN = "xoxb-peer-on-loopback"
APP_TOKEN = "xapp-peer-on-loopback"
BOT, TEAM = "UBOT00001", "T0HOME001"
LONGEST = 40_000
PING = re.compile(r"<(!|@U|@W|!subteam)")
ATTEMPTS = 3


class Refused(Exception):
    def __init__(self, code: str, status: int = 200, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(code)
        self.status = status
        self.headers = headers or {}
        self.body = {"ok": False, "error": code, **more}


@dataclass
class Fault:
    """What goes wrong with the next calls of a method.

    kind: ``drop_before`` and ``drop_after`` cut the connection without or with the effect; ``status`` and ``status_after`` answer
    with ``code`` without or with the effect; ``retry_after`` answers 429 with ``seconds``; ``error`` answers with the word ``text``.
    """

    method: str
    kind: str
    times: int = 1
    code: int = 500
    seconds: int = 0
    text: str = ""


@dataclass
class Envelope:
    id: str
    payload: dict[str, Any]
    attempt: int = 0


@dataclass
class SlackPeer:
    """The server. Start it with ``async with``; ``root`` is its address."""

    ack_seconds: float = 3.0
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)
    scopes: set[str] = field(default_factory=lambda: {"chat:write", "history"})
    pings: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    bot_token: str = BOT_TOKEN
    app_token: str = APP_TOKEN

    def __post_init__(self) -> None:
        self.waiting: dict[str, Envelope] = {}
        self.given_up: list[str] = []
        self.connections = 0
        self.port = 0
        self._ids = itertools.count(1)
        self._last = 0
        self._tickets: set[str] = set()
        self._sockets: list[web.WebSocketResponse] = []
        self._news = asyncio.Condition()
        self._timers: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None

    # -- what a test does and sees -----------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def dm(self, user: str) -> str:
        """Return the id of a person's private channel."""
        channel = self.people.setdefault(user, f"D{len(self.people):08d}")
        self.messages.setdefault(channel, [])
        return channel

    async def say(self, user: str, text: str, *, channel: str = "", thread: str = "", **more: Any) -> str:
        """Let somebody write, in private unless a channel is given; return the message's time stamp."""
        place = channel or self.dm(user)
        message = self._note(place, {"user": user, "text": text, **({"thread_ts": thread} if thread else {}), **more})
        kind = "im" if place.startswith("D") else "channel"
        await self.emit({**message, "channel": place, "channel_type": kind, "event_ts": message["ts"]})
        if not channel or f"<@{BOT}>" not in text:
            return str(message["ts"])
        await self.emit({**message, "type": "app_mention", "channel": place, "event_ts": message["ts"]})
        return str(message["ts"])

    async def emit(self, event: dict[str, Any]) -> None:
        """Send any event, in an envelope of its own."""
        payload = {
            "team_id": TEAM,
            "api_app_id": "A1",
            "type": "event_callback",
            "event_id": f"Ev{next(self._ids)}",
            "event": event,
        }
        envelope = Envelope(f"env-{next(self._ids)}", payload)
        self.waiting[envelope.id] = envelope
        await self._deliver(envelope)

    def fault(self, method: str, kind: str, *, times: int = 1, code: int = 500, seconds: int = 0, text: str = "") -> None:
        self.faults.append(Fault(method, kind, times, code, seconds, text))

    def said(self, channel: str, *, thread: str | None = None) -> list[str]:
        """Return what the app said in a channel, or in one thread of it."""
        return [
            one["text"]
            for one in self.messages.get(channel, [])
            if one["user"] == BOT and (thread is None or one.get("thread_ts") == thread)
        ]

    def count(self, method: str) -> int:
        return sum(1 for name, _ in self.calls if name == method)

    async def refresh(self) -> None:
        """Ask all connections to be opened anew, as Slack does every few hours, and close them soon after."""
        for socket in list(self._sockets):
            await socket.send_str(json.dumps({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}}))

    async def cut(self) -> None:
        """Cut all connections, as a router does."""
        for socket in list(self._sockets):
            if socket._req is not None and socket._req.transport is not None:
                socket._req.transport.abort()

    async def until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self._web)
        app.router.add_get("/link", self._link)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    # -- Socket Mode -------------------------------------------------------------------------------------------------

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden(text="the ticket was used")
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.append(socket)
        self.connections += 1
        hello = {"type": "hello", "num_connections": len(self._sockets), "connection_info": {"app_id": "A1"}, "debug_info": {}}
        await socket.send_str(json.dumps(hello))
        for envelope in list(self.waiting.values()):
            await self._deliver(envelope)
        await self._changed()
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            answer = json.loads(frame.data)
            if self.waiting.pop(answer.get("envelope_id"), None) is None:
                await socket.close(code=1002, message=b"no such envelope")
            await self._changed()
        self._sockets.remove(socket)
        return socket

    async def _deliver(self, envelope: Envelope) -> None:
        if not self._sockets:
            return
        frame = {
            "type": "events_api",
            "envelope_id": envelope.id,
            "payload": envelope.payload,
            "accepts_response_payload": False,
            "retry_attempt": envelope.attempt,
            "retry_reason": "timeout" if envelope.attempt else "",
        }
        try:
            await self._sockets[-1].send_str(json.dumps(frame))
        except ConnectionError:
            return
        timer = asyncio.ensure_future(self._again(envelope))
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    async def _again(self, envelope: Envelope) -> None:
        """Offer an envelope again that was not acknowledged in time, under a new name, and give it up at last."""
        await asyncio.sleep(self.ack_seconds)
        if self.waiting.pop(envelope.id, None) is None:
            return
        if envelope.attempt >= ATTEMPTS:
            self.given_up.append(envelope.id)
            return
        following = Envelope(f"env-{next(self._ids)}", envelope.payload, envelope.attempt + 1)
        self.waiting[following.id] = following
        await self._deliver(following)
        await self._changed()

    # -- Web API -----------------------------------------------------------------------------------------------------

    async def _web(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        self.calls.append((method, arguments))
        fault = next((one for one in self.faults if one.method == method and one.times > 0), None)
        if fault is not None:
            fault.times -= 1
        try:
            self._authorise(request, method)
            self._break(fault, request, "")
            result = await self._answer(method, arguments)
            self._break(fault, request, "_after")
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status, headers=refused.headers)
        finally:
            await self._changed()
        return web.json_response({"ok": True, **result})

    def _authorise(self, request: web.Request, method: str) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        wanted = self.app_token if method == "apps.connections.open" else self.bot_token
        if token != wanted:
            raise Refused("not_allowed_token_type" if token in {self.app_token, self.bot_token} else "invalid_auth")

    def _break(self, fault: Fault | None, request: web.Request, when: str) -> None:
        kind = fault.kind if fault else ""
        if fault is None or (kind in {"drop_after", "status_after"}) != (when == "_after"):
            return
        if fault.kind.startswith("drop"):
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError
        if fault.kind == "retry_after":
            raise Refused("ratelimited", 429, {"Retry-After": str(fault.seconds)})
        raise Refused(fault.text or "internal_error", 200 if fault.kind == "error" else fault.code)

    async def _answer(  # noqa: PLR0911 - one line for each call
        self, method: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        match method:
            case "auth.test":
                return {"user_id": BOT, "team_id": TEAM, "bot_id": "B1", "user": "homebody", "team": "Home", "url": self.root}
            case "apps.connections.open":
                ticket = f"t{next(self._ids)}"
                self._tickets.add(ticket)
                return {"url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}&app_id=A1"}
            case "conversations.open":
                return {"channel": {"id": self.dm(given["users"])}}
            case "assistant.threads.setStatus":
                self.statuses.append(given["status"])
                return {}
            case "chat.postMessage":
                return await self._post(given)
            case "chat.update":
                return self._update(given)
            case "conversations.history" | "conversations.replies":
                return self._read(given, replies=method.endswith("replies"))
            case _:
                raise Refused("unknown_method")

    def _channel(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        if given.get("channel") not in self.messages:
            raise Refused("channel_not_found")
        return self.messages[given["channel"]]

    async def _post(self, given: dict[str, Any]) -> dict[str, Any]:
        there = self._channel(given)
        thread = given.get("thread_ts")
        if thread and not any(one["ts"] == thread for one in there):
            raise Refused("thread_not_found")
        message: dict[str, Any] = {"user": BOT, "bot_id": "B1", "text": self._text(given)}
        if thread:
            message["thread_ts"] = thread
        if given.get("metadata"):
            metadata = given["metadata"] if isinstance(given["metadata"], dict) else json.loads(given["metadata"])
            if set(metadata) != {"event_type", "event_payload"}:
                raise Refused("metadata_must_be_sent_with_event_type_and_payload")
            message["metadata"] = metadata
        if str(given.get("unfurl_links", "")).lower() not in {"0", "false"}:
            message["unfurled"] = True
        noted = self._note(given["channel"], message)
        event = {**noted, "channel": given["channel"], "channel_type": "im", "event_ts": noted["ts"]}
        await self.emit(event)
        return {"channel": given["channel"], "ts": noted["ts"], "message": noted}

    def _text(self, given: dict[str, Any]) -> str:
        text = given.get("text") or ""
        if not text.strip():
            raise Refused("no_text")
        if len(text) > LONGEST:
            raise Refused("msg_too_long")
        if PING.search(text):
            self.pings.append(text)
        return str(text)

    def _update(self, given: dict[str, Any]) -> dict[str, Any]:
        message = next((one for one in self._channel(given) if one["ts"] == given.get("ts")), None)
        if message is None:
            raise Refused("message_not_found")
        if message["user"] != BOT:
            raise Refused("cant_update_message")
        message["text"] = self._text(given)
        return {"channel": given["channel"], "ts": message["ts"], "text": message["text"]}

    def _read(self, given: dict[str, Any], *, replies: bool) -> dict[str, Any]:
        if "history" not in self.scopes:
            raise Refused("missing_scope", needed="channels:history", provided="chat:write")
        there = self._channel(given)
        if replies:
            found = [one for one in there if given["ts"] in {one["ts"], one.get("thread_ts")}]
        else:
            found = [one for one in reversed(there) if "thread_ts" not in one or one["thread_ts"] == one["ts"]]
        found = [one for one in found if float(one["ts"]) > float(given.get("oldest") or 0)]
        start, limit = int(given.get("cursor") or 0), min(int(given.get("limit") or 100), 999)
        page = found[start : start + limit]
        if str(given.get("include_all_metadata", "")).lower() not in {"1", "true"}:
            page = [{key: value for key, value in one.items() if key != "metadata"} for one in page]
        more = start + limit < len(found)
        return {"messages": page, "has_more": more, "response_metadata": {"next_cursor": str(start + limit) if more else ""}}

    def _note(self, channel: str, message: dict[str, Any]) -> dict[str, Any]:
        self._last = max(self._last + 1, int(time.time() * 1_000_000))
        noted = {"type": "message", "team": TEAM, **message, "ts": f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"}
        self.messages.setdefault(channel, []).append(noted)
        return noted

    async def _changed(self) -> None:
        async with self._news:
            self._news.notify_all()


async def _arguments(request: web.Request) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        arguments.update(await request.json())
    elif request.method == "POST":
        arguments.update({key: str(value) for key, value in (await request.post()).items()})
    return arguments
