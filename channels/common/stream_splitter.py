"""Splits an answer while it is still being written, so that the finished part can be sent as a message of its own.

It splits at the first suitable place: after a paragraph, a line, a sentence, a word. Code blocks and tables are kept whole while
possible; a code block that has to be split is closed, and opened again in the next message. Splitting removes no character: all
pieces together are the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from channels.common.breaks import Fence

Preference = Literal["paragraph", "newline", "sentence"]

_KINDS = (
    re.compile(r"\n(?:[ \t\r]*\n)+"),
    re.compile(r"\n"),
    re.compile(r"(?<!\d)(?<=[.!?…])[\"')\]”’»*_]*[ \t]+|(?<=[。！？])"),
    re.compile(r"[ \t]+"),
)
_EAGER = {"paragraph": 1, "newline": 2, "sentence": 3}
_READ_OTHERWISE = re.compile(r"(?:\d{1,9}[.)]|[-+*]|#{1,6}|=+|-+)(?:\s|\Z)|>")
"""Text that would be a list, a heading or a quote at the beginning of a message, and is none in the middle of a line."""
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*(?:\n|\Z)")
_DONE = re.compile(r"(?:(?<!\d)[.!?…:]|[。！？])[\"')\]”’»*_]*\s*\Z|\n\Z")


class Limits(Struct, frozen=True):
    """How long pieces are, in characters of Markdown: at least ``least`` while more is to come, at most ``most``.

    A piece that is long enough is split at a place of the kind ``prefer``; at other places only if it would become too long.
    """

    least: int
    most: int
    prefer: Preference = "paragraph"


class Piece(Struct, frozen=True):
    """The next ``text`` of an answer; ``opening`` and ``closing`` go around it where it begins or ends inside a code block."""

    text: str
    opening: str = ""
    closing: str = ""


def next_piece(
    text: str,
    limits: Limits,
    opening: str = "",
    *,
    resting: bool = False,
    allowed: Callable[[int], bool] = lambda _: True,
) -> Piece | None:
    """Return the part of ``text`` that may be sent now, or None to wait for more.

    ``opening`` is what the previous piece requires before this one (see ``reopening``). ``resting``: nothing has arrived for a
    while, so that text ending with a sentence may be sent too. Text is never split where ``allowed`` returns False.
    """
    cut = _Cut(opening + text, len(opening), limits, allowed)
    if len(opening) + len(text) > limits.most:
        end = cut.at_last()
    elif resting:
        end = cut.best(_KINDS[:3], at_end=True)
    else:
        end = cut.best(_KINDS[: _EAGER[limits.prefer]])
    if end is None:
        return None
    return Piece((opening + text)[len(opening) : end], opening, cut.closing(end))


def reopening(text: str) -> str:
    """Return what must precede the continuation of a text that ends inside a code block; else an empty string."""
    from channels.common.breaks import fences

    last = next((fence for fence in reversed(list(fences(text))) if fence.end is None), None)
    return "" if last is None else last.opening


def alone(text: str, opening: str, closing: str) -> str:
    """Return a piece as a complete text. A code block of which only the end is left is dropped."""
    if opening and (over := re.match(rf"\s*{re.escape(opening.split(maxsplit=1)[0][0])}{{3,}}[ \t\r]*(?:\n|\Z)", text)):
        return text[over.end() :] + closing
    return opening + text + closing


class _Cut:
    """One search for a split. Positions count from the start of ``source``, which begins with ``given`` characters of an opening."""

    def __init__(self, source: str, given: int, limits: Limits, allowed: Callable[[int], bool]) -> None:
        from channels.common.breaks import fences

        self._source = source
        self._given = given
        self._limits = limits
        self._allowed = allowed
        self._fences = list(fences(source))

    def best(self, kinds: Sequence[re.Pattern[str]], *, at_end: bool = False) -> int | None:
        """Return the last good position of the first kind that has one; with ``at_end`` the end itself may be one."""
        end = len(self._source)
        if at_end and _DONE.search(self._source) and self._fits(end) and self._whole(end):
            return end
        for kind in kinds:
            for place in reversed(self._places(kind)):
                if self._good(place, kind):
                    return place
        return None

    def at_last(self) -> int | None:
        """Return the best position there is; None only if all are forbidden."""
        good = self.best(_KINDS)
        if good is not None:
            return good
        places = [place for kind in _KINDS[1:] for place in reversed(self._places(kind))]
        outside = next((place for place in places if self._fence(place) is None), None)
        if outside is not None:
            return outside
        lines = (place for place in reversed(self._places(_KINDS[1])) if self._fence_goes_on(place))
        return next(lines, None) or self._anywhere()

    def closing(self, place: int) -> str:
        """Return what closes the code block at a position, if there is one."""
        fence = self._fence(place)
        return "" if fence is None else ("" if self._source[place - 1] == "\n" else "\n") + fence.mark

    def _places(self, kind: re.Pattern[str]) -> list[int]:
        return [match.end() for match in kind.finditer(self._source, self._given) if self._fits(match.end())]

    def _fits(self, place: int) -> bool:
        """Return whether a piece up to there has the right length and may end there."""
        if place <= self._given or place + len(self.closing(place)) > self._limits.most:
            return False
        return len(self._source[:place].strip()) >= self._limits.least and self._allowed(place - self._given)

    def _fence(self, place: int) -> Fence | None:
        """Return the code block around a position."""
        return next((one for one in self._fences if one.start < place and (one.end is None or place < one.end)), None)

    def _fence_goes_on(self, place: int) -> bool:
        """Return whether a position lies between two lines of the same code."""
        fence = self._fence(place)
        if fence is None:
            return False
        first = self._source.index("\n", fence.start) + 1
        last = None if fence.end is None else self._source.rindex("\n", fence.start, fence.end - 1) + 1
        return first < place and place != last

    def _whole(self, place: int) -> bool:
        """Return whether no code block, bold text, code or link is split there."""
        from channels.common.breaks import closed

        if self._fence(place) is not None:
            return False
        begun = max((one.end or 0 for one in self._fences if (one.end or 0) <= place), default=0)
        begun = max(begun, self._source.rfind("\n\n", 0, place) + 1)
        return closed(self._source[begun:place])

    def _good(self, place: int, kind: re.Pattern[str]) -> bool:
        """Return whether splitting there does not change how either part is read."""
        following = self._source[place:]
        if not following or not self._whole(place):
            return False
        if kind in _KINDS[2:]:
            return _READ_OTHERWISE.match(following) is None
        before = self._source[:place].rstrip().rpartition("\n")[2].lstrip()
        torn = (before.startswith("|") and following.startswith("|")) or before.startswith("#")
        return not (torn or following[0].isspace() or _UNDERLINE.match(following))

    def _anywhere(self) -> int | None:
        from channels.common.breaks import whole_letter

        end = self._limits.most
        end -= len(self.closing(end))
        end = whole_letter(self._source, end) if end < len(self._source) else len(self._source)
        places = range(end, self._given, -1)
        fitting = next((place for place in places if self._fits(place)), None)
        return fitting or next((place for place in places if self._allowed(place - self._given)), None)
