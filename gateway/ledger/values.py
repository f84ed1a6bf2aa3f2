"""How values are written into the ledger's columns and read back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, fields

from channels.messages import Button, ChatAddress, OutboundFile

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIELDS = frozenset(field.name for field in fields(ChatAddress))


WITHIN = "(conversation = :at OR substr(conversation, 1, length(:at) + 8) = :at || ':thread:')"
"""SQL condition: the conversation with the address ``:at``, or one of its threads."""


def stamp(instant: datetime) -> int:
    """Return microseconds since 1970, exactly."""
    return (instant - _START) // _MICROSECOND


def instant(microseconds: int) -> datetime:
    """The reverse of ``stamp``."""
    return _START + timedelta(microseconds=microseconds)


def clean(text: str) -> str:
    """Replace lone surrogates, which SQLite does not accept; pairs become the character they encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


NUMBERS = "(SELECT CAST(value AS BIGINT) FROM json_each(?))"
"""SQL for the right side of IN: numbers that are bound as ``listed`` writes them."""


def listed(values: Iterable[int] | Iterable[str]) -> str:
    """Encode values for ``IN (SELECT value FROM json_each(?))``, which are texts; for numbers see ``NUMBERS``."""
    return json.dumps(list(values))


@lru_cache(maxsize=256)
def write_conversation(conversation: ChatAddress) -> str:
    """Encode an address as JSON."""
    return json.dumps({name: value for name, value in asdict(conversation).items() if value is not None})


@lru_cache(maxsize=256)
def read_conversation(text: str) -> ChatAddress:
    """Decode an address from JSON. Fields of later versions are ignored. A conversation's rows all have the same."""
    return as_conversation(json.loads(text))


def as_conversation(written: dict[str, Any]) -> ChatAddress:
    """Make an address from its fields. Fields of later versions are ignored."""
    return ChatAddress(**{name: value for name, value in written.items() if name in _FIELDS})


def account_of(conversation: ChatAddress) -> str:
    """Return the ledger's name for a channel's account, such as ``telegram:default``."""
    return f"{conversation.channel}:{conversation.account}"


def write_payload(buttons: Sequence[Button], enclosure: OutboundFile | None) -> str | None:
    """Encode buttons and a file as JSON; None when there are none."""
    if not buttons and enclosure is None:
        return None
    written: dict[str, object] = {"buttons": [[button.label, button.value] for button in buttons]}
    if enclosure is not None:
        written["enclosure"] = _written_file(enclosure)
    return json.dumps(written, separators=(",", ":"))


def read_payload(extras: str | None) -> tuple[tuple[Button, ...], OutboundFile | None]:
    """Decode what ``write_payload`` encoded."""
    if extras is None:
        return (), None
    written = json.loads(extras)
    buttons = tuple(Button(label=label, value=value) for label, value in written["buttons"])
    found = written.get("enclosure")
    if found is None:
        return buttons, None
    return buttons, _read_file(found)


def _written_file(file: OutboundFile) -> dict[str, object]:
    written: dict[str, object] = {"path": str(file.path), "name": file.name, "type": file.media_type}
    if file.caption:
        written["caption"] = file.caption
    if file.album:
        written["album"] = [_written_file(one) for one in file.album]
    return written


def _read_file(written: dict[str, Any]) -> OutboundFile:
    return OutboundFile(
        path=Path(written["path"]),
        name=written["name"],
        media_type=written["type"],
        caption=written.get("caption", ""),
        album=tuple(_read_file(one) for one in written.get("album", ())),
    )
