"""Telegram's Bot API on loopback, written from https://core.telegram.org/bots/api, with its offsets, its one poller and its bad days.

It keeps what people see in their chats, which makes it the witness of every story that is told by Telegram. It repeats part of
``tests/peers/telegram.py`` and ``tests/fire/platforms.py`` on purpose: stories are independent of the other tests, so that both
would have to read the platform's page wrongly in the same way for a mistake to pass.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.stories.wire import Away, Cut, Port, page_502, reply

TOKEN = "7000000001:AAFstoryStoryStoryStoryStoryStory_0"
BOT = {"id": 7000000001, "is_bot": True, "first_name": "Story", "username": "story_house_bot", "can_join_groups": True}
LONGEST = 4096
"""Longest text of a message, in UTF-16 code units."""


@dataclass
class Shown:
    """One message of the bot, as the people of its chat see it now."""

    chat: int
    id: int
    text: str
    at: float
    document: bytes = b""


@dataclass
class BotApi:
    """The server. ``say`` is what people do; ``shown`` is what they see.

    away: how calls fail at the moment, or None. ``spared`` names methods that work all the same.
    seed: of numbers that Telegram draws, and of updates of kinds and fields that nobody asked for, which come in between.
    """

    seed: int = 1
    token: str = TOKEN
    away: Away | None = None
    spared: frozenset[str] = frozenset()
    retry_after: int = 3
    shown: list[Shown] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Requests that the real one would turn down."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What people sent besides text, by the id that messages name."""

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._updates: list[dict[str, Any]] = []
        self._next_update = self._dice.randrange(10**8, 9 * 10**8)
        self._ids: dict[int, int] = defaultdict(lambda: self._dice.randrange(1, 50_000))
        self._news = asyncio.Event()
        self._poll: asyncio.Future[None] | None = None
        self.port = Port(self._serve)

    @property
    def unconfirmed(self) -> int:
        """How many updates the bot has not acknowledged by a higher offset."""
        return len(self._updates)

    def settings(self, people: list[int], **more: Any) -> dict[str, Any]:
        """Return the bot's section of the settings, for people who may write; the first is the owner."""
        given = {"botToken": self.token, "apiRoot": self.port.root, "pollTimeoutSeconds": 2, "pacing": False}
        return {**given, "allowFrom": [str(one) for one in people], **more}

    def say(self, chat: int, text: str, *, name: str = "Ada", sender: int | None = None, **more: Any) -> int:
        """Let somebody write; return the message's number. A negative chat is a group, in which ``sender`` writes."""
        if self._dice.random() < 0.1:
            self._offer({"story_kind_of_next_year": {"id": str(self._dice.random()), "of": {"deep": [1, None, {}]}}})
        person = {"id": sender or chat, "is_bot": False, "first_name": name, "language_code": "en", "is_premium_plus": True}
        place: dict[str, Any] = {"id": chat, "type": "private", "first_name": name}
        if chat < 0:
            place = {"id": chat, "type": "supergroup", "title": "Story"}
        number = self._number(chat)
        message = {"message_id": number, "date": int(time.time()), "chat": place, "from": person, "text": text or None}
        if text.startswith("/"):
            command = text.split(maxsplit=1)[0]
            message["entities"] = [{"type": "bot_command", "offset": 0, "length": len(command)}]
        given = {key: value for key, value in {**message, **more}.items() if value is not None}
        self._offer({"message": {**given, "a_field_of_next_year": {"x": 1}}})
        return number

    def send_file(self, chat: int, kind: str, data: bytes, **facts: Any) -> int:
        """Let somebody send a voice message or a document; ``facts`` are those of its kind."""
        name = f"f{len(self.files) + 1}"
        self.files[name] = data
        file = {"file_id": name, "file_unique_id": f"u{name}", "file_size": len(data), **facts}
        return self.say(chat, "", **{kind: file})

    def texts(self, chat: int) -> list[str]:
        """Return what the bot's messages in a chat say now, in the order of their numbers."""
        return [one.text for one in self.shown if one.chat == chat]

    async def be_away(self, how: Away, seconds: float) -> None:
        """Fail in one way for a while."""
        self.away = how
        if how is Away.REFUSED:
            await self.port.shut()
        await asyncio.sleep(seconds)
        if how is Away.REFUSED:
            await self.port.open()
        self.away = None

    # -- the wire ----------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        file = re.fullmatch(r"/file/bot([^/]+)/sent/(\w+)", request.path)
        if file is not None and file[1] == self.token and file[2] in self.files and self.away is None:
            return web.Response(body=self.files[file[2]], content_type="application/octet-stream")
        found = re.fullmatch(r"/bot([^/]+)/(\w+)", request.path)
        if found is None or found[1] != self.token:
            return reply({"ok": False, "error_code": 404, "description": "Not Found"}, 404)
        method, given = found[2], await _arguments(request)
        self.calls[method] += 1
        away = None if method in self.spared else self.away
        if away is not None:
            return await self._fail(away, method, given)
        if method == "getUpdates":
            return await self._get_updates(given)
        return self._answer(method, given)

    async def _fail(self, away: Away, method: str, given: dict[str, Any]) -> web.Response:
        self.failed[method] += 1
        match away:
            case Away.CUT_AFTER:
                if method != "getUpdates":
                    self._answer(method, given)
                raise Cut
            case Away.SILENT:
                await asyncio.sleep(3600)
            case Away.JSON_500:
                return reply({"ok": False, "error_code": 500, "description": "Internal Server Error"}, 500)
            case Away.HTML_502:
                return page_502()
            case Away.WAIT_429:
                told = f"Too Many Requests: retry after {self.retry_after}"
                parameters = {"retry_after": self.retry_after}
                return reply({"ok": False, "error_code": 429, "description": told, "parameters": parameters}, 429)
        raise Cut

    def _answer(self, method: str, given: dict[str, Any]) -> web.Response:
        known = {
            "getMe": BOT | {"can_read_all_group_messages": True, "supports_inline_queries": False},
            "getWebhookInfo": {"url": "", "has_custom_certificate": False, "pending_update_count": len(self._updates)},
            "getMyCommands": [],
        }
        match method:
            case "sendMessage":
                return self._send(given)
            case "sendDocument":
                return self._send({**given, "text": str(given.get("caption", "")) or "document"}, given.get("document", b""))
            case "editMessageText":
                return self._edit(given)
            case "getFile":
                name = str(given.get("file_id"))
                if name not in self.files:
                    return _refused("Bad Request: invalid file_id")
                known["getFile"] = {"file_id": name, "file_unique_id": f"u{name}", "file_path": f"sent/{name}"}
            case "deleteMessage":
                found = self._find(given)
                if found is not None:
                    self.shown.remove(found)
        return _ok(known.get(method, True))

    def _send(self, given: dict[str, Any], document: Any = b"") -> web.Response:
        text = str(given.get("text", ""))
        if not text.strip() or len(text.encode("utf-16-le")) // 2 > LONGEST * 2:
            self.wrong.append(f"sendMessage of {len(text)} letters")
            return _refused("Bad Request: message text is empty" if not text.strip() else "Bad Request: message is too long")
        chat = int(given["chat_id"])
        content = document if isinstance(document, bytes) else str(document).encode()
        one = Shown(chat, self._number(chat), _plain(text, given), time.time(), content)
        self.shown.append(one)
        return _ok(self._message(one))

    def _edit(self, given: dict[str, Any]) -> web.Response:
        found = self._find(given)
        if found is None:
            return _refused("Bad Request: message to edit not found")
        found.text = _plain(str(given.get("text", "")), given)
        return _ok(self._message(found))

    def _find(self, given: dict[str, Any]) -> Shown | None:
        wanted = int(given["chat_id"]), int(given["message_id"])
        return next((one for one in self.shown if (one.chat, one.id) == wanted), None)

    async def _get_updates(self, given: dict[str, Any]) -> web.Response:
        offset, limit = int(given.get("offset") or 0), int(given.get("limit") or 100)
        if offset:
            self._updates = [one for one in self._updates if one["update_id"] >= offset]
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(None)
        mine = self._poll = asyncio.get_running_loop().create_future()
        until = time.monotonic() + float(given.get("timeout") or 0)
        while not self._updates and not mine.done() and time.monotonic() < until and self.away is None:
            self._news.clear()
            waits = [asyncio.ensure_future(self._news.wait()), mine]
            await asyncio.wait(waits, timeout=max(0.01, until - time.monotonic()), return_when=asyncio.FIRST_COMPLETED)
            waits[0].cancel()
        if mine.done():
            told = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
            return reply({"ok": False, "error_code": 409, "description": told}, 409)
        mine.set_result(None)
        return _ok(self._updates[:limit])

    def _offer(self, update: dict[str, Any]) -> None:
        self._next_update += 1
        self._updates.append({"update_id": self._next_update, **update})
        self._news.set()

    def _number(self, chat: int) -> int:
        self._ids[chat] += self._dice.randrange(1, 4)
        return self._ids[chat]

    def _message(self, one: Shown) -> dict[str, Any]:
        chat = {"id": one.chat, "type": "private" if one.chat > 0 else "supergroup", "title": "Story"}
        return {"message_id": one.id, "date": int(one.at), "chat": chat, "from": BOT, "text": one.text}


async def _arguments(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        given = await request.json() if request.can_read_body else {}
        return dict(given)
    given = {**request.query}
    for key, value in (await request.post()).items():
        given[key] = value.file.read() if isinstance(value, web.FileField) else value
    return given


def _plain(text: str, given: dict[str, Any]) -> str:
    """Show HTML as a person sees it."""
    if str(given.get("parse_mode", "")).upper() != "HTML":
        return text
    bare = re.sub(r"<[^>]+>", "", text)
    for entity, letter in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#x27;", "'"), ("&#39;", "'"), ("&amp;", "&")):
        bare = bare.replace(entity, letter)
    return bare


def _ok(result: Any) -> web.Response:
    return reply({"ok": True, "result": result})


def _refused(description: str) -> web.Response:
    return reply({"ok": False, "error_code": 400, "description": description}, 400)
