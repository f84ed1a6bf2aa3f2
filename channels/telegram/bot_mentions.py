"""The text of a message: whether it addresses the bot, its name in front removed, and rich messages as Markdown.

Offsets are in UTF-16 code units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from telegram.constants import MessageEntityType

from channels.messages import Attachment, AttachmentKind

if TYPE_CHECKING:
    from telegram import Message, MessageEntity


_PUNCTUATION = " \t\n,:;-–—.!?"
_CALLED = re.compile(r"[.!?]*[ \t\n,:;–—-]*")
"""What stands behind the name that a message begins with; a mark before a word, as in "!status", is the word's."""


@dataclass(frozen=True, slots=True)
class Me:
    """The bot. ``username`` is without the @; names are compared without regard to case, as Telegram does."""

    id: int
    username: str

    def is_named(self, name: str) -> bool:
        """Return whether ``@name`` or ``name`` is this bot's."""
        return name.removeprefix("@").casefold() == self.username.casefold()


class Written:
    """The text or caption of a message, with its entities."""

    def __init__(self, message: Message, me: Me) -> None:
        self.text = message.text or message.caption or ""
        self._entities: Sequence[MessageEntity] = message.entities if message.text else message.caption_entities
        self._units = self.text.encode("utf-16-le", "surrogatepass")
        self._me = me

    def mentions_me(self) -> bool:
        """Return whether the bot is named: by @name, by a mention that carries its id, or behind a command."""
        return any(self._means_me(one) or self._commands(one) == "me" for one in self._entities)

    def commands_another(self) -> bool:
        """Return whether it begins with a command to another bot, as in ``/help@other_bot``."""
        return any(one.offset == 0 and self._commands(one) == "another" for one in self._entities)

    def readable(self) -> str:
        """Return the text with the addresses behind links, and without the bot's name before it, behind it, or on a command."""
        changes = [change for one in self._entities if (change := self._change(one)) is not None]
        units = self._units
        for start, end, text in sorted(changes, reverse=True):
            units = units[: 2 * start] + text.encode("utf-16-le", "surrogatepass") + units[2 * end :]
        return units.decode("utf-16-le", "surrogatepass").strip()

    def _change(self, entity: MessageEntity) -> tuple[int, int, str] | None:
        start, end = entity.offset, entity.offset + entity.length
        if entity.type == MessageEntityType.TEXT_LINK and entity.url and entity.url != self._part(start, end):
            return end, end, f" ({entity.url})"
        if self._commands(entity) == "me":
            return start + self._part(start, end).index("@"), end, ""
        if not self._means_me(entity):
            return None
        after = self._part(end, len(self._units) // 2)
        before = self._part(0, start)
        if not before.strip():
            called = _CALLED.match(after)
            return 0, end + (called.end() if called else 0), ""
        return (start - len(before) + len(before.rstrip(" ,")), end, "") if not after.strip(_PUNCTUATION) else None

    def _means_me(self, entity: MessageEntity) -> bool:
        if entity.type == MessageEntityType.TEXT_MENTION:
            return entity.user is not None and entity.user.id == self._me.id
        named = entity.type == MessageEntityType.MENTION
        return named and self._me.is_named(self._part(entity.offset, entity.offset + entity.length))

    def _commands(self, entity: MessageEntity) -> str:
        """Return "me" or "another" for a command that names a bot, else nothing."""
        if entity.type != MessageEntityType.BOT_COMMAND:
            return ""
        _, at, name = self._part(entity.offset, entity.offset + entity.length).partition("@")
        if not at:
            return ""
        return "me" if self._me.is_named(name) else "another"

    def _part(self, start: int, end: int) -> str:
        return self._units[2 * start : 2 * end].decode("utf-16-le", "replace")


MOST_PARTS: Final = 50_000
"""Pieces of a message that are looked at; Telegram's own limits lie far below."""
_BLOCKS: Final = frozenset(
    {
        *("paragraph", "heading", "pre", "footer", "blockquote", "expandable_blockquote", "pullquote"),
        *("collage", "slideshow", "details", "buttons", "thinking"),
    }
)
_WITHIN: Final = ("summary", "text", "blocks", "button", "buttons", "caption", "credit")
"""Where other blocks and texts lie, in the order in which they are shown."""
_FILES: Final[dict[str, tuple[AttachmentKind, str]]] = {
    "voice_note": ("voice", "audio/ogg"),
    "audio": ("audio", ""),
    "animation": ("video", "video/mp4"),
    "video": ("video", ""),
    "document": ("document", ""),
    "photo": ("image", "image/jpeg"),
}


@dataclass(slots=True)
class Rich:
    """The content of a rich message. ``names`` are the mentioned user names, ``people`` the mentioned ids."""

    text: str = ""
    files: list[Attachment] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    people: set[int] = field(default_factory=set)


def rich(message: Message) -> Rich | None:
    """Return the rich content of a message, or None. Never raises, whatever it holds."""
    raw: Any = message.api_kwargs.get("rich_message")
    if raw is None and getattr(message, "rich_message", None) is not None:  # a library that knows it
        raw = message.to_dict().get("rich_message")
    if not isinstance(raw, dict):
        return None
    found, said = Rich(), []
    left: list[Any] = [raw.get("blocks")]
    for _ in range(MOST_PARTS):
        if not left:
            break
        part = left.pop()
        if isinstance(part, str):
            said.append(part)
        elif isinstance(part, list):
            left.extend(reversed(part))
        elif isinstance(part, dict):
            left.extend(reversed(_parts(part, found)))
    lines = "\n".join(line.rstrip() for line in "".join(said).splitlines())
    found.text = re.sub(r"\n{3,}", "\n\n", lines).strip()
    return found


def _parts(node: dict[str, Any], found: Rich) -> list[Any]:
    """Return the parts of a node in order: texts and nodes."""
    kind = str(node.get("type") or "")
    _note_mention(node, found)
    if kind in _FILES:
        return ["\n", _file(kind, node.get(kind), found), " ", node.get("caption"), "\n"]
    if kind in _SPECIAL:
        return _SPECIAL[kind](node)
    within = [node[name] for name in _WITHIN if name in node]
    if not within and kind and kind != "anchor":
        return [f"[{kind.replace('_', ' ')}]"]
    return ["\n", *_apart(within), "\n"] if kind in _BLOCKS else within


def _apart(parts: list[Any]) -> list[Any]:
    return [one for part in parts for one in (part, "\n")][:-1]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _link(node: dict[str, Any]) -> list[Any]:
    address = node.get("url")
    return [node.get("text"), f" ({address})" if isinstance(address, str) and address != node.get("text") else ""]


def _items(node: dict[str, Any]) -> list[Any]:
    return ["\n", *(part for item in _list(node.get("items")) for part in _item(item)), "\n"]


def _table(node: dict[str, Any]) -> list[Any]:
    return ["\n", node.get("caption"), *(part for row in _list(node.get("cells")) for part in _row(row)), "\n"]


def _item(item: Any) -> list[Any]:
    if not isinstance(item, dict):
        return []
    box = ("[x] " if item.get("is_checked") else "[ ] ") if item.get("has_checkbox") else ""
    label = item.get("label")
    mark = f"{label} " if isinstance(label, str) and label.strip() else "- "
    blocks = _list(item.get("blocks"))
    first = [part.get("text") for part in blocks[:1] if isinstance(part, dict) and part.get("type") == "paragraph"]
    return ["\n", mark, box, *first, *blocks[len(first) :]]


def _row(row: Any) -> list[Any]:
    cells = [cell.get("text", "") if isinstance(cell, dict) else "" for cell in _list(row)]
    return ["\n", *[one for cell in cells for one in (cell, " | ")][:-1]]


def _place(location: Any) -> str:
    try:
        return f"[location: {float(location['latitude']):.5f}, {float(location['longitude']):.5f}]"
    except (TypeError, KeyError, ValueError, OverflowError):
        return "[location]"


def _file(kind: str, file: Any, found: Rich) -> str:
    sizes = [one for one in (_list(file) or [file]) if isinstance(one, dict) and isinstance(one.get("file_id"), str)]
    if sizes:
        file = max(sizes, key=lambda one: _number(one.get("width")) * _number(one.get("height")))
        name, media, size = file.get("file_name"), file.get("mime_type"), file.get("file_size")
        as_kind, usual = _FILES[kind]
        found.files.append(
            Attachment(
                kind=as_kind,
                handle=file["file_id"],
                name=name if isinstance(name, str) else "",
                media_type=media if isinstance(media, str) else usual,
                size=size if isinstance(size, int) and size >= 0 else None,
            )
        )
    return f"[{kind.replace('_', ' ')}]"


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def _note_mention(node: dict[str, Any], found: Rich) -> None:
    if isinstance(name := node.get("username"), str):
        found.names.add(name)
    user = node.get("user")
    if isinstance(user, dict) and isinstance(number := user.get("id"), int):
        found.people.add(number)


_SPECIAL: Final[dict[str, Callable[[dict[str, Any]], list[Any]]]] = {
    "custom_emoji": lambda node: [node.get("alternative_text")],
    "mathematical_expression": lambda node: [node.get("expression")],
    "url": _link,
    "divider": lambda _: ["\n---\n"],
    "list": _items,
    "table": _table,
    "map": lambda node: ["\n", _place(node.get("location")), " ", node.get("caption"), "\n"],
}
"""What is made of other parts than text and blocks."""
