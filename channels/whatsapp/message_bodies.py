"""The bodies of requests to ``/messages``: text, buttons, lists, files, templates, reactions, and the mark that something was read.

https://developers.facebook.com/documentation/business-messaging/whatsapp/messages/send-messages
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from channels.whatsapp.markup import written
from channels.whatsapp.settings import LIMIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.messages import Button, ChatAddress
    from channels.whatsapp.settings import WhatsAppTemplate

MOST_BUTTONS, MOST_ROWS = 3, 10
BUTTON_TITLE, ROW_TITLE, ROW_DESCRIPTION = 20, 24, 72
BUTTON_BODY: Final = 1024
"""The longest text above buttons; above a list there is room for ``LIMIT``."""
CAPTION: Final = 1024
_OPENER: Final = "Choose"
_NO_TEXT: Final = "…"


def addressed(place: ChatAddress, *, key: str = "", reply_to: str | None = None) -> dict[str, Any]:
    """Return the beginning of a message. Somebody without a number is named in ``recipient``: in ``to`` Meta would lose the message."""
    to = "recipient" if place.kind == "direct" and "." in place.id else "to"
    return {
        "messaging_product": "whatsapp",
        "recipient_type": "group" if place.kind == "group" else "individual",
        to: place.id,
        **({"biz_opaque_callback_data": key} if key else {}),
        **({"context": {"message_id": reply_to}} if reply_to else {}),
    }


def text(markdown: str) -> dict[str, Any]:
    """Return a text in WhatsApp's marks, without a preview of its links: Meta would fetch them."""
    return {"type": "text", "text": {"body": written(markdown) or _NO_TEXT, "preview_url": False}}


def choices(markdown: str, buttons: Sequence[Button], *, group: bool) -> dict[str, Any]:
    """Return a text with buttons below it; a list where they are too many or the text too long, words where WhatsApp shows neither."""
    body, labels = written(markdown) or _NO_TEXT, [_label(button.label) for button in buttons]
    if group or len(buttons) > MOST_ROWS:
        values = " · ".join(f"`{button.value}`" for button in buttons if button.value not in markdown)
        return text("\n\n".join(filter(None, [markdown, values])))
    if len(buttons) <= MOST_BUTTONS and len(body) <= BUTTON_BODY:
        titles = _unlike([_cut(label, BUTTON_TITLE) for label in labels], BUTTON_TITLE)
        replies = [
            {"type": "reply", "reply": {"id": button.value, "title": title}}
            for button, title in zip(buttons, titles, strict=True)
        ]
        return _interactive("button", body, {"buttons": replies})
    titles = _unlike([_cut(label, ROW_TITLE) for label in labels], ROW_TITLE)
    rows = [
        {
            "id": button.value,
            "title": title,
            **({} if title == label else {"description": _cut(label, ROW_DESCRIPTION)}),
        }
        for button, title, label in zip(buttons, titles, labels, strict=True)
    ]
    return _interactive("list", body[:LIMIT], {"button": _OPENER, "sections": [{"rows": rows}]})


def _interactive(kind: str, body: str, action: dict[str, Any]) -> dict[str, Any]:
    return {"type": "interactive", "interactive": {"type": kind, "body": {"text": body}, "action": action}}


def media(kind: str, media_id: str, *, caption: str = "", name: str = "", voice: bool = False) -> dict[str, Any]:
    """Return a file that was uploaded."""
    content: dict[str, Any] = {"id": media_id}
    if caption:
        content["caption"] = caption
    if kind == "document" and name:
        content["filename"] = name[:240]
    if voice:
        content["voice"] = True
    return {"type": kind, kind: content}


def template(chosen: WhatsAppTemplate) -> dict[str, Any]:
    """Return a template with its parameters."""
    parameters = [{"type": "text", "text": value} for value in chosen.parameters]
    components = {"components": [{"type": "body", "parameters": parameters}]} if parameters else {}
    return {"type": "template", "template": {"name": chosen.name, "language": {"code": chosen.language}, **components}}


def reaction(message: str, emoji: str | None) -> dict[str, Any]:
    """Return a reaction; None takes the former one off."""
    return {"type": "reaction", "reaction": {"message_id": message, "emoji": emoji or ""}}


def seen(message: str) -> dict[str, Any]:
    """Return the mark that a message, and all before it, was read, with the sign that an answer is being written."""
    return {
        "messaging_product": "whatsapp",
        "status": "read",
        "message_id": message,
        "typing_indicator": {"type": "text"},
    }


def _label(label: str) -> str:
    return " ".join(label.split()) or _NO_TEXT


def _cut(label: str, most: int) -> str:
    return label if len(label) <= most else f"{label[: most - 1].rstrip()}…"


def _unlike(titles: list[str], most: int) -> list[str]:
    """Number titles of which two are alike: WhatsApp wants them to differ."""
    if len({title.casefold() for title in titles}) == len(titles):
        return titles
    return [_cut(f"{number} {title}", most) for number, title in enumerate(titles, 1)]
