"""The chats of the Telegram peer: who wrote what, as a person would see it."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

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


@dataclass
class Chats:
    """Private chats, by the person's id. The bot may write only to those who wrote first."""

    messages: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    actions: list[tuple[int, str]] = field(default_factory=list)
    commands: list[dict[str, str]] = field(default_factory=list)
    drafts: dict[int, str] = field(default_factory=dict)
    people: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ids = itertools.count(101)

    def hear(self, user: int, text: str, *, name: str, reply_to: int | None = None) -> dict[str, Any]:
        """Note a person's message."""
        person = {"id": user, "is_bot": False, "first_name": name}
        self.people[user] = {"id": user, "type": "private", "first_name": name}
        return self._note(user, person, text, [], reply_to)

    def speak(
        self, chat: int, text: str, entities: list[dict[str, Any]], reply_to: int | None, *, preview: bool
    ) -> dict[str, Any]:
        """Note the bot's message."""
        message = self._note(
            chat, {key: BOT[key] for key in ("id", "is_bot", "first_name", "username")}, text, entities, reply_to
        )
        if not preview:
            message["link_preview_options"] = {"is_disabled": True}
        return message

    def find(self, chat: int, message_id: int) -> dict[str, Any] | None:
        """Return a message, or None."""
        return next((one for one in self.messages.get(chat, []) if one["message_id"] == message_id), None)

    def transcript(self, chat: int) -> list[tuple[str, str]]:
        """Return who said what."""
        return [
            ("bot" if one["from"]["is_bot"] else one["from"]["first_name"], one["text"]) for one in self.messages.get(chat, [])
        ]

    def _note(
        self, chat: int, sender: dict[str, Any], text: str, entities: list[dict[str, Any]], reply_to: int | None
    ) -> dict[str, Any]:
        message = {
            "message_id": next(self._ids),
            "from": sender,
            "chat": self.people[chat],
            "date": int(time.time()),
            "text": text,
        }
        if entities:
            message["entities"] = entities
        answered = self.find(chat, reply_to) if reply_to else None
        if answered is not None:
            message["reply_to_message"] = {key: value for key, value in answered.items() if key != "reply_to_message"}
        self.messages.setdefault(chat, []).append(message)
        return message
