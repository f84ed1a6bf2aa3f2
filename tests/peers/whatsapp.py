"""WhatsApp on loopback: the Cloud API and its webhook, as strict as Meta's documentation.

In a test it is an async context manager. People write with ``say`` and the like; what they see is in ``said``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from tests.patience import PATIENCE
from tests.peers.failing import failing
from tests.peers.mood import Mood
from tests.peers.site import Site
from tests.peers.whatsapp_calls import Calls, Hook
from tests.peers.whatsapp_requests import USER_ID, check_message, check_seen, check_upload
from tests.peers.whatsapp_state import ACCOUNT_ID, APP_SECRET, NUMBER_ID, OWN_NUMBER, TOKEN, Home, Media, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ACCOUNT_ID", "APP_SECRET", "NUMBER_ID", "OWN_NUMBER", "TOKEN", "WhatsAppPeer"]
NAME = "Peer of the House"


@dataclass
class Fault:
    """What goes wrong with the next requests of a kind (``messages``, ``seen``, ``media``, ``number``, ``file``, ``download``).

    kind: ``drop_before`` and ``drop_after`` cut the connection without or with the effect; ``status`` and ``status_after`` answer
    with ``status`` and no code of Meta's without or with the effect; ``error`` answers with ``code`` and ``status``.
    """

    what: str
    kind: str
    times: int = 1
    code: int = 0
    status: int = 500


@dataclass
class WhatsAppPeer:
    """The server. Start it with ``async with``; ``root`` is its address."""

    port: int = 0
    mood: Mood = field(default_factory=Mood)
    token: str = TOKEN
    reports: tuple[str, ...] = ("sent", "delivered")
    """What is reported of each message that was taken."""
    late_refusals: bool = False
    """Whether a shut window is told with a status, after the message was taken, as Meta often does."""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = Home(first=self.mood.start(1, 10**9))
        self.hooks = Calls(APP_SECRET, self._changed)
        self._news = asyncio.Condition()
        self._site = Site()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call_at(self, hook: str | Hook | None) -> None:
        self.hooks.hook = hook

    def fault(self, what: str, kind: str, *, times: int = 1, code: int = 0, status: int = 500) -> None:
        self.faults.append(Fault(what, kind, times, code, status))

    def count(self, what: str) -> int:
        return sum(1 for name, _ in self.calls if name == what)

    def said(self, place: str) -> list[str]:
        return self.home.said(place)

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    async def __aenter__(self) -> Self:
        bad_day = failing(lambda request: self.mood if request.method == "POST" else None, _words)
        app = web.Application(client_max_size=128 * 1024 * 1024, middlewares=[bad_day])
        app.router.add_post("/{version}/{id}/messages", self._messages)
        app.router.add_post("/{version}/{id}/media", self._upload)
        app.router.add_route("*", "/{version}/{id}/subscribed_apps", self._subscribed)
        app.router.add_get("/download/{file}", self._download)
        app.router.add_route("*", "/{version}/{id}", self._node)
        self.port = await self._site.open(app, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.hooks.close()
        for task in self._tasks:
            task.cancel()
        await self._site.close()

    async def go_away(self) -> None:
        """Let nobody reach this server, and call nobody."""
        self.hooks.paused = True
        await self._site.away()

    async def come_back(self) -> None:
        await self._site.back()
        self.hooks.paused = False

    # -- what people do ----------------------------------------------------------------------------------------------

    async def say(self, person: str, text: str, *, group: str = "", **more: Any) -> str:
        return await self.tell(person, "text", {"body": text}, group=group, **more)

    async def tell(
        self, person: str, kind: str, content: Any, *, group: str = "", context: dict[str, Any] | None = None, at: float = 0.0
    ) -> str:
        """Send a message of any type as a person; return its id."""
        message = self.message(person, kind, content, group=group, context=context, at=at)
        self.tell_raw(person, message)
        return str(message["id"])

    def message(
        self, person: str, kind: str, content: Any, *, group: str = "", context: dict[str, Any] | None = None, at: float = 0.0
    ) -> dict[str, Any]:
        """Make a message of a person as Meta tells of it."""
        place, now = group or person, at or time.time()
        self.home.wrote[place] = max(now, self.home.wrote.get(place, 0.0))
        message: dict[str, Any] = {"id": self.home.wamid(), "timestamp": str(int(now)), "type": kind, kind: content}
        if content is None:
            del message[kind]
        message |= {"from_user_id": person} if USER_ID.fullmatch(person) else {"from": person}
        if person in self.home.user_ids:
            message["from_user_id"] = self.home.user_ids[person]
        message |= ({"group_id": group} if group else {}) | ({"context": context} if context else {})
        self.home.note(place, {"id": message["id"], "from": person, "body": message, "group": group})
        return message

    def tell_raw(self, person: str, *messages: dict[str, Any]) -> None:
        """Tell the house of messages, in one call."""
        self.hooks.put(f"messages {person}", self.payload({"contacts": [self._contact(person)], "messages": list(messages)}))
        if self.mood.twice():
            self.hooks.put(f"messages {person}", self.payload({"messages": list(messages)}))
        if (stranger := self.mood.stranger()) is not None:
            self.hooks.put("strange", {"object": "whatsapp_business_account", "entry": [{"id": ACCOUNT_ID, **stranger}]})

    def payload(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return a call that tells of something about the number."""
        metadata = {"display_phone_number": OWN_NUMBER, "phone_number_id": NUMBER_ID}
        told = {"messaging_product": "whatsapp", "metadata": metadata, **self.mood.more(value)}
        changes = [{"field": "messages", "value": told}]
        return {"object": "whatsapp_business_account", "entry": [{"id": ACCOUNT_ID, "changes": changes}]}

    def _contact(self, person: str) -> dict[str, Any]:
        user_id = person if USER_ID.fullmatch(person) else self.home.user_ids.get(person)
        known = {"wa_id": person} if not USER_ID.fullmatch(person) else {}
        return {"profile": {"name": "Anna"}, **known, **({"user_id": user_id} if user_id else {})}

    async def attach(
        self,
        person: str,
        kind: str,
        content: bytes,
        media_type: str,
        *,
        name: str = "",
        caption: str = "",
        voice: bool = False,
        group: str = "",
        context: dict[str, Any] | None = None,
    ) -> str:
        file = self.home.number()
        self.home.media[file] = Media(content, media_type, name)
        told: dict[str, Any] = {"id": file, "mime_type": media_type, "sha256": hashlib.sha256(content).hexdigest()}
        told |= {"filename": name} if name else {}
        told |= {"caption": caption} if caption else {}
        told |= {"voice": voice} if kind == "audio" else {}
        return await self.tell(person, kind, told, group=group, context=context)

    async def press(self, person: str, label: str) -> str:
        """Press a button below the bot's last message, or choose from its list."""
        shown = [one for one in self.home.chats[person] if one["from"] == "us" and one["body"]["type"] == "interactive"][-1]
        for choice in choices(shown["body"]):
            if label in {choice["title"], choice.get("description")}:
                kind = "button_reply" if shown["body"]["interactive"]["type"] == "button" else "list_reply"
                context = {"from": OWN_NUMBER, "id": shown["id"]}
                return await self.tell(person, "interactive", {"type": kind, kind: choice}, context=context)
        raise AssertionError(f"there is no {label!r} to press")

    def shut(self, place: str) -> None:
        """Let the window of 24 hours be over."""
        self.home.wrote[place] = time.time() - 2 * 24 * 3600

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _messages(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        what = "seen" if body.get("status") == "read" else "messages"
        return await self._answered(request, what, body, lambda: self._seen(body) if what == "seen" else self._sent(body))

    def _sent(self, body: dict[str, Any]) -> dict[str, Any]:
        late = False
        try:
            place, kind = check_message(self.home, body)
        except Refused as refused:
            late = self.late_refusals and refused.body["error"]["code"] == 131047
            if not late:
                raise
            place, kind = body.get("to") or body["recipient"], body["type"]
        if kind == "reaction":
            self._react(body["reaction"])
        message, lost = self.home.wamid(), "." in str(body.get("to", ""))
        if not late and not lost and kind != "reaction":
            self.home.note(place, {"id": message, "from": "us", "body": body, "key": body.get("biz_opaque_callback_data")})
        if kind != "reaction":
            self._report(message, body, ("failed",) if late else self.reports)
        input_ = {"input": place, "user_id" if USER_ID.fullmatch(place) else "wa_id": place}
        return {"messaging_product": "whatsapp", "contacts": [input_], "messages": [{"id": message}]}

    def _react(self, reaction: dict[str, Any]) -> None:
        target = self.home.find(reaction["message_id"])
        assert target is not None
        target["reaction"] = reaction["emoji"]

    def _report(self, message: str, body: dict[str, Any], states: tuple[str, ...]) -> None:
        for state in states if not self.mood.bad else reversed(states):
            self.report(message, state, body)

    def report(self, message: str, state: str, body: dict[str, Any], code: int = 131047) -> None:
        """Tell the house how far a message came."""
        place = body.get("to") or body["recipient"]
        told: dict[str, Any] = {"id": message, "status": state, "timestamp": str(int(time.time()))}
        told |= {"recipient_user_id": place} if USER_ID.fullmatch(place) else {"recipient_id": place}
        if body.get("recipient_type") == "group":
            told["recipient_type"] = "group"
        if key := body.get("biz_opaque_callback_data"):
            told["biz_opaque_callback_data"] = key
        if state == "failed":
            told["errors"] = [{"code": code, "title": "failed", "error_data": {"details": "it was not delivered"}}]
        self.hooks.put(f"statuses {place}", self.payload({"statuses": [told]}))

    def _seen(self, body: dict[str, Any]) -> dict[str, Any]:
        self.seen.append(check_seen(self.home, body))
        return {"success": True}

    async def _upload(self, request: web.Request) -> web.Response:
        fields: dict[str, str] = {}
        content, media_type, name = b"", "", ""
        form = await request.post()
        for key, value in form.items():
            if isinstance(value, web.FileField):
                content, media_type, name = value.file.read(), value.content_type, value.filename
            else:
                fields[key] = str(value)

        def taken() -> dict[str, Any]:
            file = self.home.number()
            self.home.media[file] = Media(content, check_upload(fields, media_type, content), name)
            return {"id": file}

        return await self._answered(request, "media", fields, taken)

    async def _node(self, request: web.Request) -> web.Response:
        identity = request.match_info["id"]
        if identity in self.home.media:
            return await self._answered(request, "file", dict(request.query), lambda: self._file(request, identity))
        if request.method == "POST":
            body = await request.json()
            token = (body.get("webhook_configuration") or {}).get("verify_token", "")
            address = (body.get("webhook_configuration") or {}).get("override_callback_uri", "")
            word = "1158201444"
            right = await self.hooks.challenge(address, token, word) == word
            return await self._answered(request, "webhook", body, lambda: self._set_webhook(address, right=right))
        return await self._answered(request, "number", dict(request.query), self._number)

    def _number(self) -> dict[str, Any]:
        number = f"+1 {OWN_NUMBER[1:4]}-{OWN_NUMBER[4:7]}-{OWN_NUMBER[7:]}"
        places = (
            {"phone_number": self.home.webhook} if self.home.webhook else {"application": "https://elsewhere.example.org/x"}
        )
        told = {"id": NUMBER_ID, "display_phone_number": number, "verified_name": NAME, "quality_rating": "GREEN"}
        return {**told, "webhook_configuration": places}

    def _set_webhook(self, address: str, *, right: bool) -> dict[str, Any]:
        if not right:
            raise Refused(2200, "Callback verification failed")
        self.home.webhook = address
        return {"success": True}

    async def _subscribed(self, request: web.Request) -> web.Response:
        def answer() -> dict[str, Any]:
            if request.method == "POST":
                self.home.subscribed = True
                return {"success": True}
            return {"data": [{"whatsapp_business_api_data": {"id": "1", "name": "app"}}] if self.home.subscribed else []}

        return await self._answered(request, "subscribed", {}, answer, known=ACCOUNT_ID)

    def _file(self, request: web.Request, identity: str) -> dict[str, Any]:
        if request.query.get("phone_number_id") != NUMBER_ID:
            raise Refused(100, "the file is of another number", subcode=33)
        file, place = self.home.media[identity], self.home.number()
        self.home.given[place] = (identity, time.time() + self.home.media_seconds)
        told = {"messaging_product": "whatsapp", "id": identity, "mime_type": file.media_type, "file_size": len(file.content)}
        return {**told, "url": f"{self.root}/download/{place}", "sha256": hashlib.sha256(file.content).hexdigest()}

    async def _download(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401)
        fault = self._fault("download")
        identity, until = self.home.given.get(request.match_info["file"], ("", 0.0))
        if fault is not None or time.time() > until:
            return web.Response(status=fault.status if fault else 404)
        file = self.home.media[identity]
        return web.Response(body=file.content, content_type=file.media_type)

    async def _answered(
        self,
        request: web.Request,
        what: str,
        body: dict[str, Any],
        answer: Callable[[], dict[str, Any]],
        known: str = NUMBER_ID,
    ) -> web.Response:
        await self.mood.late()
        self.calls.append((what, body))
        fault = self._fault(what)
        try:
            self._authorise(request, known)
            self._break(fault, request, "")
            told = answer()
            self._break(fault, request, "_after")
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status)
        finally:
            await self._changed()
        return web.json_response(self.mood.more(told))

    def _authorise(self, request: web.Request, known: str) -> None:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refused(190, "Error validating access token: the session is invalid", 401)
        if not re.fullmatch(r"v(2[2-9]|[3-9]\d)\.0", request.match_info["version"]):
            raise Refused(2635, f"You are calling a deprecated version of the API: {request.match_info['version']}")
        if request.match_info["id"] not in {known, *self.home.media}:
            raise Refused(100, f"Unsupported request: Object with ID '{request.match_info['id']}' does not exist", subcode=33)

    def _fault(self, what: str) -> Fault | None:
        found = next((one for one in self.faults if one.what == what and one.times > 0), None)
        if found is not None:
            found.times -= 1
        return found

    def _break(self, fault: Fault | None, request: web.Request, when: str) -> None:
        if fault is None or fault.kind.endswith("_after") != (when == "_after"):
            return
        if fault.kind.startswith("drop"):
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError
        raise Refused(fault.code, "it was asked to fail", fault.status)

    async def _changed(self) -> None:
        async with self._news:
            self._news.notify_all()


def choices(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the buttons or rows of a message."""
    with contextlib.suppress(KeyError):
        action = body["interactive"]["action"]
        if "buttons" in action:
            return [one["reply"] for one in action["buttons"]]
        return [row for section in action["sections"] for row in section["rows"]]
    return []


def _words(_: web.Request, status: int) -> dict[str, Any]:
    return {
        "error": {"message": "(#131000) Something went wrong", "type": "OAuthException", "code": 131000 if status == 500 else 2}
    }
