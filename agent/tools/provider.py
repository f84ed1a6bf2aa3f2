"""The interface of a source of tools: the built-in parts, MCP servers, mail accounts, and so on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from agent.tools.protocol import Tool


class ToolProvider(Protocol):
    """Gives the tools of one source to one agent.

    ``name`` is for people and stays the same: "built-in", "mcp:files", "mail". Contract: ``tools`` is quick and does no I/O; it returns
    the tools sorted by name, and the same objects until ``version`` changes, so that the prompt stays as a provider's cache has it.
    One with an attribute ``follows_settings`` that is true is asked for its version only when the settings have changed.
    """

    name: str

    @property
    def version(self) -> object:
        """A value that changes whenever ``tools`` or ``deferred`` do."""
        ...

    def tools(self) -> Sequence[Tool]:
        """Return the tools that there are at present."""
        ...

    def deferred(self) -> frozenset[str]:
        """Return the names of those tools that models are not told of with each request, but find with ``tool_search``."""
        ...

    async def close(self) -> None:
        """Let go of what was opened for this agent. It may be called twice."""
        ...


class FixedTools:
    """A provider whose tools never change."""

    def __init__(self, name: str, tools: Iterable[Tool]) -> None:
        self.name = name
        self._tools = tuple(sorted(tools, key=lambda tool: tool.spec.name))

    version: object = 0
    """Always the same."""

    def tools(self) -> Sequence[Tool]:
        """Return the tools."""
        return self._tools

    def deferred(self) -> frozenset[str]:
        """Return nothing: models are told of all of them."""
        return frozenset()

    async def close(self) -> None:
        """Do nothing."""
