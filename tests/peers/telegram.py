"""A Bot API server on loopback, as strict as Telegram's documentation (https://core.telegram.org/bots/api).

It keeps chats as the people in them see them, which makes it the oracle of what was said and how often. In a test it is an
async context manager; ``python tests/peers/telegram.py --port 0`` runs it as its own process, where ``/control/`` does what the
methods of ``TelegramPeer`` do, so that it survives the program under test.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import sys
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.patience import PATIENCE
from tests.peers import telegram_files, telegram_requests
from tests.peers.failing import failing
from tests.peers.mood import Mood
from tests.peers.site import Site
from tests.peers.telegram_hook import Webhook
from tests.peers.telegram_methods import METHODS, Refused
from tests.peers.telegram_people import People
from tests.peers.telegram_state import BOT, Chats

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.telegram_flood import Flood

TOKEN = "1000:AAExampleTokenOfThePeerOnLoopback00"
UPDATE_KINDS = {
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "inline_query",
    "poll",
    "message_reaction",
    "my_chat_member",
    "chat_member",
}
_NOT_BY_DEFAULT = {"chat_member", "message_reaction"}
LONGEST_POLL = 50
_IN_A_LIST = 2
"""How deep an update stands in an answer. It gets its undocumented fields once: asked for again, it is the same."""


@dataclass
class Fault:
    """What goes wrong with the next calls of a method.

    kind: ``drop_before`` and ``drop_after`` cut the connection without or with the effect; ``status`` answers with ``code``
    and no effect; ``retry_after`` answers 429 with ``seconds``; ``delay`` waits ``seconds`` first; ``refuse`` answers ``code``
    with ``text``.
    """

    method: str
    kind: str
    times: int = 1
    code: int = 500
    seconds: float = 0
    text: str = ""


@dataclass
class TelegramPeer(People):
    """The server. Start it with ``async with``; ``root`` is its address."""

    token: str = TOKEN
    port: int = 0
    chats: Chats = field(default_factory=Chats)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    flood: Flood | None = None
    local: bool = False
    mood: Mood = field(default_factory=Mood)
    checked: bool = True
    """Whether requests must be ones that the published types allow; if not, the test fails when the peer ends."""
    answers: dict[str, Any] = field(default_factory=dict)
    """What methods answer in place of what they should."""

    def __post_init__(self) -> None:
        self.wrong: list[str] = []
        self._pending: list[dict[str, Any]] = []
        self._confirmed: list[dict[str, Any]] = []
        self._next_update = self.mood.start(5000)
        self.chats.number_from(self.mood.start(101))
        self.asked = False
        self._allowed = UPDATE_KINDS - _NOT_BY_DEFAULT
        self._news = asyncio.Condition()
        self._poll: asyncio.Event | None = None
        self._site = Site()
        self.webhook = Webhook(self)

    # -- what a test does and sees -----------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        """The address to give as ``apiRoot``."""
        return f"http://127.0.0.1:{self.port}"

    async def say(
        self,
        user: int,
        text: str = "",
        *,
        name: str = "Anna",
        chat: int | None = None,
        thread: int | None = None,
        reply_to: int | None = None,
        **more: Any,
    ) -> int:
        """Let a person write, to the bot in private or in a group, with ``more`` fields of a message; return the message's id."""
        if thread is not None:
            more |= {"message_thread_id": thread, "is_topic_message": True}
        message = self.chats.hear(user, text, name=name, chat=chat, reply_to=reply_to, **more)
        if thread is not None and reply_to is None:
            message["reply_to_message"] = {**_first_of(thread), "chat": message["chat"]}
        await self.inject("message", message)
        return int(message["message_id"])

    def allow(self, kinds: str | list[str]) -> None:
        """Choose the kinds of update that are kept."""
        self._allowed = set(json.loads(kinds) if isinstance(kinds, str) else kinds)

    def first(self) -> dict[str, Any] | None:
        """Return the update that waits for longest."""
        return self._pending[0] if self._pending else None

    async def taken(self, update: dict[str, Any]) -> None:
        """Note that the bot has taken an update."""
        async with self._news:
            self._pending.remove(update)
            self._news.notify_all()

    async def inject(self, kind: str, content: dict[str, Any]) -> None:
        """Add an update of any kind."""
        stranger = self.mood.stranger()
        async with self._news:
            if stranger is not None:
                self._queue("a_kind_of_tomorrow", stranger)
            if kind in self._allowed or kind not in UPDATE_KINDS:
                self._queue(kind, content)
            self._news.notify_all()

    def _queue(self, kind: str, content: dict[str, Any]) -> None:
        self._pending.append(self.mood.more({"update_id": self._next_update, kind: copy.deepcopy(content)}, _IN_A_LIST))
        self._next_update += 1

    def renumber(self, next_update: int) -> None:
        """Choose the next update's id, as Telegram does at random after an idle week."""
        self._next_update = next_update

    def lose_confirmations(self) -> None:
        """Offer all updates again that were confirmed."""
        self._pending, self._confirmed = [*self._confirmed, *self._pending], []

    def fault(self, method: str, kind: str, *, times: int = 1, code: int = 500, seconds: float = 0, text: str = "") -> None:
        """Break the next calls of a method."""
        self.faults.append(Fault(method, kind, times, code, seconds, text))

    def transcript(self, chat: int) -> list[tuple[str, str]]:
        """Return what a person sees in a chat: who ("bot" or a name), and the text."""
        return self.chats.transcript(chat)

    def count(self, method: str) -> int:
        """Return how often a method was called."""
        return sum(1 for name, _ in self.calls if name == method)

    @property
    def next_update(self) -> int:
        """The id that the next update will have."""
        return self._next_update

    @property
    def unconfirmed(self) -> int:
        """How many updates wait to be confirmed."""
        return len(self._pending)

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until something that the bot did makes the condition true."""
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    async def __aenter__(self) -> Self:
        bad_day = failing(lambda request: self.mood if request.path.startswith("/bot") else None, _words)
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[bad_day])
        app.router.add_route("*", "/bot{token}/{method}", self._serve)
        app.router.add_get("/file/bot{token}/{path:.+}", self._download)
        app.router.add_post("/control/{what}", self._control)
        self.port = await self._site.open(app, self.port)
        if self.checked:
            await asyncio.to_thread(telegram_requests.published)
        return self

    async def __aexit__(self, kind: object = None, *_: object) -> None:
        await self.webhook.close()
        await self._site.close()
        assert kind is not None or not self.wrong, f"requests that Telegram's published types do not allow: {self.wrong}"

    async def go_away(self) -> None:
        """Let nobody reach this server."""
        await self._site.away()

    async def come_back(self) -> None:
        """Let it be reached again, at the same port."""
        await self._site.back()

    # -- the Bot API -------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.Response:
        method, token = request.match_info["method"], request.match_info["token"]
        arguments = await _arguments(request)
        await self.mood.late()  # before it is counted, so that a call that was counted has its effect
        async with self._news:
            self.calls.append((method, arguments))
            self._news.notify_all()
        if token != self.token:
            well_formed = ":" in token and len(token.partition(":")[2]) >= 30
            return _refusal(Refused("Unauthorized", 401) if well_formed else Refused("Not Found", 404))
        if self.checked:
            self.wrong += telegram_requests.wrong(method, arguments)
        try:
            if self.flood is not None:
                self.flood.check(method, arguments)
            fault = self._fault(method)
            if fault is not None and fault.kind != "drop_after":
                await self._break(fault, request)
            result = await self._do(method, arguments)
            if fault is not None and fault.kind == "drop_after":
                _cut(request)
        except Refused as refused:
            return _refusal(refused)
        if method == "getUpdates" and method not in self.answers:
            return web.json_response(self.mood.more({"ok": True}) | {"result": result})
        return web.json_response(self.mood.more({"ok": True, "result": result}))

    async def _do(self, method: str, arguments: dict[str, Any]) -> Any:
        if method == "getUpdates" and method not in self.answers:
            return await self._updates(arguments)
        match method:
            case "setWebhook":
                return self.webhook.set(arguments)
            case "deleteWebhook":
                return self.webhook.delete()
            case "getWebhookInfo":
                return self.webhook.info()
        if method in self.answers:
            return self.answers[method]
        act = METHODS.get(method) or telegram_files.METHODS.get(method)
        if act is None:
            raise Refused("Not Found", 404)
        async with self._news:
            result = act(self.chats, arguments)
            self._news.notify_all()
        return result

    async def _download(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["token"] != self.token:
            return _refusal(Refused("Unauthorized", 401))
        return await telegram_files.serve(self.chats, request, request.match_info["path"])

    async def _updates(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        if self.webhook.url:
            raise Refused("Conflict: can't use getUpdates method while webhook is active; use deleteWebhook first", 409)
        if self._poll is not None:
            self._poll.set()
        mine = self._poll = asyncio.Event()
        if arguments.get("allowed_updates"):
            self.allow(arguments["allowed_updates"])
        self.asked = True
        self._confirm(int(arguments.get("offset") or 0))
        limit = min(max(int(arguments.get("limit") or 100), 1), 100)
        try:
            async with asyncio.timeout(min(float(arguments.get("timeout") or 0), LONGEST_POLL) or 0.001), self._news:
                self._news.notify_all()
                await self._news.wait_for(lambda: self._pending or mine.is_set())
        except TimeoutError:
            pass
        finally:
            if self._poll is mine:
                self._poll = None
        if mine.is_set():
            text = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
            raise Refused(text, 409)
        return self._pending[:limit]

    def _confirm(self, offset: int) -> None:
        if offset > 0:
            self._confirmed += [one for one in self._pending if one["update_id"] < offset]
            self._pending = [one for one in self._pending if one["update_id"] >= offset]
        elif offset < 0:
            self._pending = self._pending[offset:]

    def _fault(self, method: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    async def _break(self, fault: Fault, request: web.Request) -> None:
        match fault.kind:
            case "delay":
                await asyncio.sleep(fault.seconds)
            case "drop_before":
                _cut(request)
            case "retry_after":
                seconds = int(fault.seconds)
                raise Refused(f"Too Many Requests: retry after {seconds}", 429, {"retry_after": seconds})
            case "status":
                raise Refused("Internal Server Error", fault.code)
            case _:
                raise Refused(fault.text, fault.code)

    # -- control from another process --------------------------------------------------------------------------------

    async def _control(self, request: web.Request) -> web.Response:
        asked = await request.json() if request.can_read_body else {}
        answer: Any = None
        match request.match_info["what"]:
            case "say":
                answer = await self.say(asked["user"], asked["text"], name=asked.get("name", "Anna"))
            case "transcript":
                answer = self.transcript(asked["chat"])
            case "fault":
                self.fault(asked.pop("method"), asked.pop("kind"), **asked)
            case "block":
                self.chats.blocked.add(asked["user"])
            case "unblock":
                self.chats.blocked.discard(asked["user"])
            case "state":
                answer = {
                    "unconfirmed": self.unconfirmed,
                    "calls": [name for name, _ in self.calls],
                    "actions": self.chats.actions,
                    "wrong": self.wrong,
                }
            case what:
                raise web.HTTPNotFound(text=f"no control {what}")
        return web.json_response(answer)


async def _arguments(request: web.Request) -> dict[str, Any]:
    """Return what was sent in the query, as a form or as JSON."""
    arguments: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        arguments.update(await request.json())
    else:
        arguments.update(await request.post())
    return arguments


def _first_of(thread: int) -> dict[str, Any]:
    """Return the message that a topic begins with, which those in it are said to answer."""
    person = {"id": BOT["id"], "is_bot": True, "first_name": "Homebody"}
    begun = {"name": "a topic", "icon_color": 7322096}
    return {"message_id": thread, "from": person, "date": 1, "forum_topic_created": begun, "is_topic_message": True}


def _words(_: web.Request, status: int) -> dict[str, Any]:
    return {"ok": False, "error_code": status, "description": HTTPStatus(status).phrase}


def _refusal(refused: Refused) -> web.Response:
    body: dict[str, Any] = {"ok": False, "error_code": refused.code, "description": str(refused)}
    if refused.parameters:
        body["parameters"] = refused.parameters
    return web.json_response(body, status=refused.code)


def _cut(request: web.Request) -> None:
    """Cut the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    raise asyncio.CancelledError


async def _main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--token", default=TOKEN)
    given = options.parse_args()
    async with TelegramPeer(token=given.token, port=given.port) as peer:
        print(json.dumps({"root": peer.root, "token": peer.token}), flush=True)  # noqa: T201
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_main())
    except KeyboardInterrupt:
        sys.exit(0)
