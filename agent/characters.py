"""Invisible and control characters in text."""

from __future__ import annotations

import re

SEEN = re.compile(
    "[^\\s\x00-\x1f\x7f-\xa0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Anything but blanks, controls, and what Unicode says is shown as nothing (``Default_Ignorable_Code_Point``, empty Braille)."""
_SMUGGLED = re.compile(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that are shown as nothing and can hold text of their own (tags, variation selectors) or turn it round. The joiners of emoji
and of several scripts are not among them."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def is_blank(text: str) -> bool:
    """Tell whether a text shows nothing: it is empty, or of blanks and characters of no width alone."""
    return SEEN.search(text) is None


def without_controls(text: str) -> str:
    """Return the text with U+FFFD for each control character and lone surrogate. Tabs and line ends stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def without_smuggled(text: str) -> str:
    """Return the text without characters that no reader sees and a model reads all the same, and without control characters."""
    return _CONTROL.sub("", _SMUGGLED.sub("", text))
