"""Words of others within texts of the gateway, such as names and titles in notices to the owner."""

from __future__ import annotations

import re
from typing import Final

_FORMATS: Final = re.compile(r"[`*\[\]<>~|\\]|(?<!\w)_|_(?!\w)")


def unformatted(text: str) -> str:
    """Return words of others as one line that is shown as it is: with signs of Markdown as code, so that nothing is a link or formatted."""
    line = " ".join(text.split())
    return line if _FORMATS.search(line) is None else f"`{line.replace('`', chr(39))}`"
