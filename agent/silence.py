"""NO_REPLY: how an agent says that nothing is to be said, and how no part of it ever reaches a person."""

from __future__ import annotations

import re

TOKEN = "NO_REPLY"  # noqa: S105  (a word of the protocol, not a secret)
_STARTS = re.compile(rf"\s*[*`\"']*{TOKEN}(?!\w)")
_ENDS = re.compile(rf"(?<!\w)[*`\"']*{TOKEN}[*`\"'.]*\s*\Z")

_BEGINNINGS = "|".join(re.escape(TOKEN[:length]) for length in range(len(TOKEN), 0, -1))
_TAIL = re.compile(rf"\s*[*`\"']*(?:(?<!\w)(?:{_BEGINNINGS})[*`\"'.]*)?\s*\Z")


def spoken(text: str) -> str:
    """Return what of a finished reply is for people: nothing when it begins with the token; without the token when it ends so."""
    if _STARTS.match(text):
        return ""
    return _ENDS.sub("", text).rstrip() if _ENDS.search(text) else text


class Gate:
    """Lets a streamed reply through piece by piece, holding back whatever may yet turn out to be the token at either edge.

    What it lets through in all is what ``spoken`` makes of the whole, up to blanks at the end.
    """

    def __init__(self) -> None:
        self._held = ""
        self._before = ""
        self._begun = False
        self._silent = False

    def feed(self, piece: str) -> str:
        """Take the next piece and return what may be shown now."""
        if self._silent:
            return ""
        self._held += piece
        if not self._begun:
            bare = self._held.lstrip().lstrip("*`\"'")
            if TOKEN.startswith(bare) or bare == TOKEN:
                return ""
            if _STARTS.match(self._held):
                self._silent = True
                return ""
            self._begun = True
        keep = min(len(self._held), _doubtful_tail(self._before + self._held))
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        self._before = (self._before + shown)[-2 * len(TOKEN) :]
        return shown

    def finish(self) -> str:
        """Return what was still held back and is for people after all."""
        held, self._held = self._held, ""
        if self._silent:
            return ""
        if self._begun:
            closing = _ENDS.search(self._before + held)
            return held if closing is None else held[: max(0, closing.start() - len(self._before))].rstrip()
        return spoken(held)


def _doubtful_tail(text: str) -> int:
    """Return how many characters at the end may be the beginning of a closing token, with the blanks and marks around it."""
    match = _TAIL.search(text)
    return len(text) - match.start() if match else 0
