"""What can go wrong with a platform.

ChannelError
├── ChannelBroken    trying again cannot help (a wrong token, a second poller that stays); the owner must act
├── LinkLost         a terminal's line to the gateway could not be opened, or broke off
├── NotFetched       a file that came with a message cannot be had
├── NotSent          a send certainly had no effect
└── Uncertain        a send may or may not have arrived (time-out, reset, 5xx)
"""

from __future__ import annotations


class ChannelError(Exception):
    """Base of this room. ``hint`` is the command or step that puts it right, or an empty string."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def in_full(self) -> str:
        """Return what is wrong and what puts it right, on one line."""
        what = str(self).rstrip()
        return what if not self.hint else f"{what} {self.hint}" if what.endswith((".", "!", "?")) else f"{what}: {self.hint}"


class ChannelBroken(ChannelError):
    """Raised by ``run`` when trying again cannot help."""


class LinkLost(ChannelError):
    """Raised to a terminal client. What it was saying may or may not be stored: say it again under the same key."""


class NotFetched(ChannelError):
    """Raised by ``fetch``. ``permanent`` means that trying again cannot help (too large, gone)."""

    def __init__(self, message: str, *, permanent: bool = True, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class NotSent(ChannelError):
    """Raised by ``send`` when the message certainly did not arrive.

    ``permanent`` means that the same message will never be taken (blocked by the person, chat gone); otherwise try again
    after ``retry_after`` seconds (None: the gateway's own back-off).
    """

    def __init__(self, message: str, *, permanent: bool = False, retry_after: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent
        self.retry_after = retry_after


class Uncertain(ChannelError):
    """Raised by ``send`` when nobody can say whether the message arrived."""
