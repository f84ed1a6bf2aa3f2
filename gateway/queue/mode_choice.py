"""The choice that ``/queue`` makes for a conversation: mode, debounce and cap."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gateway.settings.messages import MODES, OLDER_NAMES, QueueMode

MOST_SECONDS = 60.0
MOST_TOGETHER = 1000
MEANT = (
    "Say `/queue collect`, `steer`, `followup` or `interrupt`, with `debounce:2s` or `cap:10` if you like; "
    "`/queue default` goes back to the settings."
)
TOLD: dict[QueueMode, str] = {
    "collect": "what waits is answered together in the next turn",
    "steer": "what you say while I work reaches me between two steps",
    "followup": "each message gets a turn of its own",
    "interrupt": "what you say while I work stops it, and I answer that",
}


class InvalidQueueChoice(ValueError):
    """Raised for words that ``/queue`` does not know."""


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """What was chosen; None is left to the settings."""

    mode: QueueMode | None = None
    quiet: float | None = None
    cap: int | None = None

    def written(self) -> str:
        """Return the words that ``read_choice`` reads back."""
        quiet = "" if self.quiet is None else f"debounce:{self.quiet:g}s"
        cap = "" if self.cap is None else f"cap:{self.cap}"
        return " ".join(filter(None, (self.mode, quiet, cap)))


@lru_cache(maxsize=256)
def read_choice(text: str) -> QueueChoice:
    """Read what follows ``/queue``, such as ``collect debounce:2s cap:25``. Raises InvalidQueueChoice."""
    mode: QueueMode | None = None
    quiet: float | None = None
    cap: int | None = None
    for word in text.casefold().split():
        name = OLDER_NAMES.get(word, word)
        if name in MODES:
            mode = name  # type: ignore[assignment]
        elif (found := re.fullmatch(r"debounce[:=](\d{1,6}(?:\.\d{1,3})?)(ms|s)?", word)) is not None:
            quiet = float(found[1]) / (1 if found[2] == "s" else 1000)
        elif (found := re.fullmatch(r"cap[:=](\d{1,4})", word)) is not None:
            cap = int(found[1])
        elif (
            re.fullmatch(r"drop[:=](none|old|new|summarize)", word) is None
        ):  # understood, as in the settings, and without effect
            raise InvalidQueueChoice(f"“{word[:40]}” is no way to queue.")
    if (quiet or 0) > MOST_SECONDS or cap == 0 or (cap or 0) > MOST_TOGETHER:
        raise InvalidQueueChoice(f"A wait is at most {MOST_SECONDS:.0f} s, and a turn answers 1 to {MOST_TOGETHER} messages.")
    return QueueChoice(mode, quiet, cap)
