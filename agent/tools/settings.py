"""The ``tools`` sections: which of its tools an agent may use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUPS: dict[str, tuple[str, ...]] = {
    "group:fs": ("read", "write", "edit", "apply_patch", "list", "grep"),
    "group:memory": ("memory_search", "memory_get"),
    "group:messaging": ("send_file", "message"),
    "group:runtime": ("exec", "process"),
    "group:web": ("web_search", "web_fetch"),
    "group:sessions": ("sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"),
    "group:automation": ("cron", "gateway"),
}
"""Names for several tools at once; a tool that this version does not have yet may be named already."""

PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("group:memory",),
    "coding": ("group:fs", "group:memory", "group:runtime", "group:web"),
    "messaging": ("read", "write", "group:memory", "group:messaging"),
    "full": ("*",),
}
"""What an agent of each kind needs."""


def _known(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if pattern.casefold().startswith("group:") and pattern.casefold() not in GROUPS:
            raise ValueError(f"there is no {pattern!r}; there is {', '.join(GROUPS)}")
    return patterns


Patterns = Annotated[tuple[str, ...], AfterValidator(_known)]
"""Names of tools, which may hold ``*``, and of groups of tools."""


class ToolRules(BaseModel):
    """One layer of rules. A layer can only narrow what the layers before it left."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    profile: Literal["minimal", "coding", "messaging", "full"] | None = None
    """A ready choice: minimal (search in the memory), coding (files, memory, programs, web), messaging (notes, memory, sending) or full."""
    allow: Patterns = ("*",)
    """Names of tools that may be used, with `*`, or groups such as `group:fs` and `group:memory`."""
    deny: Patterns = ()
    """Names of tools that may not be used, with `*`, or groups; this wins over `allow`."""


class HouseTools(ToolRules):
    """Which tools there are in the house. What is said of an agent can only narrow it."""

    by_provider: dict[str, ToolRules] = Field(default_factory=dict)
    """Further rules while a certain model answers, by provider (`ollama`) or model (`openai/gpt-5*`)."""


class ToolsSettings(HouseTools):
    """Which tools the agent has. An agent's own entry narrows what the defaults and the house leave it."""

    deny: Patterns = ("apply_patch",)
    """Names of tools or groups that it does not have; this wins over `allow`. The default leaves out apply_patch, as edit does the same."""
