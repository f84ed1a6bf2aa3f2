"""What the command tools need of the gateway: start commands, and look after those that run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct, field

from memory.audience import OWNER, Audience

Status = Literal["running", "ended", "unknown"]
"""Of a job. "unknown": the gateway or its runner ended before the command did, and nobody saw what became of it."""


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A command to start. ``argv`` is run without a shell; without it, ``command`` is given to one.

    ``cwd`` is absolute. ``timeout`` is in seconds; None and anything longer mean the longest that the settings allow.
    ``input_open``: it may be written to. ``key`` is the session's key, ``private`` whether the owner started the turn in private.
    ``sources`` names where untrusted text in its output may come from, ``taint`` such text that was in view when it was asked for.
    """

    command: str
    argv: tuple[str, ...] | None = None
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = None
    pty: bool = False
    input_open: bool = False
    network: bool = False
    key: str = ""
    turn: str = ""
    audience: Audience = OWNER
    private: bool = True
    sources: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()


class JobState(Struct, frozen=True, kw_only=True):
    """What is known of a job now. ``seconds`` is how long it has run, or ran.

    ``code`` or ``signal`` says how it ended. ``reason`` is why it was ended before its time: "timeout", "stopped", "shutdown",
    "processes", "memory", "disk", "lost". ``timeout`` is in seconds. ``failure`` says why it could not be started. ``left`` counts
    processes that it left behind, which were ended. ``printed`` is in bytes. ``path`` is the file of the workspace that holds the output,
    "" without one, and ``kept`` whether all of it is there.
    """

    id: str
    command: str
    started: datetime
    status: Status = "running"
    seconds: float = 0.0
    code: int | None = None
    signal: int | None = None
    reason: str = ""
    timeout: float = 0.0
    failure: str = ""
    left: int = 0
    printed: int = 0
    path: str = ""
    kept: bool = True
    background: bool = False
    cwd: str = ""
    env: tuple[tuple[str, str], ...] = ()
    network: bool = False
    pty: bool = False
    confinement: str = ""
    """"bwrap", "landlock" or "off"; "" where it is not known."""
    command_sources: tuple[str, ...] = ()
    """Untrusted text that was in view when ``command`` was written."""
    sources: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    """What may be in the files that it writes."""


class Job(Protocol):
    """One command that was started. Its id is unique within an agent."""

    @property
    def state(self) -> JobState:
        """What is known of it now."""
        ...

    async def wait(self, seconds: float | None = None, *, output: bool = False) -> bool:
        """Wait for its end, or with ``output`` for anything new, at most so long; return whether it ended."""
        ...

    def ends(self, most: int) -> str:
        """Return the beginning and the end of what it printed, in at most so many characters."""
        ...

    async def result(self, most: int) -> str:
        """Return ``ends`` for the call that started it and waited for its end. Nothing but a file of what that leaves out is kept."""
        ...

    def unread(self, most: int) -> str:
        """Return what it printed since the last call, or the end of that; the next call continues after it."""
        ...

    async def lines(self, offset: int | None, limit: int, most: int) -> str:
        """Return ``limit`` lines of its output from line ``offset`` (1 is the first; None: the last lines), with a line that says which."""
        ...

    def watch(self, show: Callable[[str], None] | None) -> None:
        """Have the last lines of the output shown from time to time while it runs."""
        ...

    def write(self, data: bytes, *, end: bool = False) -> str:
        """Give it input, and close the input with ``end``. Returns why that is not possible, or ""."""
        ...

    def to_background(self) -> None:
        """Let it go on when the call that started it returns: it is listed from now on, and its end is announced."""
        ...

    def kill(self) -> None:
        """End all of its processes."""
        ...


class CommandRunner(Protocol):
    """Starts the commands of one agent."""

    @property
    def workspace(self) -> str:
        """The folder of the agent, as an absolute path free of links."""
        ...

    @property
    def background_seconds(self) -> float:
        """How long a command is waited for unless its call says otherwise."""
        ...

    async def start(self, request: CommandRequest) -> Job:
        """Start a command. Raises CommandRefused where it cannot be."""
        ...

    async def taint(self, job: Job, sources: Collection[str]) -> None:
        """Record that a job is about to be given input that was written while text from ``sources`` was in view. Raises OSError."""
        ...

    async def refresh_sources(self, job: Job) -> None:
        """Bring ``state.sources`` of a job up to date: files that it may read can have become untrusted since it was started."""
        ...

    def jobs(self, audience: Audience) -> Sequence[Job]:
        """Return the background jobs that were started before this audience, newest first; those of the last process too."""
        ...

    def lost_in(self, turn: str, command: str) -> JobState | None:
        """Return what is known of a command that a turn began in an earlier process, and whose result it never got."""
        ...

    def forget(self, job: Job) -> None:
        """Remove a job that has ended from the list, with its output file."""
        ...
