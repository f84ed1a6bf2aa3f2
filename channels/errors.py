"""The errors of channels.

ChannelError
├── ChannelBroken    trying again cannot help (a wrong token, a second poller that stays); the owner must act
├── MailProblem      a mail server cannot be used, or a mail not be had
├── LinkLost         a client's connection to the gateway could not be opened, or was lost
│   └── AgentAway    the gateway runs, and the agent is with another one that it does not reach, or with none at the moment
├── NotFetched       a file that came with a message could not be downloaded
├── NotStored        a message was not taken, as the gateway's storage takes nothing
├── NotSent          a send certainly had no effect
├── Refused          what a person typed or pressed cannot be taken: it is empty, too long, or about what is gone
└── Uncertain        a send may or may not have arrived (time-out, reset, 5xx)
"""

from __future__ import annotations

from channels.waits import seconds_to_wait


class ChannelError(Exception):
    """Base of the errors of channels. ``hint`` is the command or step that solves the problem, or an empty string."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def in_full(self) -> str:
        """Return the message and the hint on one line."""
        what = str(self).rstrip()
        return what if not self.hint else f"{what} {self.hint}" if what.endswith((".", "!", "?")) else f"{what}: {self.hint}"


class ChannelBroken(ChannelError):
    """Raised by ``run`` when trying again cannot help."""


class LinkLost(ChannelError):
    """Raised to a terminal client. A message on its way may or may not be stored: send it again with the same key."""


class AgentAway(LinkLost):
    """The gateway here runs, but not the agent. ``held``: another gateway has it and is not reached; else none has it at the moment."""

    def __init__(self, message: str, *, held: bool, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.held = held


class NotStored(ChannelError):
    """Raised to a terminal client where the disk or the database of the gateway took nothing."""

    about_storage = True


class MailProblem(ChannelError):
    """A mail server cannot be reached, refuses something, or has no such mail or folder.

    ``quotes``: names of folders are in the hint, which others who share them may have chosen.
    """

    def __init__(self, message: str, *, hint: str = "", quotes: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.quotes = quotes


class NotFetched(ChannelError):
    """Raised by ``fetch``. ``permanent`` means that trying again cannot help (too large, gone)."""

    def __init__(self, message: str, *, permanent: bool = True, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent


class Refused(ChannelError):
    """What a person gave cannot be taken as it is; the hint says what to do instead."""


class NotSent(ChannelError):
    """Raised by ``send`` when the message certainly did not arrive.

    ``permanent`` means that the platform will never accept this message (blocked by the person, chat gone); otherwise try again
    after ``retry_after`` seconds, a day at most (None, or no number: with the gateway's own backoff). ``held`` means that the
    platform takes no message for this person before they write again: the message waits for that, for days if need be, and the
    owner is told why.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        held: bool = False,
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.permanent = permanent
        self.held = held
        self.retry_after = seconds_to_wait(retry_after)


class Uncertain(ChannelError):
    """Raised by ``send`` when it is unknown whether the message arrived."""
