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
CAPTION_UNITS = 1024
MOST_BUTTONS = 100
MOST_DATA = 64
GENERAL = 1
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current content "
    "and reply markup of the message"
)
REACTIONS = set(
    "👍👎❤🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐🍓🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
) | {
    "❤‍🔥",
    "👨‍💻",
    "🤷‍♂",
    "🤷‍♀",
}
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


def bad(text: str) -> Refused:
    return Refused(f"Bad Request: {text}")


def object_of(value: Any) -> dict[str, Any]:
    """Return an argument that is an object, which comes as JSON text in a form."""
    if not value:
        return {}
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise bad("can't parse JSON object") from error
    if not isinstance(parsed, dict):
        raise bad("object expected")
    return parsed


def chat_of(chats: Chats, arguments: dict[str, Any]) -> int:
    """Return the chat that a call names, if the bot may act there."""
    raw = arguments.get("chat_id")
    if raw in (None, ""):
        raise bad("chat_id is empty")
    if not re.fullmatch(r"-?\d+", str(raw)) or int(raw) not in chats.people:
        raise bad("chat not found")
    chat = int(raw)
    if chat in chats.moved:
        text = "Bad Request: group chat was upgraded to a supergroup chat"
        raise Refused(text, 400, {"migrate_to_chat_id": chats.moved[chat]})
    if chat in chats.blocked:
        raise Refused("Forbidden: bot was blocked by the user", 403)
    if chat in chats.kicked:
        raise Refused("Forbidden: bot was kicked from the supergroup chat", 403)
    return chat


