"""What tools an agent has: what ``homebody tools`` asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from agent.tools.policy import ToolPolicy
from agent.tools.protocol import ActingTool, Need, is_private, needs_of, output_of
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.rules import Rules
from gateway.base.errors import UsageError, unknown_agent
from gateway.settings.root import AgentProfile, Settings
from gateway.tools.registry import OfferedTool

OUTPUT: Final[Mapping[str, str]] = {
    "read": "files of the workspace",
    "list": "names of files in the workspace",
    "grep": "files of the workspace",
    "write": "a receipt",
    "edit": "a receipt",
    "apply_patch": "a receipt",
    "memory_search": "notes",
    "memory_get": "notes",
    "send_file": "a receipt",
    "cron": "what is set up, and its times",
    "message": "a receipt",
    "spawn": "a receipt; the result comes as a message, untrusted where the sub-agent read what is",
    "sessions": "what was said elsewhere; untrusted where that holds untrusted text",
    "exec": "what a command prints; untrusted where it had the network",
    "process": "what a command prints; untrusted where it had the network",
    "web_fetch": "a web page: untrusted",
    "web_search": "a search service: untrusted",
}
"""Where the text of a tool's results comes from."""
NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "exec": ("program",),
    "process": ("program",),
    "web_fetch": ("network",),
    "web_search": ("network",),
}
"""What the built-in tools cannot work without."""
_EFFECTS: Final = {"pure": "reads", "idempotent": "changes; may be repeated", "effect": "acts; is never repeated blindly"}


class ToolHandlers:
    """Lists and shows the tools of agents. All answers are JSON values. ``tried`` waits until the sandbox of an agent was tried."""

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        settings: Callable[[], Settings],
        rules: Rules,
        tried: Callable[[str], Awaitable[object]],
    ) -> None:
        self._tried = tried
        self._agents = agents
        self._settings = settings
        self._rules = rules

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"tools.list": self.list, "tools.show": self.show}

    async def list(self, agent: str | None = None) -> dict[str, Any]:
        """Return the tools of an agent. Raises UsageError for an unknown one."""
        found = await self._agent(agent)
        tools = [await asyncio.to_thread(self._facts, found, tool) for tool in found.conversations.rack.offered.values()]
        return {
            "agent": found.id,
            "tools": tools,
            "tokens": sum(one["tokens"] for one in tools if one["available"] and not one["deferred"]),
        }

    async def show(self, name: str, agent: str | None = None) -> dict[str, Any]:
        """Return one tool with its arguments. Raises UsageError for an unknown agent or tool."""
        found = await self._agent(agent)
        offered = found.conversations.rack.offered
        tool = offered.get(name)
        if tool is None:
            known = ", ".join(offered)
            raise UsageError(
                f"{found.id} has no tool {name!r}", hint=f"There is: {known}. `homebody tools list` describes them."
            )
        return {**await asyncio.to_thread(self._facts, found, tool), "arguments": tool.tool.spec.parameters}

    async def _agent(self, wanted: str | None) -> RunningAgent:
        found = self._agents.get(wanted or self._settings().default_agent)
        if found is None:
            raise unknown_agent(wanted, self._agents)
        await self._tried(found.id)
        return found

    def _facts(self, agent: RunningAgent, offered: OfferedTool) -> dict[str, Any]:
        from agent.models.token_estimate import Calibration, weight_of_tools

        tool, name = offered.tool, offered.tool.spec.name
        excluded = self._excluded(self._settings().agent(agent.id), name)
        judged = isinstance(tool, ActingTool)
        return {
            "name": name,
            "available": excluded is None,
            "excludedBy": excluded,
            "effect": tool.effect,
            "does": _EFFECTS[tool.effect],
            "provider": offered.provider,
            "output": output_of(tool) or OUTPUT.get(name, "unknown"),
            "needs": list(needs_of(tool) or NEEDS.get(name, ())),
            "private": is_private(tool),
            "deferred": offered.deferred,
            "rule": self._rules.in_words(agent.id, name, asks="approval" in needs_of(tool))
            if judged
            else "runs without a question",
            "tokens": Calibration().apply(weight_of_tools((tool.spec,))),
            "description": tool.spec.description,
        }

    def _excluded(self, profile: AgentProfile, name: str) -> str | None:
        """Name the settings that leave a tool out, as they are written; None if it is there."""
        places = ("tools", "agents.defaults.tools", f"agents.list[{profile.id}].tools")
        return next(
            (place for place, layer in zip(places, profile.tools, strict=True) if not ToolPolicy((layer,)).allows(name)), None
        )
