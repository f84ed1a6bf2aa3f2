"""Registry of an agent's tools, filtered by the tool rules for each turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.context.workspace_files import Workspace
from agent.tool_settings import ToolRules
from agent.tools.apply_patch import ApplyPatch
from agent.tools.command_runner import CommandRunner
from agent.tools.command_taint import CommandTaint
from agent.tools.exec import Exec
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.memory_tools import MemoryGet, MemorySearch
from agent.tools.policy import ToolPolicy
from agent.tools.process import ProcessTool
from agent.tools.protocol import Tool
from agent.tools.send_file import Outgoing, SendFile
from agent.tools.toolbox import Toolbox, Withheld
from memory.audience import SHARED
from memory.protocol import KeptMemory


def tools_of(
    agent: str,
    workspace: Workspace,
    memory: KeptMemory | None,
    outgoing: Outgoing | None = None,
    *,
    shared: Sequence[str] = SHARED,
    further: Iterable[Tool] = (),
    commands: CommandRunner | None = None,
) -> list[Tool]:
    """Make all tools that an agent could have. A new tool is listed here. ``outgoing`` takes the files that it sends.

    ``commands`` runs commands. ``further`` are made elsewhere, such as those of ``gateway.tools.web_tools``. ``shared`` is what groups
    and guests may read besides their own folder.
    """
    files = FileToolContext(
        sandbox=workspace.sandbox, memory=memory, agent=agent, shared=tuple(shared), untrusted=workspace.untrusted
    )
    tools: list[Tool] = [*file_tools(files), ApplyPatch(files)]
    if memory is not None:
        tools += [MemorySearch(memory, files), MemoryGet(memory, files)]
    if outgoing is not None:
        tools.append(SendFile(files, outgoing))
    if commands is not None:
        tools += [Exec(commands, CommandTaint(workspace.untrusted, workspace.sandbox.root).sources), ProcessTool(commands)]
    return [*tools, *further]


class ToolRegistry:
    """Hands out toolboxes. The same rules give the same box, so that its bytes stay as a provider's cache has them.

    ``withheld`` is that of ``Toolbox``.
    """

    def __init__(
        self, tools: Iterable[Tool], rules: Iterable[ToolRules] = (), withheld: Withheld = lambda _tool, _arguments: False
    ) -> None:
        self.withheld = withheld
        self.tools = tuple(tools)
        """All tools, in the order in which they were made, also those that rules leave out."""
        self._boxes: dict[frozenset[str], Toolbox] = {}
        self.whole = Toolbox(self.tools, withheld=withheld)
        """All tools, for what the gateway itself does for the agent."""
        self.adopt(rules)

    def adopt(self, rules: Iterable[ToolRules]) -> None:
        """Go by other rules from now on; boxes that were handed out stay as they are."""
        self._policy = ToolPolicy(tuple(rules))
        self._usual: dict[str, Toolbox] = {}
        """The boxes of models for which nothing further is said."""

    def box(self, model: str = "", *further: ToolRules) -> Toolbox:
        """Return the tools for a turn of ``model`` (``provider/model``); ``further`` rules narrow them, such as those of a group."""
        if not further:
            if model not in self._usual:
                self._usual[model] = self._box(self._policy.under(model))
            return self._usual[model]
        return self._box(self._policy.narrowed(*further).under(model))

    def _box(self, policy: ToolPolicy) -> Toolbox:
        names = frozenset(tool.spec.name for tool in self.tools if policy.allows(tool.spec.name))
        if names not in self._boxes:
            tools = (tool for tool in self.tools if tool.spec.name in names)
            self._boxes[names] = Toolbox(tools, withheld=self.withheld)
        return self._boxes[names]
