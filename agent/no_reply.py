"""The NO_REPLY token, with which an agent stays silent: removes it from replies, also while they are streamed.

A streamed answer is read once, letter by letter: time is linear in its length, however it is split.
"""

from __future__ import annotations

import re
from typing import Literal

TOKEN = "NO_REPLY"  # noqa: S105  (a word of the protocol, not a secret)
_MARKS = "*`\"'"
_STARTS = re.compile(rf"\s*[{_MARKS}]*{TOKEN}(?!\w)")

_State = Literal["text", "blanks", "marks", "token", "closing", "after"]


def without_no_reply(text: str) -> str:
    """Return what of a finished reply is for people: nothing when it begins with the token; without the token when it ends so."""
    if _STARTS.match(text):
        return ""
    end = _closing(text)
    return text if end is None else text[:end].rstrip()


class NoReplyFilter:
    """Lets a streamed reply through piece by piece, holding back whatever may yet turn out to be the token at either edge.

    What it lets through in all is what ``without_no_reply`` makes of the whole, up to blanks at the end.
    """

    def __init__(self) -> None:
        self._held: list[str] = []
        self._from = 0
        self._before = ""
        self._tail = _Tail()
        self._begun = False
        self._silent = False

    def feed(self, piece: str) -> str:
        """Take the next piece and return what may be shown now."""
        if self._silent or not piece:
            return ""
        tail = self._tail
        for letter in piece:
            if not self._begun:
                whole = tail.state == "token" and tail.matched == len(TOKEN)
                if whole and not _in_word(letter):
                    self._silent = True
                    return ""
            tail.read(letter)
            self._begun = self._begun or tail.start > 0 or tail.state not in {"blanks", "marks", "token"}
        self._held.append(piece)
        if tail.start == self._from:
            return ""
        held = "".join(self._held)
        at = tail.start - self._from
        shown, self._held, self._from = held[:at], [held[at:]], tail.start
        self._before = shown[-1]
        return shown

    def finish(self) -> str:
        """Return what was still held back and is for people after all."""
        held, self._held = "".join(self._held), []
        if self._silent:
            return ""
        if not self._begun:
            return without_no_reply(held)
        end = _closing(self._before + held)
        return held if end is None else held[: max(0, end - len(self._before))].rstrip()


class _Tail:
    """The end of a growing text that may be the beginning of a closing token.

    It is blanks, then marks, then the first letters of the token with marks and dots behind them, then blanks; any part may be
    missing. ``start`` is where it begins, counted from the beginning of the text; it never goes back.
    """

    def __init__(self) -> None:
        self.start = 0
        self.state: _State = "text"
        self.matched = 0
        self._at = 0
        self._run: int | None = None
        """Where the marks behind the token, or the blanks at the end, begin: a new tail may begin there."""
        self._word = False

    def read(self, letter: str) -> None:
        """Take the next letter."""
        if letter.isspace():
            self._blank()
        elif letter in _MARKS:
            self._mark()
        elif letter == "." and self.state in {"token", "closing"}:
            self.state, self._run = "closing", None
        elif self.state == "token" and self.matched < len(TOKEN) and letter == TOKEN[self.matched]:
            self.matched += 1
        elif letter == TOKEN[0] and not self._word:
            self._begin()
        else:
            self.state = "text"
        self._at += 1
        self._word = _in_word(letter)
        if self.state == "text":
            self.start = self._at

    def _blank(self) -> None:
        if self.state == "text":
            self.state, self.start = "blanks", self._at
        elif self.state not in {"blanks", "after"}:
            self.state, self._run = "after", self._at

    def _mark(self) -> None:
        if self.state == "text":
            self.state, self.start = "marks", self._at
        elif self.state == "blanks":
            self.state = "marks"
        elif self.state == "after":
            self.state, self.start = "marks", self._begin_of_run()
        elif self.state != "marks":
            self._run = self._at if self.state == "token" or self._run is None else self._run
            self.state = "closing"

    def _begin(self) -> None:
        if self.state == "text":
            self.start = self._at
        elif self.state in {"closing", "after"}:
            self.start = self._begin_of_run()
        self.state, self.matched = "token", 1

    def _begin_of_run(self) -> int:
        return self._at if self._run is None else self._run


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


def _closing(text: str) -> int | None:
    """Return where the token at the end of a text begins, with the marks before it; None where there is none."""
    body = text.rstrip().rstrip(_MARKS + ".")
    if not body.endswith(TOKEN):
        return None
    token = len(body) - len(TOKEN)
    marks = len(body[:token].rstrip(_MARKS))
    torn = marks > 0 and _in_word(body[marks - 1])
    if marks == token:
        return None if torn else token
    return marks + 1 if torn else marks
