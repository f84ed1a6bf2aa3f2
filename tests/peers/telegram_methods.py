"""The methods of the Telegram peer, each with the limits and the wording of the real server."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from tests.peers.telegram_html import Unparsable, parse, units
from tests.peers.telegram_state import BOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.telegram_state import Chats

TEXT_UNITS = 4096
ENTITIES = 100
ACTIONS = {
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
}
_UNSEEN = re.compile(r"[\s\u200b-\u200f\u2060\ufeff\u00ad]*")


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, description: str, code: int = 400, parameters: dict[str, Any] | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.parameters = parameters


def _bad(text: str) -> Refused:
    return Refused(f"Bad Request: {text}")


def _object(value: Any) -> dict[str, Any]:
    """Return an argument that is an object, which comes as JSON text in a form."""
    if not value:
        return {}
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise _bad("can't parse JSON object") from error
    if not isinstance(parsed, dict):
        raise _bad("object expected")
    return parsed


def _chat(chats: Chats, arguments: dict[str, Any]) -> int:
    raw = arguments.get("chat_id")
    if raw in (None, ""):
        raise _bad("chat_id is empty")
    if not re.fullmatch(r"-?\d+", str(raw)) or int(raw) not in chats.people:
        raise _bad("chat not found")
    if int(raw) in chats.blocked:
        raise Refused("Forbidden: bot was blocked by the user", 403)
    return int(raw)


def _text(arguments: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    source = str(arguments.get("text") or "")
    entities: list[dict[str, Any]] = []
    mode = arguments.get("parse_mode")
    if mode == "HTML":
        try:
            source, entities = parse(source)
        except Unparsable as error:
            raise _bad(f"can't parse entities: {error}") from error
    elif mode:
        raise _bad("unsupported parse_mode")
    if units(source) > TEXT_UNITS:
        raise _bad("message is too long")
    if _UNSEEN.fullmatch(source):
        raise _bad("message text is empty")
    trimmed = source.strip()
    before = units(source[: len(source) - len(source.lstrip())])
    for entity in entities:
        entity["offset"] = max(0, entity["offset"] - before)
    return trimmed, entities[:ENTITIES]


def _reply(chats: Chats, chat: int, arguments: dict[str, Any]) -> int | None:
    wanted = _object(arguments.get("reply_parameters"))
    if not wanted:
        return None
    message_id = int(wanted.get("message_id", 0))
    if chats.find(chat, message_id) is not None:
        return message_id
    if wanted.get("allow_sending_without_reply"):
        return None
    raise _bad("message to be replied not found")


def send_message(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    chat = _chat(chats, arguments)
    text, entities = _text(arguments)
    preview = not _object(arguments.get("link_preview_options")).get("is_disabled", False)
    return chats.speak(chat, text, entities, _reply(chats, chat, arguments), preview=preview)


def edit_message_text(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    chat = _chat(chats, arguments)
    message = chats.find(chat, int(arguments.get("message_id") or 0))
    if message is None:
        raise _bad("message to edit not found")
    if not message["from"]["is_bot"]:
        raise _bad("message can't be edited")
    text, entities = _text(arguments)
    if (text, entities) == (message["text"], message.get("entities", [])):
        raise _bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a current content "
            "and reply markup of the message"
        )
    message.update(text=text, entities=entities, edit_date=int(time.time()))
    return message


def delete_message(chats: Chats, arguments: dict[str, Any]) -> bool:
    chat = _chat(chats, arguments)
    message = chats.find(chat, int(arguments.get("message_id") or 0))
    if message is None:
        raise _bad("message to delete not found")
    chats.messages[chat].remove(message)
    return True


def send_chat_action(chats: Chats, arguments: dict[str, Any]) -> bool:
    chat = _chat(chats, arguments)
    if arguments.get("action") not in ACTIONS:
        raise _bad("wrong parameter action in request")
    chats.actions.append((chat, str(arguments["action"])))
    return True


def send_message_draft(chats: Chats, arguments: dict[str, Any]) -> bool:
    chat = _chat(chats, arguments)
    if not int(arguments.get("draft_id") or 0):
        raise _bad("DRAFT_ID_INVALID")
    chats.drafts[chat] = _text(arguments)[0]
    return True


def set_my_commands(chats: Chats, arguments: dict[str, Any]) -> bool:
    raw = arguments.get("commands") or "[]"
    commands = json.loads(raw) if isinstance(raw, str) else raw
    if len(commands) > 100:
        raise _bad("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", command.get("command", "")):
            raise _bad("BOT_COMMAND_INVALID")
        if not 1 <= len(command.get("description", "")) <= 256:
            raise _bad("BOT_COMMAND_DESCRIPTION_INVALID")
    chats.commands = commands
    return True


METHODS: dict[str, Callable[[Chats, dict[str, Any]], Any]] = {
    "getMe": lambda _chats, _arguments: BOT,
    "sendMessage": send_message,
    "editMessageText": edit_message_text,
    "deleteMessage": delete_message,
    "sendChatAction": send_chat_action,
    "sendMessageDraft": send_message_draft,
    "setMyCommands": set_my_commands,
    "getMyCommands": lambda chats, _arguments: chats.commands,
    "getChat": lambda chats, arguments: {
        **chats.people[_chat(chats, arguments)],
        "accent_color_id": 0,
        "max_reaction_count": 11,
    },
}
