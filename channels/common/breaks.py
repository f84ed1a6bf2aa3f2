"""Where a text may be cut: after a line, a sentence, a word; never inside what a reader sees as one letter."""

from __future__ import annotations

import re
import unicodedata

_BREAKS = (
    re.compile(r"\n+"),
    re.compile(r"(?<=[.!?…])[\"')\]”’»]*\s+|(?<=[。！？])"),
    re.compile(r"\s+"),
)
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
EARLIEST = 0.4
"""A break before this share of the room would waste the message."""
TRIED = 100
"""So many breaks of a kind are looked at for one outside of all marks, the last ones first."""


def best_break(text: str, room: int, *, levels: int = len(_BREAKS)) -> int:
    """Return where to cut so that at most ``room`` letters stand before the cut, at least one.

    The first ``levels`` kinds of break are tried; a break inside bold, code or a link is taken only when there is no other.
    """
    if room >= len(text):
        return len(text)
    window = text[:room]
    earliest = max(1, int(room * EARLIEST))
    found = [[match.end() for match in kind.finditer(window) if match.end() >= earliest] for kind in _BREAKS[:levels]]
    for ends in found:
        for end in ends[: -TRIED - 1 : -1]:
            if closed(window[:end]):
                return end
    for ends in found:
        if ends:
            return ends[-1]
    return whole_letter(text, room)


def closed(text: str) -> bool:
    """Tell whether no inline mark is left open."""
    return (
        text.count("`") % 2 == 0
        and text.count("**") % 2 == 0
        and text.rfind("](") <= text.rfind(")")
        and text.count("[") <= text.count("]")
    )


def whole_letter(text: str, end: int) -> int:
    """Move a cut back to where no grapheme is cut, unless that would leave nothing."""
    here = end
    while here > 0 and _joined(text[here - 1], text[here], text[:here]):
        here -= 1
    return here or end


def _joined(before: str, after: str, head: str) -> bool:
    """Tell whether two letters are shown as one (the common rules of Unicode's annex 29)."""
    if after in _JOINERS or before == "\u200d" or unicodedata.category(after).startswith("M"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or (before, after) == ("\r", "\n"):
        return True
    if _flag(before) and _flag(after):
        flags = len(head) - len(head.rstrip("".join(map(chr, range(0x1F1E6, 0x1F200)))))
        return flags % 2 == 1
    return False


def _flag(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"
