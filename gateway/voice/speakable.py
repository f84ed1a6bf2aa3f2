"""Turns an answer in Markdown into text that can be read out."""

from __future__ import annotations

import re
from typing import Final

from channels.common.markdown import plain, styled

_CODE: Final = re.compile(r"^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*\)")
_URL: Final = re.compile(r"<?\bhttps?://(?:www\.)?([^\s/<>()]+)[^\s<>]*>?")
_RULES: Final = re.compile(r"^[ \t]*[-*_=|:─┼│— \t]{3,}$", re.MULTILINE)
_CELLS: Final = re.compile(r"[ \t]*[|│][ \t]*")
_BLANK_LINES: Final = re.compile(r"\n{3,}")
CODE: Final = "(The code is in the text.)"


def speakable(markdown: str) -> str:
    """Return the words of an answer: without markup, with names of sites instead of addresses, and without code blocks."""
    text = _CODE.sub(CODE, markdown)
    text = _LINK.sub(r"\1", text)
    text = plain(styled(_URL.sub(r"\1", text)))
    text = _RULES.sub("", text)
    text = "\n".join(_CELLS.sub(", ", line.strip(" \t|│")) if "|" in line or "│" in line else line for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip()
