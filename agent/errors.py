"""What can go wrong in the agent, apart from what is data (a model's ``Failure``, a tool's ``Outcome``).

AgentError
├── UnknownModel    a model or provider name that nothing answers to
├── ModelNotConfigured   a model that is known and cannot be used as configured (no key, no address)
├── InvalidPriceFile    a file of prices that cannot be read or holds none
├── ScriptExhausted      a scripted model was asked more often than its script goes
├── InvalidImage  a picture that is none, is broken, or is too large to be unpacked
├── TranscriptWriteError         the transcript could not be written, so nothing may be done in its name
└── WorkspaceFileError     a file of the workspace could not be read or changed as asked
    ├── PathNotAllowed       a path that leaves the workspace, or does not name a plain file or folder
    ├── WorkspaceFileNotFound        a file that is missing, or not this audience's to see (told the same way)
    ├── WorkspaceNotWritable        read-only, no permission, disk full
    └── StaleFile         a change to a file that was never read, or that changed since it was read
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of this room. ``hint`` is the command or step that puts it right, or an empty string."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UnknownModel(AgentError):
    """Raised for a model or provider name that nothing answers to. ``nearest`` are the likeliest meant ones."""

    def __init__(self, message: str, *, hint: str = "", nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.nearest = nearest


class ModelNotConfigured(AgentError):
    """Raised for a model that is known but lacks a key or an address."""


class InvalidPriceFile(AgentError):
    """Raised for a file of prices that cannot be read, or in which there is no price."""


class ScriptExhausted(AgentError):
    """Raised by a scripted model that has no answer left."""


class InvalidImage(AgentError):
    """Raised for a picture that cannot be shown to a model. The message goes on after the picture's name: "it is ..."."""


class TranscriptWriteError(AgentError):
    """Raised when a transcript entry could not be made durable (disk full, read-only). Nothing of it is left in the file."""


class WorkspaceFileError(AgentError):
    """Raised when a file of the workspace cannot be read or changed as asked. The message is one line that a model can act on."""


class PathNotAllowed(WorkspaceFileError):
    """Raised for a path that leaves the workspace, passes a link, or does not name a plain file or folder."""


class WorkspaceFileNotFound(WorkspaceFileError):
    """Raised for a file that is missing, or that the audience may not see: the two read the same."""


class WorkspaceNotWritable(WorkspaceFileError):
    """Raised when the workspace cannot take a change: read-only, no permission, disk full."""


class StaleFile(WorkspaceFileError):
    """Raised when a change rests on text that was never read, or that changed since."""
