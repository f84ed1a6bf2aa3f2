"""Reads the messages of a call of Meta's as ``Inbound``.

https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from channels.messages import Attachment, AttachmentKind, ChatAddress, Inbound, Sender

if TYPE_CHECKING:
    from collections.abc import Mapping

QUOTED: Final = 500
LONGEST_FACT: Final = 200
_FILES: Final[dict[str, AttachmentKind]] = {
    "image": "image",
    "sticker": "image",
    "video": "video",
    "audio": "audio",
    "document": "document",
}
_PASSED: Final = {
    "revoke": "a message that was taken back",
    "request_welcome": "a chat that was opened",
    "system": "a notice, such as of a number that changed",
}
"""Kinds that say nothing to the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A message, or in ``passed`` why it is none."""

    inbound: Inbound | None = None
    passed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who wrote a message, where, and what is known of the one that it quotes."""

    account: str
    own_number: str
    person: str
    name: str
    quoted: str = ""
    quotes_us: bool = False


def context_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a message says of the one that it answers, or whether it was forwarded."""
    context = raw.get("context")
    return context if isinstance(context, dict) else {}


def read(raw: Mapping[str, Any], by: Writer) -> Reading:
    """Read one message. Raises one of ``event_guard.MALFORMED``."""
    kind = str(raw.get("type") or "")
    if kind in _PASSED:
        return Reading(passed=_PASSED[kind])
    if kind == "reaction":
        return _reaction(raw, by)
    if kind == "edit":
        return _edit(raw, by)
    if kind == "interactive" and (pressed := _pressed(raw)) is not None:
        return _event(raw, by, "button", str(pressed["id"]), _target(raw))
    return _message(raw, by)


def _message(raw: Mapping[str, Any], by: Writer) -> Reading:
    files, text = attachments(raw), readable(raw)
    if not text and not files:
        return Reading(passed="nothing that could be read")
    place, context = _place(raw, by), context_of(raw)
    return Reading(
        inbound=Inbound(
            conversation=place,
            sender=Sender(id=by.person, name=by.name),
            text=text,
            at=moment(raw),
            key=_id(raw),
            alias=_id(raw),
            message_id=_id(raw),
            reply_to=str(context["id"]) if context.get("id") else None,
            mentioned=place.kind == "direct" or by.quotes_us or f"@{by.own_number}" in text,
            quoted=by.quoted[:QUOTED],
            attachments=files,
        )
    )


def _reaction(raw: Mapping[str, Any], by: Writer) -> Reading:
    reaction = raw["reaction"]
    emoji = str(reaction.get("emoji") or "")
    if not emoji:
        return Reading(passed="a reaction that was taken off")
    return _event(raw, by, "reaction", emoji, str(reaction["message_id"]))


def _edit(raw: Mapping[str, Any], by: Writer) -> Reading:
    edit = raw["edit"]
    fresh = edit["message"]
    return _event(raw, by, "edited", readable(fresh), str(edit["original_message_id"]))


def _event(raw: Mapping[str, Any], by: Writer, event: Any, text: str, target: str | None) -> Reading:
    place = _place(raw, by)
    return Reading(
        inbound=Inbound(
            conversation=place,
            sender=Sender(id=by.person, name=by.name),
            text=text,
            at=moment(raw),
            key=_id(raw),
            alias=_id(raw),
            message_id=_id(raw) if event == "button" or not target else target,
            mentioned=True,
            event=event,
            target=target,
        )
    )


def _place(raw: Mapping[str, Any], by: Writer) -> ChatAddress:
    group = raw.get("group_id")
    if group and not isinstance(group, str):
        raise ValueError("a group whose id is no text")
    return ChatAddress(channel="whatsapp", account=by.account, kind="group" if group else "direct", id=group or by.person)


def _id(raw: Mapping[str, Any]) -> str:
    found = raw["id"]
    if not isinstance(found, str) or not found:
        raise ValueError("a message without an id")
    return found


def _target(raw: Mapping[str, Any]) -> str | None:
    found = context_of(raw).get("id")
    return str(found) if found else None


def moment(raw: Mapping[str, Any]) -> datetime:
    """Return when a message was written. Raises ValueError, OverflowError or OSError for what is no time."""
    return datetime.fromtimestamp(int(raw["timestamp"]), UTC)


def attachments(raw: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Return the file of a message."""
    kind = str(raw.get("type") or "")
    if kind not in _FILES:
        return ()
    file = raw[kind]
    spoken = kind == "audio" and file.get("voice") is True
    forwarded = _forwarded(context_of(raw))
    return (
        Attachment(
            kind="voice" if spoken else _FILES[kind],
            handle=str(file["id"]),
            name=str(file.get("filename") or ""),
            media_type=str(file.get("mime_type") or "").partition(";")[0].strip(),
            recorded=spoken and not forwarded,
        ),
    )


