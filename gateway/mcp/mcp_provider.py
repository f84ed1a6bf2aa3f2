"""The tools of MCP servers, for one agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agent.models.token_estimate import Calibration, weight_of_tools
from agent.tools.protocol import Outcome, Tool, ToolContext
from agent.tools.provider import ToolProvider
from gateway.mcp.errors import McpError, ServerFailed
from gateway.mcp.filing import Files
from gateway.mcp.mcp_results import outcome_of, prompt_outcome, resource_outcome, source_of
from gateway.mcp.mcp_tool import McpRead, McpTool
from gateway.mcp.servers import McpServers, Server
from gateway.settings.root import Settings


class AgentServers:
    """What one agent has of the servers. Implements ``gateway.mcp.mcp_tool.Servers``. ``files`` is asked when a file is to be kept.

    The tools are made of what was approved; nothing is started for them.
    """

    def __init__(self, agent: str, servers: McpServers, settings: Callable[[], Settings], files: Callable[[], Files]) -> None:
        self._agent = agent
        self._servers = servers
        self._settings = settings
        self._files = files
        self._made_for: object = None
        self._tools: dict[str, tuple[Tool, ...]] = {}
        self._deferred: frozenset[str] = frozenset()

    @property
    def version(self) -> object:
        """Changes with what was approved, and with the settings that decide on it."""
        current = self._settings()
        return self._servers.version, current.default_agent, current.mcp.tool_budget_tokens

    def tools(self, server: str) -> tuple[Tool, ...]:
        """Return the tools of a server; of "" those that are not of a single one."""
        self._make()
        return self._tools.get(server, ())

    def deferred(self) -> frozenset[str]:
        """Return the names of all tools where they take more tokens together than the settings allow; otherwise nothing."""
        self._make()
        return self._deferred

    def providers(self) -> list[ToolProvider]:
        """Return a provider for each server that the agent may use now, and one for what is not of a single server."""
        names = [server.name for server in self._own_servers()]
        return [_Provider(self, name) for name in ([*names, ""] if names else [])]

    def refusal(self, server: str, tool: str) -> McpError | None:
        """See ``gateway.mcp.mcp_tool.Servers``."""
        try:
            self._refuse_changed(self._server(server), tool)
        except McpError as error:
            return error
        return None

    async def call(self, server: str, tool: str, arguments: dict[str, Any], context: ToolContext) -> Outcome:
        """Call a tool, unless it is not what was approved any more. Raises McpError."""
        found = self._server(server)
        seconds = found.settings.timeout_sec
        progress = context.progress

        async def work(session: Any) -> Any:
            self._refuse_changed(found, tool)  # what was asked may have become known with the connection
            return await session.call(tool, arguments, seconds, progress)

        self._refuse_changed(found, tool)
        answer = await found.connection.request(work, seconds)
        return await outcome_of(server, _json(answer), context, self._files())

    async def read(self, server: str, uri: str, context: ToolContext) -> Outcome:
        """Read a resource. Raises McpError."""
        found = self._server(server)
        answer = await found.connection.request(lambda session: session.read(uri), found.settings.timeout_sec)
        return await resource_outcome(server, _json(answer)["contents"], context, self._files())

    async def prompt(self, server: str, prompt: str, arguments: dict[str, str], context: ToolContext) -> Outcome:
        """Return the messages of a prompt. Raises McpError."""
        found = self._server(server)
        answer = await found.connection.request(lambda session: session.prompt(prompt, arguments), found.settings.timeout_sec)
        return await prompt_outcome(server, _json(answer)["messages"], context, self._files())

    async def listed(self, server: str) -> Outcome:
        """List the resources and prompts of a server. Raises McpError."""
        found = self._server(server)
        offer = found.pin.approved if found.pin is not None else None
        lines: list[str] = []
        if offer is not None and offer.resources:
            resources, templates = await found.connection.request(
                lambda session: session.resources(), found.settings.timeout_sec
            )
            lines += [_line("resource", one, "uri") for one in _json(resources)["resources"]]
            lines += [_line("template", one, "uriTemplate") for one in _json(templates)["resourceTemplates"]]
        if offer is not None and offer.prompts:
            prompts = await found.connection.request(lambda session: session.prompts(), found.settings.timeout_sec)
            lines += [f"{_line('prompt', one, 'name')}{_arguments(one)}" for one in _json(prompts)["prompts"]]
        return Outcome(text="\n".join(lines) or "[there are none]", sources=(source_of(server),))

    def _own_servers(self) -> list[Server]:
        return self._servers.of(self._agent, self._settings().default_agent)

    def _server(self, name: str) -> Server:
        found = next((server for server in self._own_servers() if server.name == name), None)
        if found is None:
            raise ServerFailed(f"the MCP server {name} is not there for this agent any more")
        return found

    def _refuse_changed(self, server: Server, tool: str) -> None:
        if server.pin is not None and tool in server.pin.changed:
            raise ServerFailed(
                f"the MCP server {server.name} describes {tool} otherwise than the owner approved, so it cannot be used",
                hint=f"the owner was asked, and can approve it: homebody mcp approve {server.name}",
            )

    def _make(self) -> None:
        """Make the tools anew where something changed."""
        version = self.version
        if version == self._made_for:
            return
        made: dict[str, tuple[Tool, ...]] = {}
        readable: dict[str, bool] = {}
        for server in self._own_servers():
            trusted, program = server.settings.trust_read_only, server.settings.command is not None
            made[server.name] = tuple(
                McpTool(self, server.name, offer, trusted=trusted, program=program) for offer in server.tools
            )
            if server.pin is not None and (server.pin.approved.resources or server.pin.approved.prompts):
                readable[server.name] = trusted
        made[""] = (McpRead(self, readable),) if readable else ()
        everything = [tool for tools in made.values() for tool in tools]
        tokens = Calibration().apply(weight_of_tools(tuple(tool.spec for tool in everything)))
        above = tokens > self._settings().mcp.tool_budget_tokens
        self._deferred = frozenset(tool.spec.name for tool in everything) if above else frozenset()
        self._tools, self._made_for = made, version


class _Provider:
    """The tools of one server."""

    def __init__(self, servers: AgentServers, server: str) -> None:
        self._servers = servers
        self._server = server
        self.name = f"mcp:{server}" if server else "mcp"

    @property
    def version(self) -> object:
        return self._servers.version

    def tools(self) -> Sequence[Tool]:
        return sorted(self._servers.tools(self._server), key=lambda tool: tool.spec.name)

    def deferred(self) -> frozenset[str]:
        return self._servers.deferred()

    async def close(self) -> None:
        """Do nothing: the connections belong to the gateway."""


def _json(model: Any) -> dict[str, Any]:
    """Return an answer of the SDK as the protocol writes it."""
    if model is None:
        raise McpError("the server sent no answer")
    written: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return written


def _line(kind: str, one: dict[str, Any], key: str) -> str:
    about = [str(one[name]) for name in ("title", "name", "description") if one.get(name) and name != key]
    return f"{kind} {one.get(key)}{': ' if about else ''}{'; '.join(dict.fromkeys(about))[:300]}"


def _arguments(prompt: dict[str, Any]) -> str:
    named = [f"{one['name']}{'' if one.get('required') else ' (optional)'}" for one in prompt.get("arguments", [])]
    return f" [arguments: {', '.join(named)}]" if named else ""
