"""The tools that an agent gets of MCP servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Protocol

from pydantic import Field

from agent.models.protocol import ToolSpec
from agent.tools.arguments import Arguments, CheckedTool, failed
from agent.tools.change_details import bounded
from agent.tools.protocol import Act, Effect, Need, Outcome, ToolContext
from gateway.mcp.errors import McpError
from gateway.mcp.mcp_results import source_of
from gateway.mcp.offer import ToolOffer
from gateway.mcp.tool_names import tool_name

READ: Final = "mcp_read"
_OUTPUT: Final = "the MCP server {server}: untrusted"
_LONGEST_URI: Final = 300


class Servers(Protocol):
    """Does what the tools of one agent ask of its servers."""

    def refusal(self, server: str, tool: str) -> McpError | None:
        """Say why a tool cannot be called as things are known now, without asking the server; None where it can."""
        ...

    async def call(self, server: str, tool: str, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        """Call a tool of a server. Raises McpError."""
        ...

    async def read(self, server: str, uri: str, context: ToolContext) -> Outcome:
        """Read a resource of a server. Raises McpError."""
        ...

    async def prompt(self, server: str, prompt: str, arguments: dict[str, str], context: ToolContext) -> Outcome:
        """Return the messages of a prompt of a server. Raises McpError."""
        ...

    async def listed(self, server: str) -> Outcome:
        """List the resources and prompts of a server. Raises McpError."""
        ...


class McpTool:
    """One tool of a server, as the owner approved it. What the server says of itself counts only where the settings trust it."""

    private = True

    def __init__(self, servers: Servers, server: str, offer: ToolOffer, *, trusted: bool, program: bool) -> None:
        self._servers = servers
        self._server = server
        self._offer = offer
        self._only_reads = trusted and offer.read_only
        self.spec = ToolSpec(
            name=tool_name(server, offer.name), description=offer.description or offer.name, parameters=offer.schema
        )
        repeatable = trusted and offer.idempotent
        self.effect: Effect = "pure" if self._only_reads else "idempotent" if repeatable else "effect"
        self.output = _OUTPUT.format(server=server)
        self.needs: tuple[Need, ...] = ("program" if program else "network", *(() if self._only_reads else ("approval",)))

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return the call; None for one that ``run`` refuses, so that nobody is asked about it.

        What a trusted server calls read-only is asked about only where text from elsewhere may be behind it.
        """
        del context
        if self._servers.refusal(self._server, self._offer.name) is not None:
            return None
        return Act(
            kind="call",
            summary=f"use {self._offer.name} of the MCP server {self._server}",
            details=bounded(json.dumps(arguments, ensure_ascii=False, indent=2)) if arguments else "",
            ask="" if self._only_reads else f"no rule allows {self.spec.name} without a question",
            tool=self.spec.name,
            excused=(source_of(self._server),) if self._only_reads else (),
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        """Call the tool. The server checks the arguments."""
        try:
            return await self._servers.call(self._server, self._offer.name, dict(arguments), context)
        except McpError as error:
            return _refused(self._server, error)


class ReadArguments(Arguments):
    """What ``mcp_read`` takes."""

    server: str
    uri: Annotated[str | None, Field(description="a resource to read")] = None
    prompt: Annotated[str | None, Field(description="a prompt to get")] = None
    arguments: Annotated[dict[str, str], Field(description="of the prompt")] = Field(default_factory=dict)


class McpRead(CheckedTool[ReadArguments]):
    """Lists and reads the resources and prompts of servers. ``servers`` has those that have any, and whether each is trusted."""

    def __init__(self, asked: Servers, servers: Mapping[str, bool]) -> None:
        super().__init__(
            ReadArguments,
            name=READ,
            description=f"Resources and prompts of MCP servers ({', '.join(sorted(servers))}); without uri and prompt: list them.",
            effect="pure",
            output="the MCP server: untrusted",
            needs=("approval",),
            private=True,
        )
        self._asked = asked
        self._servers = dict(servers)

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return what would be read; None for arguments that ``run`` refuses."""
        del context
        given = self.checked(arguments)
        if given is None or given.server not in self._servers:
            return None
        what = given.uri or (f"the prompt {given.prompt}" if given.prompt else "the list of resources and prompts")
        trusted = self._servers[given.server]
        return Act(
            kind="call",
            summary=f"read {what[:_LONGEST_URI]} of the MCP server {given.server}",
            details=bounded(json.dumps(given.arguments, ensure_ascii=False, indent=2)) if given.arguments else "",
            ask="" if trusted else f"no rule allows {READ} without a question",
            excused=(source_of(given.server),) if trusted else (),
        )

    async def act(self, arguments: ReadArguments, context: ToolContext) -> Outcome:
        """Read it."""
        server = arguments.server
        if server not in self._servers:
            return failed(f"there is no MCP server {server[:40]!r}; there is {', '.join(sorted(self._servers))}")
        try:
            if arguments.uri:
                return await self._asked.read(server, arguments.uri, context)
            if arguments.prompt:
                return await self._asked.prompt(server, arguments.prompt, arguments.arguments, context)
            return await self._asked.listed(server)
        except McpError as error:
            return _refused(server, error)


def _refused(server: str, error: McpError) -> Outcome:
    """Return an error for the model. What the server says in it is untrusted like its answers."""
    return Outcome(text=f"{error}{f' ({error.hint})' if error.hint else ''}", is_error=True, sources=(source_of(server),))
