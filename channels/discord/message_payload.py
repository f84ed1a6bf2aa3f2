"""A message in the form in which Discord takes it: buttons in rows, a file beside the text, nobody pinged, no previews of addresses.

Importing this module loads the library.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import discord
from discord.http import MultipartParameters

from channels.discord.interactions import custom_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.messages import Button, OutboundFile

NO_PINGS: dict[str, Any] = {"parse": [], "replied_user": False}
QUIETLY = 1 << 2
"""The flag that suppresses embeds."""
SILENTLY = 1 << 12
"""The flag that suppresses the notification."""
IN_A_ROW = 5
ROWS = 5
LONGEST_LABEL = 80
_ROW, _BUTTON, _GREY = 1, 2, 2


def rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """Return buttons as rows of five. Discord shows 25 at most; what is beyond can still be typed."""
    shown = [
        {"type": _BUTTON, "style": _GREY, "label": _label(one.label), "custom_id": custom_id(number, one.value)}
        for number, one in enumerate(buttons[: IN_A_ROW * ROWS])
    ]
    return [{"type": _ROW, "components": shown[start : start + IN_A_ROW]} for start in range(0, len(shown), IN_A_ROW)]


def _label(label: str) -> str:
    line = " ".join(label.split()) or "…"
    return line if len(line) <= LONGEST_LABEL else f"{line[: LONGEST_LABEL - 1]}…"


def file_name(enclosure: OutboundFile) -> str:
    """Return a file's name with nothing in it that could end a header or be taken for a path."""
    return re.sub(r'[\x00-\x1f\x7f"\\/;]', "_", enclosure.name).strip(". ")[:100] or "file"


def multipart(message: dict[str, Any], enclosure: OutboundFile | None) -> MultipartParameters:
    """Return a message with its file, which is opened here and closed by the context manager that comes back."""
    if enclosure is None:
        return MultipartParameters(message, None, None)
    name = file_name(enclosure)
    file = discord.File(enclosure.path, filename=name, spoiler=False)
    told = {**message, "attachments": [{"id": 0, "filename": name}]}
    parts: list[dict[str, Any]] = [
        {"name": "payload_json", "value": json.dumps(told)},
        {"name": "files[0]", "value": file.fp, "filename": name, "content_type": "application/octet-stream"},
    ]
    return MultipartParameters(None, parts, [file])
