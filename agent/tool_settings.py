"""Settings section ``tools``: which tools there are, and how commands run."""

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agent.section import Section

GROUPS: dict[str, tuple[str, ...]] = {
    "group:fs": ("read", "write", "edit", "apply_patch", "list", "grep"),
    "group:memory": ("memory_search", "memory_get"),
    "group:notes": ("todo",),
    "group:mail": ("mail",),
    "group:messaging": ("send_file", "message"),
    "group:runtime": ("exec", "process"),
    "group:web": ("web_search", "web_fetch"),
    "group:sessions": ("spawn", "sessions"),
    "group:calendar": ("calendar",),
    "group:automation": ("cron", "gateway"),
    "group:mcp": ("mcp_*", "tool_search"),
}
"""Names for several tools at once; a tool that this version does not have yet may be named already."""

OTHER_NAMES: dict[str, str] = {
    "sessions_spawn": "spawn",
    "sessions_list": "sessions",
    "sessions_history": "sessions",
    "sessions_send": "sessions",
}
"""Names that other agents' settings have for tools of ours."""

PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("group:memory",),
    "coding": ("group:fs", "group:memory", "group:runtime", "group:web"),
    "messaging": ("read", "write", "group:memory", "group:notes", "group:messaging", "group:calendar"),
    "full": ("*",),
}
"""What an agent of each kind needs."""


def _checked_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if pattern.casefold().startswith("group:") and pattern.casefold() not in GROUPS:
            raise ValueError(f"there is no {pattern!r}; there is {', '.join(GROUPS)}")
    return patterns


def unknown_tools(patterns: Iterable[str]) -> list[str]:
    """Return the names that no tool has. Those of MCP servers, and of searches in a platform, are not known here."""
    known = {name for names in GROUPS.values() for name in names} | GROUPS.keys() | OTHER_NAMES.keys()
    return [one for one in patterns if one.casefold() not in known and not re.search(r"\*|^mcp_|_search$", one)]


Patterns = Annotated[tuple[str, ...], AfterValidator(_checked_patterns)]
"""Names of tools, which may hold ``*``, and of groups of tools."""


class ToolRules(Section):
    """One layer of rules. A layer can only narrow what the layers before it left."""

    profile: Literal["minimal", "coding", "messaging", "full"] | None = None
    """One of: minimal (search in memory), coding (files, memory, programs, web), messaging (notes, list, memory, sending) or full."""
    allow: Patterns = ("*",)
    """Names of tools that may be used, with `*`, or groups such as `group:fs` and `group:memory`."""
    deny: Patterns = ()
    """Names of tools that may not be used, with `*`, or groups; this wins over `allow`."""


class ExecLimits(Section):
    """What a command may use. Memory, processor time and file size count for each of its processes."""

    memory_mb: Annotated[int, Field(ge=64, le=1 << 20)] = 4096
    """Memory of each process, and of all processes of a command together, in MB."""
    processes: Annotated[int, Field(ge=8, le=32_768)] = 256
    """How many processes and threads a command may have at once."""
    file_mb: Annotated[int, Field(ge=1, le=1 << 20)] = 4096
    """How large a file may grow, in MB."""
    cpu_sec: Annotated[int, Field(ge=1, le=86_400)] = 3600
    """Processor time of each process, in seconds."""
    tmp_mb: Annotated[int, Field(ge=1, le=1 << 20)] = 256
    """Size of the temporary folder that bubblewrap gives each command, in MB. It is in memory."""


class ExecSettings(Section):
    """How commands run. What is not given for an agent is taken from ``agents.defaults.tools.exec``, then from ``tools.exec``."""

    security: Literal["deny", "allowlist", "full"] = "allowlist"
    """``deny``: no command runs. ``allowlist``: those run that a rule allows. ``full``: all that the owner asks for in private run, unless a rule says otherwise or the conversation holds untrusted text."""  # noqa: E501
    ask: Literal["off", "on-miss", "always"] = "on-miss"
    """The owner's commands that no rule allows are asked about (``on-miss``) or refused (``off``); ``always``: all commands are asked about."""  # noqa: E501
    safe_bins: tuple[str, ...] | None = None
    """Programs that may look at the workspace without a question, out of those that `homebody approvals rules` lists. Unset: all of them; empty: none."""  # noqa: E501
    timeout_sec: Annotated[float, Field(ge=1, le=86_400)] = 1800.0
    """Longest duration of one command, in seconds; a call may ask for less, not for more."""
    background_ms: Annotated[int, Field(ge=100, le=600_000)] = 10_000
    """How long a command is waited for before it goes on in the background, in milliseconds; a call may say otherwise."""
    notify_on_exit: bool = True
    """Say in the chat that a background command has ended, and tell the model with the next message."""
    cleanup_ms: Annotated[int, Field(ge=60_000, le=86_400_000)] = 1_800_000
    """How long a background command that has ended stays in the list of `process`, in milliseconds."""
    path_prepend: tuple[str, ...] = ()
    """Folders that commands search before the system's, such as `/opt/tools/bin`."""
    sandbox: Literal["auto", "bwrap", "landlock", "off"] = "auto"
    """How commands are confined: by the strongest means that works here (``auto``), by one alone, or not at all; what is not confined is always asked about (docs/confinement.md)."""  # noqa: E501
    read_paths: tuple[str, ...] = ()
    """Further files and folders that commands may read, as full paths or below ``~``, such as `/opt` and `~/.pyenv`; those of `pathPrepend` are readable anyway."""  # noqa: E501
    limits: ExecLimits = ExecLimits.model_construct()
    """What a command may use."""
    max_jobs: Annotated[int, Field(ge=1, le=200)] = 16
    """How many commands of one agent may run at once."""


class GlobalToolsSettings(ToolRules):
    """Which tools there are for all agents. An agent's own rules can only narrow them."""

    exec: ExecSettings = ExecSettings.model_construct()
    """How commands run."""

    by_provider: dict[str, ToolRules] = Field(default_factory=dict)
    """Further rules while a certain model answers, by provider (`ollama`) or model (`openai/gpt-5*`)."""


class ToolsSettings(GlobalToolsSettings):
    """Which tools the agent has. An agent's own entry narrows what the defaults and the global rules allow."""

    deny: Patterns = ("apply_patch",)
    """Names of tools or groups that it does not have; this wins over `allow`. The default leaves out apply_patch, as edit does the same."""
