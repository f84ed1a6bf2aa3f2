"""Text that may be written to a terminal: a reply must not move the cursor, change titles or fill the clipboard."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Return the text without control characters, but for tabs and line ends."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))
