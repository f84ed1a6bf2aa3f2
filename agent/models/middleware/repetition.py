"""Notices a text that says the same thing over and over, as weak models do once they have begun to."""

from __future__ import annotations

TIMES = 12
"""How often in a row the same words count as a loop."""
LEAST, LONGEST = 5, 80
"""The size of what is repeated, in letters and digits."""
SPAN = 300
"""How many letters and digits of nothing else there must be."""
_FEW_SPAN, _FEW = 3000, 4
"""So many characters of any kind, of which so few differ, are a loop as well: dashes, blanks, zeros."""
_EVERY = 200
"""Characters between two looks."""


class Repetition:
    """Takes a text as it grows. Blanks, punctuation and capitals do not count: loops drift in these."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._words = ""
        self._tail = ""
        self._unseen = 0

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._text)

    def feed(self, piece: str) -> bool:
        """Take more of the text; return whether it repeats itself by now. A look is taken every ``_EVERY`` characters."""
        self._text.append(piece)
        self._unseen += len(piece)
        self._tail = (self._tail + piece)[-_FEW_SPAN:]
        self._words = (self._words + _folded(piece))[-2 * TIMES * LONGEST :]
        if self._unseen < _EVERY:
            return False
        self._unseen = 0
        return self.found()

    def found(self) -> bool:
        """Return whether the text repeats itself at its end."""
        return _period(self._words) > 0 or (len(self._tail) == _FEW_SPAN and len(set(self._tail)) <= _FEW)


def shortened(text: str) -> str:
    """Return a text that ends in a loop up to the end of its first round, or the text as it is where it does not."""
    folded = _folded(text)
    period = _period(folded)
    if not period:
        end = text[-_FEW_SPAN:]
        if len(end) < _FEW_SPAN or len(set(end)) > _FEW:
            return text
        few = set(end)
        return text[: len(text.rstrip("".join(few))) + 1].rstrip()
    start = len(folded) - period
    while start > 0 and folded[start - 1] == folded[start - 1 + period]:
        start -= 1
    return _raw(text, start + period)


def _folded(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _period(folded: str) -> int:
    """Return after how many letters the end repeats itself often enough, or 0."""
    if len(folded) < SPAN:
        return 0
    for period in range(LEAST, LONGEST + 1):
        span = max(SPAN, TIMES * period)
        if len(folded) < span:
            break
        end = folded[-span:]
        if end[period:] == end[:-period] and len(set(end[:period])) >= _FEW:
            return period
    return 0


def _raw(text: str, letters: int) -> str:
    """Return the beginning of a text that has so many letters, with the marks that close it."""
    seen = 0
    for index, char in enumerate(text):
        seen += len(_folded(char))
        if seen >= letters:
            rest = text[index + 1 : index + 4]
            marks = len(rest) - len(rest.lstrip(".!?…。！？\"”'"))
            return text[: index + 1 + marks]
    return text
