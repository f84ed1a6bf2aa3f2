"""Exceptions of the agent. A model's ``Failure`` and a tool's ``Outcome`` are data, not exceptions.

AgentError
├── UnknownModel             no model or provider has this name
├── ModelNotConfigured       the model is known, and has no usable key or address
├── InvalidPriceFile         the price file cannot be read or holds no price
├── ScriptExhausted          a scripted model has no answer left
├── InvalidImage             not a picture, broken, or too large to be unpacked
├── FetchFailed              a web page could not be had
│   └── FetchRefused           its address, or one that it leads to, may not be fetched
├── CommandRefused           a command cannot be started as it was asked for
├── JobRefused               a job cannot be found, or not be set up as it was asked for
├── CalendarFailed           a calendar or an address book cannot be read, or not be changed as asked
├── RequestRefused           a sub-agent, a session or a chat cannot be had as a tool was asked for
├── MailRefused              a mailbox cannot do what was asked, or a mail cannot be written so
├── InvalidSkill             a folder cannot be used as a skill
├── TranscriptWriteError     the transcript could not be written; the turn cannot go on
└── WorkspaceFileError       a workspace file could not be read or changed
    ├── PathNotAllowed         the path leaves the workspace, or is not a plain file or folder
    ├── WorkspaceFileNotFound  missing, or hidden from this audience (both read the same)
    ├── WorkspaceNotWritable   read-only, no permission, or disk full
    ├── StaleFile              the file was never read, or changed since it was read
    └── AmbiguousItem          several items of a list of things to do are meant
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of this package's exceptions. ``hint`` is the command or step that helps, or empty.

    ``sources`` are those of untrusted text that the message or the hint repeats.
    """

    def __init__(self, message: str, *, hint: str = "", sources: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.hint = hint
        self.sources = sources


class UnknownModel(AgentError):
    """No model or provider has this name. ``nearest`` are the closest matches."""

    def __init__(self, message: str, *, hint: str = "", nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.nearest = nearest


class ModelNotConfigured(AgentError):
    """A known model lacks a key or an address."""


class InvalidPriceFile(AgentError):
    """The price file cannot be read, or holds no price."""


class ScriptExhausted(AgentError):
    """A scripted model has no answer left."""


class InvalidImage(AgentError):
    """A picture cannot be shown to a model. The message continues after the picture's name: "it is ..."."""


class CommandRefused(AgentError):
    """A command cannot be started: too many run, the sandbox cannot confine it, or there is no process to start it."""


class JobRefused(AgentError):
    """A job is not known in this conversation, or cannot be set up or changed as asked. The text is one line that a model can act on."""


class CalendarFailed(AgentError):
    """A calendar cannot be read, or not be changed as asked. ``status`` is what its server answered with, 0 where it is not about that.

    ``quotes``: names of calendars or events are in the text or the hint, which others may have written.
    """

    def __init__(self, message: str, *, hint: str = "", status: int = 0, quotes: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.quotes = quotes


class RequestRefused(AgentError):
    """A sub-agent cannot be started, a session not looked at, or a chat not written to: a limit, a setting, or there is none."""


class InvalidSkill(AgentError):
    """A folder cannot be used as a skill: its SKILL.md is broken, or a file in it may not be there. The text is one line."""


class FetchFailed(AgentError):
    """A web page could not be had. ``source`` is the server whose words are in the message, such as where it redirects to; mostly empty."""

    def __init__(self, message: str, *, hint: str = "", source: str = "") -> None:
        super().__init__(message, hint=hint)
        self.source = source


class FetchRefused(FetchFailed):
    """An address may not be fetched, whoever asks: it is not public, or no web address. It was not connected to."""


class MailRefused(AgentError):
    """A mailbox cannot do what was asked, or a mail cannot be written so. The text is one line that a model can act on."""


class TranscriptWriteError(AgentError):
    """A transcript entry could not be made durable (disk full, read-only). Nothing of it is left in the file."""


class WorkspaceFileError(AgentError):
    """A workspace file cannot be read or changed. The message is one line that a model can act on."""


class PathNotAllowed(WorkspaceFileError):
    """The path leaves the workspace, passes a link, or is not a plain file or folder."""


class WorkspaceFileNotFound(WorkspaceFileError):
    """The file is missing, or the audience may not see it: both read the same."""


class WorkspaceNotWritable(WorkspaceFileError):
    """The workspace cannot be changed: read-only, no permission, or disk full."""


class StaleFile(WorkspaceFileError):
    """The file to be changed was never read, or changed since it was read."""


class AmbiguousItem(WorkspaceFileError):
    """Several items of a list are meant. ``lines`` are the numbers of those that the message names, from 0."""

    def __init__(self, message: str, *, hint: str = "", lines: tuple[int, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.lines = lines
