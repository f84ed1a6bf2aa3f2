"""What can go wrong in the agent, apart from what is data (a model's ``Failure``, a tool's ``Outcome``).

AgentError
├── UnknownModel    a model or provider name that nothing answers to
├── ModelUnusable   a model that is known and cannot be used as configured (no key, no address)
├── ScriptOver      a scripted model was asked more often than its script goes
└── NotKept         the transcript could not be written, so nothing may be done in its name
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of this room. ``mend`` is the command or step that puts it right, or an empty string."""

    def __init__(self, message: str, *, mend: str = "") -> None:
        super().__init__(message)
        self.mend = mend


class UnknownModel(AgentError):
    """Raised for a model or provider name that nothing answers to. ``nearest`` are the likeliest meant ones."""

    def __init__(self, message: str, *, mend: str = "", nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message, mend=mend)
        self.nearest = nearest


class ModelUnusable(AgentError):
    """Raised for a model that is known but lacks a key or an address."""


class ScriptOver(AgentError):
    """Raised by a scripted model that has no answer left."""


class NotKept(AgentError):
    """Raised when a transcript entry could not be made durable (disk full, read-only). Nothing of it is left in the file."""