def place_of(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that say in which topic a new message lies."""
    chat, raw = int(arguments["chat_id"]), arguments.get("message_thread_id")
    if chat in chats.silent:
        raise bad("not enough rights to send text messages to the chat")
    if raw in (None, ""):
        return {}
    thread = int(raw)
    if thread not in chats.topics.get(chat, ()):
        raise bad("message thread not found")
    if (chat, thread) in chats.closed:
        raise bad("TOPIC_CLOSED")
    return {"message_thread_id": thread, "is_topic_message": True}


def text_of(arguments: dict[str, Any], field: str = "text", most: int = TEXT_UNITS) -> tuple[str, list[dict[str, Any]]]:
    """Return a text without its marks, and these as entities. A caption may be empty and is shorter."""
    source = str(arguments.get(field) or "")
    entities: list[dict[str, Any]] = []
    mode = arguments.get("parse_mode")
    if mode == "HTML":
        try:
            source, entities = parse(source)
        except Unparsable as error:
            raise bad(f"can't parse entities: {error}") from error
    elif mode:
        raise bad("unsupported parse_mode")
    if units(source) > most:
        raise bad("message is too long" if field == "text" else "message caption is too long")
    if field == "text" and _UNSEEN.fullmatch(source):
        raise bad("message text is empty")
    trimmed = source.strip()
    before = units(source[: len(source) - len(source.lstrip())])
    for entity in entities:
        entity["offset"] = max(0, entity["offset"] - before)
    return trimmed, entities[:ENTITIES]


def buttons_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that hold the buttons under a message."""
    rows = object_of(arguments.get("reply_markup")).get("inline_keyboard", [])
    buttons = [button for row in rows for button in row]
    if len(buttons) > MOST_BUTTONS:
        raise bad("REPLY_MARKUP_TOO_LONG")
    for button in buttons:
        if not button.get("text"):
            raise bad('can\'t parse inline keyboard button: Field "text" must be of type String')
        if not 1 <= len(str(button.get("callback_data", "")).encode()) <= MOST_DATA:
            raise bad("BUTTON_DATA_INVALID")
    return {"reply_markup": {"inline_keyboard": rows}} if buttons else {}


def reply_of(chats: Chats, chat: int, arguments: dict[str, Any]) -> int | None:
    wanted = object_of(arguments.get("reply_parameters"))
    if not wanted:
        return None
    message_id = int(wanted.get("message_id", 0))
    if chats.find(chat, message_id) is not None:
        return message_id
    if wanted.get("allow_sending_without_reply"):
        return None
    raise bad("message to be replied not found")


def send_message(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    chat = chat_of(chats, arguments)
    text, entities = text_of(arguments)
    more = place_of(chats, arguments) | buttons_of(arguments)
    if object_of(arguments.get("link_preview_options")).get("is_disabled", False):
        more["link_preview_options"] = {"is_disabled": True}
    reply_to = reply_of(chats, chat, arguments)
    chats.drafts.pop(chat, None)
    return chats.speak(chat, text, entities, reply_to, **more)


def edit_message_text(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    message = _editable(chats, arguments)
    text, entities = text_of(arguments)
    buttons = buttons_of(arguments)
    if (text, entities, buttons.get("reply_markup")) == (
        message.get("text"),
        message.get("entities", []),
        message.get("reply_markup"),
    ):
        raise bad(NOT_MODIFIED)
    message.pop("reply_markup", None)
    message.update(text=text, entities=entities, edit_date=int(time.time()), **buttons)
    return message


def edit_message_reply_markup(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    message = _editable(chats, arguments)
    buttons = buttons_of(arguments)
    if buttons.get("reply_markup") == message.get("reply_markup"):
        raise bad(NOT_MODIFIED)
    message.pop("reply_markup", None)
    message.update(buttons)
    return message


def _editable(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    chat = chat_of(chats, arguments)
    message = chats.find(chat, int(arguments.get("message_id") or 0))
    if message is None:
        raise bad("message to edit not found")
    if message["from"]["id"] != BOT["id"]:
        raise bad("message can't be edited")
    return message


def answer_callback_query(chats: Chats, arguments: dict[str, Any]) -> bool:
    query = chats.queries.get(str(arguments.get("callback_query_id")))
    if query is None or query.answered:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    query.answered = True
    return True


def set_message_reaction(chats: Chats, arguments: dict[str, Any]) -> bool:
    chat = chat_of(chats, arguments)
    message_id = int(arguments.get("message_id") or 0)
    if chats.find(chat, message_id) is None:
        raise bad("message to react not found")
    raw = arguments.get("reaction") or "[]"
    wanted = json.loads(raw) if isinstance(raw, str) else raw
    if len(wanted) > 1 or any(
        one.get("type") != "emoji" or str(one.get("emoji")).replace("\ufe0f", "") not in REACTIONS for one in wanted
    ):
        raise bad("REACTION_INVALID")
    chats.reactions[chat, message_id] = [one["emoji"] for one in wanted]
    return True


def delete_message(chats: Chats, arguments: dict[str, Any]) -> bool:
    chat = chat_of(chats, arguments)
    message = chats.find(chat, int(arguments.get("message_id") or 0))
    if message is None:
        raise bad("message to delete not found")
    chats.messages[chat].remove(message)
    return True


def send_chat_action(chats: Chats, arguments: dict[str, Any]) -> bool:
    chat = chat_of(chats, arguments)
    if arguments.get("action") not in ACTIONS:
        raise bad("wrong parameter action in request")
    thread = int(arguments["message_thread_id"]) if arguments.get("message_thread_id") else None
    if thread not in {None, GENERAL, *chats.topics.get(chat, ())}:
        raise bad("message thread not found")
    chats.actions.append((chat, str(arguments["action"])))
    chats.action_topics.append(thread)
    return True


def send_message_draft(chats: Chats, arguments: dict[str, Any]) -> bool:
    chat = chat_of(chats, arguments)
    if chats.people[chat]["type"] != "private":
        raise bad("DRAFT_CHAT_INVALID")
    if not int(arguments.get("draft_id") or 0):
        raise bad("DRAFT_ID_INVALID")
    place_of(chats, arguments)
    chats.drafts.setdefault(chat, []).append(text_of(arguments)[0])
    return True


def set_my_commands(chats: Chats, arguments: dict[str, Any]) -> bool:
    raw = arguments.get("commands") or "[]"
    commands = json.loads(raw) if isinstance(raw, str) else raw
    if len(commands) > 100:
        raise bad("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not re.fullmatch(r"[a-z0-9_]{1,32}", command.get("command", "")):
            raise bad("BOT_COMMAND_INVALID")
        if not 1 <= len(command.get("description", "")) <= 256:
            raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
    chats.menus[_scope(arguments)] = [{key: one[key] for key in ("command", "description")} for one in commands]
    return True


def _scope(arguments: dict[str, Any]) -> str:
    scope = object_of(arguments.get("scope")).get("type", "default")
    if scope not in {"default", "all_private_chats", "all_group_chats", "all_chat_administrators"}:
        raise bad("BOT_COMMAND_SCOPE_INVALID")
    return str(scope)


METHODS: dict[str, Callable[[Chats, dict[str, Any]], Any]] = {
    "getMe": lambda _chats, _arguments: BOT,
    "sendMessage": send_message,
    "editMessageText": edit_message_text,
    "deleteMessage": delete_message,
    "sendChatAction": send_chat_action,
    "sendMessageDraft": send_message_draft,
    "setMyCommands": set_my_commands,
    "getMyCommands": lambda chats, arguments: chats.menus.get(_scope(arguments), []),
    "editMessageReplyMarkup": edit_message_reply_markup,
    "answerCallbackQuery": answer_callback_query,
    "setMessageReaction": set_message_reaction,
    "getChatMember": lambda chats, arguments: {
        "user": {"id": int(arguments["user_id"]), "is_bot": False, "first_name": "Anna"},
        **chats.rank(chat_of(chats, arguments), int(arguments["user_id"])),
    },
    "getChat": lambda chats, arguments: {
        **chats.people[chat_of(chats, arguments)],
        "accent_color_id": 0,
        "max_reaction_count": 11,
    },
}