def readable(raw: Mapping[str, Any]) -> str:
    """Return what a message says, with words for what is no text, and whose words they are."""
    kind = str(raw.get("type") or "")
    content = raw.get(kind)
    content = content if isinstance(content, dict) else {}
    own = str(content.get("body") or "") if kind == "text" else str(content.get("caption") or "")
    parts = [own, *(f"[{line}]" for line in _described(kind, raw, content))]
    if kind == "button":
        parts.append(str(content.get("text") or content.get("payload") or ""))
    text = "\n".join(filter(None, parts))
    forwarded = _forwarded(context_of(raw)) or _named_by_others(kind, content)
    if not forwarded:
        return text
    return f"[{forwarded}]\n{text or f'[{kind}]'}"


def _forwarded(context: Mapping[str, Any]) -> str:
    if context.get("frequently_forwarded"):
        return "forwarded from many chats"
    return "forwarded" if context.get("forwarded") else ""


def _named_by_others(kind: str, content: Mapping[str, Any]) -> str:
    """Say whose words a contact and a place have: others gave them their names."""
    if kind == "contacts":
        return "forwarded from a contact"
    return "forwarded from a map" if kind == "location" and (content.get("name") or content.get("address")) else ""


def _described(kind: str, raw: Mapping[str, Any], content: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "text" | "image" | "video" | "audio" | "document" | "button":
            return
        case "sticker":
            yield "sticker, animated" if content.get("animated") else "sticker"
        case "location":
            yield _location(content)
        case "contacts":
            for contact in raw.get("contacts") or ():
                yield _contact(contact)
        case "interactive":
            yield f"answer to a form: {_line(_form(content))}"
        case "order":
            yield f"order of {len(content.get('product_items') or ())} products"
        case _:
            yield _unknown(kind, raw, content)


def _location(content: Mapping[str, Any]) -> str:
    at = f"{float(content['latitude']):.5f}, {float(content['longitude']):.5f}"
    named = ", ".join(filter(None, (_line(content.get("name")), _line(content.get("address")))))
    return f"place: {named} ({at})" if named else f"location: {at}"


def _contact(contact: Mapping[str, Any]) -> str:
    name = _line((contact.get("name") or {}).get("formatted_name"))
    reached = [one.get(key) for of, key in (("phones", "phone"), ("emails", "email")) for one in contact.get(of) or ()]
    return f"contact: {', '.join(filter(None, (name, *(_line(one) for one in reached))))}"


def _form(content: Mapping[str, Any]) -> str:
    reply = content.get("nfm_reply")
    return str(reply.get("response_json") or "") if isinstance(reply, dict) else ""


def _unknown(kind: str, raw: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Say plainly that something came which WhatsApp shows to no program: a poll, a message that disappears, a call."""
    errors = raw.get("errors")
    error = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    data = error.get("error_data")
    details = _line(data.get("details") if isinstance(data, dict) else "") or _line(error.get("title"))
    which = _line(content.get("type")) or ("" if kind == "unsupported" else _line(kind))
    text = ": ".join(filter(None, (which, details)))
    return f"something that WhatsApp does not show to programs{f' ({text})' if text else ''}"


def _pressed(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    content = raw["interactive"]
    found = content.get("button_reply") or content.get("list_reply")
    return found if isinstance(found, dict) else None


def _line(value: object) -> str:
    text = " ".join(str(value or "").replace("[", "(").replace("]", ")").split())
    return text if len(text) <= LONGEST_FACT else f"{text[: LONGEST_FACT - 1]}…"
