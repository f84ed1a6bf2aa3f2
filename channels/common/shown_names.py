"""Names that others chose, within what a person wrote."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

LONGEST: Final = 32
_MARKS: Final = re.compile(r"[\[\]()<>“”„\"`|]")


def shown_name(name: object, most: int = LONGEST) -> str:
    """Return a name in quotation marks, as one plain and short line; "" where nothing of it can be read."""
    if not isinstance(name, str):
        return ""
    seen = "".join(" " if category(letter)[0] in "CZ" else letter for letter in name)
    plain = " ".join(_MARKS.sub("", seen).split())
    if not plain:
        return ""
    return f"“{plain if len(plain) <= most else plain[: most - 1].rstrip() + '…'}”"


def sticker(name: object) -> str:
    """Describe a sticker by the name that its maker gave it."""
    shown = shown_name(name)
    return f"[sticker {shown}]" if shown else "[sticker]"
