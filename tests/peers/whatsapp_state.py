"""What WhatsApp's peer keeps: people with their chats, files, templates; and how it says that it refuses something."""

from __future__ import annotations

import base64
import itertools
import time
from dataclasses import dataclass, field
from typing import Any

NUMBER_ID = "106540352242922"
ACCOUNT_ID = "102290129340398"
OWN_NUMBER = "15550783881"
TOKEN = "EAApeeronloopback"
APP_SECRET = "8f3b1c9ad27e4065b8c1f0e97a6d2354"
DAY = 24 * 3600


class Refused(Exception):
    """An error as Meta words it."""

    def __init__(self, code: int, details: str, status: int = 400, subcode: int = 0) -> None:
        super().__init__(details)
        self.status = status
        error = {"message": f"(#{code}) {details}", "type": "OAuthException", "code": code, "fbtrace_id": "AbCdEfGhIjK"}
        error["error_data"] = {"messaging_product": "whatsapp", "details": details}
        self.body = {"error": error | ({"error_subcode": subcode} if subcode else {})}


@dataclass
class Template:
    """A template that Meta has approved, unless it is ``paused``."""

    language: str
    variables: int = 0
    paused: bool = False


@dataclass
class Media:
    content: bytes
    media_type: str
    name: str = ""


@dataclass
class Home:
    """One WhatsApp Business Account with one number."""

    chats: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Messages by person or group: ``id``, ``from`` ("us" for the bot), ``body`` (what was sent or told), ``key``."""
    media: dict[str, Media] = field(default_factory=dict)
    given: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Addresses that were given out for downloads: the file, and until when they are good."""
    wrote: dict[str, float] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    user_ids: dict[str, str] = field(default_factory=dict)
    """Meta's ids (BSUID) of people, by number."""
    subscribed: bool = True
    webhook: str = ""
    verified: list[str] = field(default_factory=list)
    media_seconds: float = 300.0
    first: int = 1

    def __post_init__(self) -> None:
        self._ids = itertools.count(self.first)

    def wamid(self) -> str:
        return "wamid." + base64.b64encode(f"HBgL{next(self._ids):012d}VAgARGBI".encode()).decode()

    def renumber(self, first: int) -> None:
        self._ids = itertools.count(first)

    def number(self) -> str:
        return str(900_000_000_000 + next(self._ids))

    def note(self, place: str, message: dict[str, Any]) -> dict[str, Any]:
        self.chats.setdefault(place, []).append(message)
        return message

    def find(self, message: str) -> dict[str, Any] | None:
        return next((one for chat in self.chats.values() for one in chat if one["id"] == message), None)

    def open(self, place: str) -> bool:
        """Whether the window of 24 hours is open."""
        return time.time() - self.wrote.get(place, 0.0) < DAY

    def said(self, place: str) -> list[str]:
        """What the bot said there, as it is read: texts, the texts above buttons, captions."""
        return [
            text for one in self.chats.get(place, []) if one["from"] == "us" and (text := readable(one["body"])) is not None
        ]


def readable(body: dict[str, Any]) -> str | None:
    """What a person reads of a message, None for a reaction."""
    kind = body["type"]
    content = body[kind]
    match kind:
        case "text":
            return str(content["body"])
        case "interactive":
            return str(content["body"]["text"])
        case "template":
            return f"template {content['name']}"
        case "reaction":
            return None
        case _:
            return str(content.get("caption", ""))
