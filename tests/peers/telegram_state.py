"""The chats of the Telegram peer: who wrote what, as a person would see it."""

from __future__ import annotations

import itertools
import re
import time
from dataclasses import dataclass, field
from typing import Any

from tests.peers.telegram_html import units

BOT = {
    "id": 1000,
    "is_bot": True,
    "first_name": "Homebody",
    "username": "homebody_test_bot",
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_inline_queries": False,
    "can_connect_to_business": False,
    "has_main_web_app": False,
}
_SEEN_BY_SERVER = {"mention": re.compile(r"(?<!\w)@\w{5,32}"), "bot_command": re.compile(r"(?<!\S)/\w{1,32}(@\w+)?")}
_NOT_IN_A_REPLY = {"reply_to_message", "reply_markup"}


@dataclass
class File:
    """A file on the server."""

    content: bytes
    path: str
    cut_after: int | None = None


@dataclass
class Query:
    """A button that somebody pressed, and whether they were told that it was taken."""

    chat: int
    message: int
    answered: bool = False


@dataclass
class Chats:
    """Chats by id: a person's private one, or a group's. The bot may write only to people who wrote first, and to groups it is in.

    ``topics`` are those of a forum, besides General. ``moved`` are groups that became another; ``kicked`` are groups that the bot
    was removed from.
    """

    messages: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    kicked: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    moved: dict[int, int] = field(default_factory=dict)
    topics: dict[int, set[int]] = field(default_factory=dict)
    closed: set[tuple[int, int]] = field(default_factory=set)
    actions: list[tuple[int, str]] = field(default_factory=list)
    action_topics: list[int | None] = field(default_factory=list)
    menus: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    drafts: dict[int, list[str]] = field(default_factory=dict)
    people: dict[int, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)
    received: list[tuple[str, str, bytes]] = field(default_factory=list)
    reactions: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    no_voice: set[int] = field(default_factory=set)
    admins: set[tuple[int, int]] = field(default_factory=set)
    upload_limit: int = 50_000_000
    download_limit: int = 20_000_000

    def __post_init__(self) -> None:
        self.number_from(101)

    def number_from(self, first: int) -> None:
        """Choose the id of the next message."""
        self._ids = itertools.count(first)

    def group(self, chat: int, title: str = "Family", *, kind: str = "supergroup", topics: tuple[int, ...] = ()) -> None:
        """Add a group with the bot in it; a forum when it has topics."""
        self.people[chat] = {"id": chat, "type": kind, "title": title} | ({"is_forum": True} if topics else {})
        self.topics[chat] = set(topics)

    def rank(self, chat: int, user: int) -> dict[str, Any]:
        """Return what a member of a group is, as the Bot API has it. ``admins`` are pairs of a group and a member."""
        if (chat, user) not in self.admins:
            return {"status": "member"}
        rights = ("can_be_edited", "is_anonymous", "can_manage_chat", "can_delete_messages", "can_manage_video_chats")
        more = ("can_restrict_members", "can_promote_members", "can_change_info", "can_invite_users")
        stories = ("can_post_stories", "can_edit_stories", "can_delete_stories")
        return {"status": "administrator"} | dict.fromkeys((*rights, *more, *stories), False)

    def hear(
        self, user: int, text: str, *, name: str, chat: int | None = None, reply_to: int | None = None, **more: Any
    ) -> dict[str, Any]:
        """Note a person's message. ``more`` are fields of the message as the Bot API has them."""
        person = {"id": user, "is_bot": False, "first_name": name}
        if chat is None:
            self.people[user] = {"id": user, "type": "private", "first_name": name}
        given = more.pop("entities", [])
        entities = sorted([*given, *_entities(text)], key=lambda one: one["offset"])
        return self.note(user if chat is None else chat, more.pop("sender", person), text, entities, reply_to, **more)

    def speak(self, chat: int, text: str, entities: list[dict[str, Any]], reply_to: int | None, **more: Any) -> dict[str, Any]:
        """Note the bot's message."""
        me = {key: BOT[key] for key in ("id", "is_bot", "first_name", "username")}
        return self.note(chat, me, text, entities, reply_to, **more)

    def find(self, chat: int, message_id: int) -> dict[str, Any] | None:
        """Return a message, or None."""
        return next((one for one in self.messages.get(chat, []) if one["message_id"] == message_id), None)

    def transcript(self, chat: int) -> list[tuple[str, str]]:
        """Return who said what."""
        return [
            ("bot" if one["from"]["is_bot"] else one["from"]["first_name"], one.get("text", one.get("caption", "")))
            for one in self.messages.get(chat, [])
        ]

    def said(self, chat: int, thread: int | None = None) -> list[str]:
        """Return what the bot has said in a chat, and in which topic of it."""
        return [
            one.get("text", one.get("caption", ""))
            for one in self.messages.get(chat, [])
            if one["from"]["id"] == BOT["id"] and one.get("message_thread_id") == thread
        ]

    def note(
        self,
        chat: int,
        sender: dict[str, Any],
        text: str,
        entities: list[dict[str, Any]],
        reply_to: int | None,
        **more: Any,
    ) -> dict[str, Any]:
        """Note anybody's message."""
        message = {"message_id": next(self._ids), "from": sender, "chat": self.people[chat], "date": int(time.time()), **more}
        captioned = more.keys() & {"photo", "voice", "audio", "video", "document", "animation"}
        if text or not more:
            message["caption" if captioned else "text"] = text
        if entities:
            message["caption_entities" if captioned else "entities"] = entities
        answered = self.find(chat, reply_to) if reply_to else None
        if answered is not None:
            message["reply_to_message"] = {key: value for key, value in answered.items() if key not in _NOT_IN_A_REPLY}
        self.messages.setdefault(chat, []).append(message)
        return message


def _entities(text: str) -> list[dict[str, Any]]:
    """Return what the server finds in a text by itself."""
    return [
        {"type": kind, "offset": units(text[: found.start()]), "length": units(found[0])}
        for kind, form in _SEEN_BY_SERVER.items()
        for found in form.finditer(text)
    ]
