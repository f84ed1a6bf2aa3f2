"""Removes control characters, and what is not seen, from text of others before it is shown."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_UNSEEN = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
"""What is not seen itself, but rearranges what is around it or hides letters. Joiners within emoji and words of other scripts stay."""
_LINE_ENDS = re.compile("\r\n|[\u2028\u2029]")


def visible(text: str) -> str:
    """Return the text without control characters, but for tabs and line ends, and without what changes the direction of writing."""
    return _UNSEEN.sub("", _CONTROL.sub("", _LINE_ENDS.sub("\n", text)))
