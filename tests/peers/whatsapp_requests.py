"""Which requests Meta takes, by its documentation; every other one is refused.

https://developers.facebook.com/documentation/business-messaging/whatsapp/reference/whatsapp-business-phone-number/message-api
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.peers.whatsapp_state import Refused

if TYPE_CHECKING:
    from tests.peers.whatsapp_state import Home

IMAGES = {"image/jpeg", "image/png"}
VIDEOS = {"video/mp4", "video/3gpp"}
SOUNDS = {"audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg"}
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCUMENTS = {
    "text/plain",
    "application/pdf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    f"{_OFFICE}wordprocessingml.document",
    f"{_OFFICE}spreadsheetml.sheet",
    f"{_OFFICE}presentationml.presentation",
}
TAKEN = IMAGES | VIDEOS | SOUNDS | DOCUMENTS | {"image/webp"}
MB = 1_048_576
SHOWN = {"image": (IMAGES, 5 * MB), "video": (VIDEOS, 16 * MB), "audio": (SOUNDS, 16 * MB), "document": (TAKEN, 100 * MB)}
FREE = {"text", "interactive", "reaction", *SHOWN, "sticker"}
USER_ID = re.compile(r"[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}")
_COMMON = {"messaging_product", "recipient_type", "to", "recipient", "type", "context", "biz_opaque_callback_data"}


def check_message(home: Home, body: dict[str, Any]) -> tuple[str, str]:
    """Return the place of a message and its type. Raises Refused."""
    _need(body.get("messaging_product") == "whatsapp", 100, "messaging_product is required, and must be whatsapp")
    kind = body.get("type", "text")
    _need(
        isinstance(kind, str) and kind in FREE | {"template"}, 100, f"Param type must be one of the known types, not {kind!r}"
    )
    _need(isinstance(body.get(kind), dict), 131008, f"Parameter {kind!r} is mandatory for type {kind!r}")
    _only(body, _COMMON | {kind}, "the message")
    place, group = _place(body)
    _need(len(str(body.get("biz_opaque_callback_data", "")).encode()) <= 512, 100, "biz_opaque_callback_data is too long")
    if (context := body.get("context")) is not None:
        _only(context, {"message_id"}, "context")
        _need(home.find(str(context.get("message_id"))) is not None, 131009, "context.message_id is not a message of this chat")
    _need(not (group and kind in {"interactive", "reaction", "sticker"}), 131051, "this type is not supported in groups")
    _CHECKS.get(kind, _media)(home, body[kind], kind)
    if kind in FREE and not home.open(place):
        raise Refused(131047, "Message failed to send because more than 24 hours have passed since the customer last replied")
    return place, kind


def check_seen(home: Home, body: dict[str, Any]) -> str:
    """Return which message is marked as read. Raises Refused."""
    _only(body, {"messaging_product", "status", "message_id", "typing_indicator"}, "the mark")
    _need(body.get("messaging_product") == "whatsapp" and body.get("status") == "read", 100, "status must be read")
    found = home.find(str(body.get("message_id")))
    _need(found is not None and found["from"] != "us" and not found.get("group"), 131009, "there is no such message to be read")
    _need(body.get("typing_indicator", {"type": "text"}) == {"type": "text"}, 100, "typing_indicator.type must be text")
    return str(body["message_id"])


def check_upload(fields: dict[str, str], media_type: str, content: bytes) -> str:
    """Return the type of a file that is uploaded. Raises Refused."""
    _only(fields, {"messaging_product", "type"}, "the form")
    _need(fields.get("messaging_product") == "whatsapp", 100, "messaging_product is required, and must be whatsapp")
    _need(fields.get("type") == media_type, 100, f"type {fields.get('type')!r} is not that of the file, {media_type!r}")
    _need(
        media_type in TAKEN, 100, f"Param file must be a file with one of the known types. Received file of type {media_type!r}"
    )
    _need(bool(content), 131053, "the file is empty")
    _need(len(content) <= 100 * MB, 131053, "the file is too large")
    return media_type


def _place(body: dict[str, Any]) -> tuple[str, bool]:
    group = body.get("recipient_type", "individual") == "group"
    _need(body.get("recipient_type", "individual") in {"individual", "group"}, 131009, "recipient_type is not valid")
    to, recipient = body.get("to"), body.get("recipient")
    _need((to is None) != (recipient is None), 131008, "exactly one of to and recipient is needed here")
    if recipient is not None:
        _need(isinstance(recipient, str) and bool(USER_ID.fullmatch(recipient)), 131009, "recipient is no user id")
        return str(recipient), False
    if group:
        _need(isinstance(to, str) and bool(re.fullmatch(r"[A-Za-z0-9+/=_-]{8,200}", to)), 131009, "to is no group")
    else:
        _need(isinstance(to, str) and bool(re.fullmatch(r"[1-9]\d{5,14}", to)), 131009, "to is no phone number in digits")
    return str(to), group


def _text(_: Home, content: dict[str, Any], __: str) -> None:
    _only(content, {"body", "preview_url"}, "text")
    _length(content.get("body"), 1, 4096, "text.body")
    _need(isinstance(content.get("preview_url", False), bool), 100, "preview_url must be true or false")


def _interactive(_: Home, content: dict[str, Any], __: str) -> None:
    _only(content, {"type", "body", "action", "header", "footer"}, "interactive")
    body, action = content.get("body"), content.get("action")
    _need(isinstance(body, dict) and isinstance(action, dict), 131008, "interactive needs body and action")
    assert isinstance(body, dict)
    assert isinstance(action, dict)
    match content.get("type"):
        case "button":
            _only(action, {"buttons"}, "action")
            _length(body.get("text"), 1, 1024, "interactive.body.text")
            buttons = action.get("buttons") or []
            _need(1 <= len(buttons) <= 3, 131009, "there must be 1 to 3 buttons")
            _need(all(one.get("type") == "reply" for one in buttons), 131009, "a button must be a reply")
            _choices([one["reply"] for one in buttons], 20, 256)
        case "list":
            _only(action, {"button", "sections"}, "action")
            _length(body.get("text"), 1, 4096, "interactive.body.text")
            _length(action.get("button"), 1, 20, "action.button")
            sections = action.get("sections") or []
            rows = [row for section in sections for row in section.get("rows", [])]
            _need(1 <= len(sections) <= 10 and 1 <= len(rows) <= 10, 131009, "there must be 1 to 10 rows in 1 to 10 sections")
            _need(len(sections) == 1 or all(section.get("title") for section in sections), 131009, "sections need titles")
            _choices(rows, 24, 200)
        case kind:
            raise Refused(131009, f"interactive.type {kind!r} is not valid")


def _choices(found: list[dict[str, Any]], title: int, identity: int) -> None:
    for one in found:
        _only(one, {"id", "title", "description"}, "a choice")
        _length(one.get("title"), 1, title, "title")
        _length(one.get("id"), 1, identity, "id")
        _length(one.get("description", "-"), 1, 72, "description")
    for key in ("id", "title"):
        _need(len({one[key] for one in found}) == len(found), 131009, f"{key}s must differ")


def _media(home: Home, content: dict[str, Any], kind: str) -> None:
    allowed = {"id"} | ({"caption"} if kind in {"image", "video", "document"} else set())
    _only(content, allowed | ({"filename"} if kind == "document" else {"voice"} if kind == "audio" else set()), kind)
    file = home.media.get(str(content.get("id")))
    _need(file is not None, 131009, f"there is no file {content.get('id')!r}")
    assert file is not None
    types, most = SHOWN.get(kind, ({"image/webp"}, 512_000))
    _need(file.media_type in types, 131053, f"a file of type {file.media_type!r} cannot be shown as {kind}")
    _need(len(file.content) <= most, 131053, f"the file is too large for {kind}")
    _length(content.get("caption", "-"), 1, 1024, "caption")
    _length(content.get("filename", "-"), 1, 240, "filename")
    if "voice" in content:
        _need(content["voice"] is True and file.media_type == "audio/ogg", 131053, "a voice message must be Ogg with Opus")


def _reaction(home: Home, content: dict[str, Any], _: str) -> None:
    _only(content, {"message_id", "emoji"}, "reaction")
    _need(home.find(str(content.get("message_id"))) is not None, 131009, "there is no such message to react to")
    emoji = content.get("emoji")
    _need((isinstance(emoji, str) and len(emoji) <= 8 and not emoji.isascii()) or emoji == "", 131009, "that is no emoji")


def _template(home: Home, content: dict[str, Any], _: str) -> None:
    _only(content, {"name", "language", "components"}, "template")
    found = home.templates.get(str(content.get("name")))
    code = (content.get("language") or {}).get("code")
    _need(found is not None and code == found.language, 132001, "template name does not exist in the translation", 404)
    assert found is not None
    values = [one for part in content.get("components", []) if part["type"] == "body" for one in part["parameters"]]
    _need(len(values) == found.variables, 132000, "number of parameters does not match the expected number of params")
    _need(all(one.get("type") == "text" and one.get("text") for one in values), 132012, "a parameter has the wrong format")
    _need(not found.paused, 132015, "template is paused due to low quality")


_CHECKS: dict[str, Any] = {"text": _text, "interactive": _interactive, "reaction": _reaction, "template": _template}


def _need(holds: bool, code: int, details: str, status: int = 400) -> None:
    if not holds:
        raise Refused(code, details, status)


def _only(content: dict[str, Any], known: set[str], where: str) -> None:
    for key in content:
        if key not in known:
            raise Refused(100, f"Invalid parameter: {where} has no {key!r}")


def _length(value: object, least: int, most: int, name: str) -> None:
    _need(
        isinstance(value, str) and least <= len(value) <= most and bool(value.strip()), 131009, f"{name}: 1 to {most} letters"
    )
