"""Slack on loopback: the Web API, Socket Mode and signed requests, as strict as its documentation (https://docs.slack.dev).

In a test it is an async context manager; ``python tests/peers/slack.py --port 0`` runs it as its own process, where ``/control/``
does what the methods of ``SlackPeer`` do, so that it survives the program under test.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aiohttp import WSMsgType, web

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.patience import PATIENCE
from tests.peers.failing import failing
from tests.peers.mood import Mood
from tests.peers.relay import Socket
from tests.peers.site import Site
from tests.peers.slack_delivery import Delivery, Hook
from tests.peers.slack_methods import METHODS
from tests.peers.slack_people import SlackPeople
from tests.peers.slack_state import APP, BOT, BOT_ID, TEAM, Refused, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["APP_TOKEN", "BOT", "BOT_ID", "BOT_TOKEN", "SIGNING_SECRET", "TEAM", "SlackPeer"]
BOT_TOKEN = "xoxb-peer-on-loopback"
APP_TOKEN = "xapp-peer-on-loopback"
SIGNING_SECRET = "0123456789abcdef0123456789abcdef"
SIGN_IN = "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body>Sign in to Home</body></html>"


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
class SlackPeer(SlackPeople):
    """The server. Start it with ``async with``; ``root`` is its address."""

    ack_seconds: float = 3.0
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    home: Workspace = field(default_factory=Workspace)
    bot_token: str = BOT_TOKEN
    app_token: str = APP_TOKEN
    signing_secret: str = SIGNING_SECRET
    port: int = 0
    mood: Mood = field(default_factory=Mood)
    others: int = 0
    """Connections of other programs with the same app token."""
    signed_out: str = ""
    """How files are refused to whom may not read them: ``page`` or ``redirect``, and ``elsewhere`` for a redirection to a stranger."""

    def __post_init__(self) -> None:
        self.connections = 0
        self.file_requests: list[str] = []
        self._ids = itertools.count(self.mood.start(1))
        self._tickets: set[str] = set()
        self._news = asyncio.Condition()
        self._site = Site()
        self.delivery = Delivery(lambda: self.ack_seconds, self.signing_secret, self._changed)
        home, out = self.home, self.delivery
        self.messages, self.people, self.scopes, self.pings = home.messages, home.people, home.scopes, home.pings
        self.statuses, self.dm, self.said = home.statuses, home.dm, home.said
        self.waiting, self.given_up, self.responses = out.waiting, out.given_up, out.responses

    # -- what a test does and sees -----------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def call_at(self, hook: str | Hook | None) -> None:
        """Tell the app by requests from now on, to an address or a function; None for sockets."""
        self.delivery.hook = hook

    def fault(self, method: str, kind: str, *, times: int = 1, code: int = 500, seconds: int = 0, text: str = "") -> None:
        self.faults.append(Fault(method, kind, times, code, seconds, text))

    def count(self, method: str) -> int:
        return sum(1 for name, _ in self.calls if name == method)

    async def refresh(self) -> None:
        """Ask all connections to be opened anew, as Slack does every few hours, and close them soon after."""
        for socket in list(self.delivery.sockets):
            await socket.send_str(json.dumps({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}}))

    async def cut(self) -> None:
        """Cut all connections, as a router does."""
        for socket in list(self.delivery.sockets):
            socket.cut()

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    async def __aenter__(self) -> Self:
        bad_day = failing(lambda request: self.mood if request.path.startswith(("/api/", "/upload/")) else None, _words)
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[bad_day])
        app.router.add_route("*", "/api/{method}", self._web)
        app.router.add_get("/link", self._link)
        app.router.add_get("/files-pri/{file}/{name}", self._download)
        app.router.add_get("/signin", self._sign_in)
        app.router.add_post("/upload/v1/{file}", self._upload)
        app.router.add_post("/control/{what}", self._control)
        self.port = await self._site.open(app, self.port)
        self.home.uploads_at = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.delivery.stop()
        await self._site.close()

    async def go_away(self) -> None:
        """Let nobody reach this server."""
        await self._site.away()

    async def come_back(self) -> None:
        """Let it be reached again, at the same port."""
        await self._site.back()

    # -- Socket Mode -------------------------------------------------------------------------------------------------

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden(text="the ticket was used")
        self._tickets.discard(ticket)
        socket = Socket()
        await socket.prepare(request)
        sockets = self.delivery.sockets
        sockets.append(socket)
        self.connections += 1
        open_now = len(sockets) + self.others
        hello = {"type": "hello", "num_connections": open_now, "connection_info": {"app_id": APP}, "debug_info": {}}
        await socket.send_str(json.dumps(hello))
        for envelope in list(self.waiting.values()):
            await self.delivery.send(envelope)
        await self._changed()
        try:
            async for frame in socket:
                if frame.type is not WSMsgType.TEXT:
                    break
                if not self.delivery.acknowledged(json.loads(frame.data)):
                    await socket.close(code=1002, message=b"no such envelope")
                await self._changed()
        finally:
            sockets.remove(socket)
            await self._changed()
        return socket

    # -- Web API -----------------------------------------------------------------------------------------------------

    async def _web(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        await self.mood.late()  # before it is counted, so that a call that was counted has its effect
        self.calls.append((method, arguments))
        fault = next((one for one in self.faults if one.method == method and one.times > 0), None)
        if fault is not None:
            fault.times -= 1
        events: list[dict[str, Any]] = []
        try:
            self._authorise(request, method)
            self._break(fault, request, "")
            result = self._answer(method, arguments, events)
            for event in events:
                await self.emit(event)
            self._break(fault, request, "_after")
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status, headers=refused.headers)
        finally:
            await self._changed()
        return web.json_response({**self.mood.more(result), "ok": True}, headers={"X-OAuth-Scopes": self.home.granted()})

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

    def _answer(self, method: str, given: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
        if method == "apps.connections.open":
            ticket = f"t{next(self._ids)}"
            self._tickets.add(ticket)
            return {"url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}&app_id={APP}"}
        if method not in METHODS:
            raise Refused("unknown_method")
        return METHODS[method](self.home, given, events)

    # -- files -------------------------------------------------------------------------------------------------------

    async def _download(self, request: web.Request) -> web.StreamResponse:
        token, file = request.headers.get("Authorization", "").removeprefix("Bearer "), request.match_info["file"]
        self.file_requests.append(token)
        if self.signed_out == "page" or token != self.bot_token:
            return web.Response(text=SIGN_IN, content_type="text/html")
        if self.signed_out:
            elsewhere = f"http://localhost:{self.port}/signin" if self.signed_out == "elsewhere" else "/signin?redir=%2Ffiles"
            raise web.HTTPFound(elsewhere)
        answer = web.StreamResponse(headers={"Content-Type": self.home.files[file]["mimetype"] or "application/octet-stream"})
        if request.query.get("sized"):
            answer.content_length = len(self.home.contents[file])
        await answer.prepare(request)
        await answer.write(self.home.contents[file])
        return answer

    async def _sign_in(self, request: web.Request) -> web.Response:
        self.file_requests.append("signin:" + request.headers.get("Authorization", ""))
        return web.Response(text=SIGN_IN, content_type="text/html")

    async def _upload(self, request: web.Request) -> web.Response:
        upload = self.home.uploads.get(request.match_info["file"])
        content = await request.read()
        if "Authorization" in request.headers or upload is None or len(content) != upload["length"]:
            return web.Response(status=400, text="not this")
        upload["content"] = content
        return web.Response(text=f"OK - {len(content)}")

    # -- control from another process --------------------------------------------------------------------------------

    async def _control(self, request: web.Request) -> web.Response:
        asked: dict[str, Any] = await request.json() if request.can_read_body else {}
        answer: Any = None
        match request.match_info["what"]:
            case "say":
                answer = await self.say(asked.pop("user"), asked.pop("text"), **asked)
            case "edit" | "react" | "press" | "command" as what:
                await getattr(self, what)(**asked)
            case "said":
                answer = self.said(asked["channel"] if "channel" in asked else self.dm(asked["user"]))
            case "fault":
                self.fault(asked.pop("method"), asked.pop("kind"), **asked)
            case "call_at":
                self.call_at(asked["address"])
            case "cut":
                await self.cut()
            case "state":
                answer = {
                    "waiting": len(self.waiting),
                    "calls": [name for name, _ in self.calls],
                    "connections": self.connections,
                }
            case what:
                raise web.HTTPNotFound(text=f"no control {what}")
        return web.json_response(answer)

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


def _words(_: web.Request, status: int) -> dict[str, Any]:
    return {"ok": False, "error": "internal_error" if status == 500 else "service_unavailable"}


async def _main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=0)
    given = options.parse_args()
    async with SlackPeer(port=given.port) as peer:
        told = {"root": peer.root, "botToken": peer.bot_token, "appToken": peer.app_token, "signingSecret": peer.signing_secret}
        print(json.dumps(told), flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_main())
    except KeyboardInterrupt:
        sys.exit(0)
