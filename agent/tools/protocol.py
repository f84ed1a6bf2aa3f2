"""The interface of a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from agent.messages import Image
from agent.models.protocol import ToolSpec
from memory.audience import OWNER, Audience

MAX_CHARS = 16_000
"""How long a result may be unless somebody says otherwise, in characters."""

Effect = Literal["pure", "idempotent", "effect"]
Need = Literal["network", "approval", "program"]
"""What a tool cannot work without: the network, the owner's approval of each call, or a program that is not part of this one."""
Origin = Literal["owner", "guest", "group", "schedule", "webhook", "agent"]
"""Who started a turn. "owner" is the owner in private: in the terminal or a private chat."""


def _seen_nowhere(_address: str) -> bool:
    return False


class ToolContext(Struct, frozen=True, kw_only=True):
    """The context of one tool call: session, turn, audience and time. ``now`` is in the owner's time zone.

    ``max_chars`` is the longest result: a tool that can return the rest in another call keeps to it and says how to continue.
    ``taint`` names the sources of untrusted text that the model has been shown in this history, such as "web:example.org",
    "file:report.pdf", "person:Eve" or "mcp:calendar"; ``newest_sources`` has them in order, where that is known. ``has_seen`` says
    whether an address (``agent.urls.normal_url``) was given from outside in this history. ``approved``: the owner approved this very
    call. ``session`` is the session's id, ``key`` its key, which a reset leaves as it is. ``call`` names the call within the turn, and
    is the same when it is repeated after a crash. ``task``: the session is a sub-agent's. ``progress`` shows people the last lines of what
    a running tool prints.
    """

    now: datetime
    session: str
    turn: str
    key: str = ""
    call: str = ""
    audience: Audience = OWNER
    max_chars: int = MAX_CHARS
    origin: Origin = "owner"
    taint: frozenset[str] = frozenset()
    newest_sources: tuple[str, ...] = ()
    approved: bool = False
    task: bool = False
    has_seen: Callable[[str], bool] = _seen_nowhere
    progress: Callable[[str], None] | None = None


class Act(Struct, frozen=True, kw_only=True):
    """What a tool call is about to do outside the conversation, in the terms in which rules and people judge it.

    ``summary`` is one line for people, such as "run `du -sh notes`". ``command``, ``argv``, ``cwd``, ``env``, ``network`` and ``pty``
    belong to an "exec": ``command`` is the text as the model wrote it; ``argv`` is set only when the command is plain words, and then
    runs without a shell; ``env`` holds the variables that the call sets. ``path`` belongs to a "write" and lies in the workspace, and
    ``details`` is what exactly would be written: new text as it is, or a unified diff (``agent.tools.change_details``). ``url`` belongs
    to a "url". Of a "send" ``details`` is the text, ``others`` says that others than the owner would read it, and ``recipients`` holds
    the addresses that it goes to, one each, without names. A "call" does something in another program or service, such as an MCP server
    or a calendar; ``details`` is what it is given. A "spawn" starts a sub-agent, whose task ``details`` is.

    ``ask`` says why the owner is asked about this act even in a private turn of their own without untrusted text, as the end of the
    sentence "Why I ask: ..."; "" where the act alone is no reason. ``tool`` is the name that rules know the act by, where it is not that
    of the tool that was called. ``excused`` names sources of untrusted text that are no reason to ask about this act, such as the server
    that it asks again. ``quotes``: the summary repeats words that others may have chosen, such as the subject of a mail; people are
    shown it, and the model is not.

    With ``into`` an "exec" is input that is typed into a running command, which ``into`` is; ``cwd``, ``env``, ``network``, ``pty`` and
    ``confinement`` ("bwrap", "landlock" or "off") are those of that command then.
    """

    kind: Literal["exec", "write", "url", "send", "schedule", "call", "spawn"]
    summary: str
    command: str = ""
    argv: tuple[str, ...] | None = None
    cwd: str = ""
    env: tuple[tuple[str, str], ...] = ()
    network: bool = False
    pty: bool = False
    path: str = ""
    url: str = ""
    details: str = ""
    others: bool = False
    into: str = ""
    confinement: str = ""
    recipients: tuple[str, ...] = ()
    ask: str = ""
    tool: str = ""
    excused: tuple[str, ...] = ()
    quotes: bool = False

    @property
    def own_summary(self) -> str:
        """The summary for the model; "" where it repeats words of others."""
        return "" if self.quotes else self.summary


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a tool call. ``text`` is what the model reads; ``details`` is for people and programs.

    ``sources`` names where untrusted text in the result comes from; with any, the result taints the history.
    """

    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()


class Tool(Protocol):
    """A tool that a model may call.

    ``effect`` says what a repeat would do: "pure" only reads, "idempotent" leaves the same state when run again with the same
    arguments, "effect" must not be repeated blindly. Contract: ``run`` returns errors that a model can act on as an Outcome
    with ``is_error``; it raises only for defects and cancellation.
    """

    spec: ToolSpec
    effect: Effect

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        """Run with arguments that may be wrong: the tool checks them itself."""
        ...


@runtime_checkable
class ActingTool(Tool, Protocol):
    """A tool whose calls are judged before they run. Calls of a tool without ``act_of`` always run."""

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return what a call would do; None where there is nothing to judge, such as for arguments that ``run`` refuses anyway."""
        ...


@runtime_checkable
class DescribedTool(Tool, Protocol):
    """A tool that says more of itself, for ``homebody tools`` and for the choice of who has it.

    ``output`` says in one phrase for people where the text of its results comes from, ``needs`` what it cannot work without. A
    ``private`` tool exists only in turns whose audience is the owner: guests and groups are not even told that there is one.
    """

    output: str
    needs: tuple[Need, ...]
    private: bool


def output_of(tool: Tool) -> str:
    """Say where the text of a tool's results comes from; "" where it does not tell."""
    return tool.output if isinstance(tool, DescribedTool) else ""


def needs_of(tool: Tool) -> tuple[Need, ...]:
    """Return what a tool cannot work without, as far as it tells."""
    return tool.needs if isinstance(tool, DescribedTool) else ()


def is_private(tool: Tool) -> bool:
    """Say whether a tool exists only in turns whose audience is the owner."""
    return isinstance(tool, DescribedTool) and tool.private


@runtime_checkable
class RememberingTool(Tool, Protocol):
    """A tool that can say something of a call that a restart interrupted, although nobody knows its outcome."""

    def known_of(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Return what is known of the call in a sentence; "" for nothing."""
        ...
