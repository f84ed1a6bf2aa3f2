"""Registry of an agent's tools, filtered by the tool rules for each turn."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from agent.context.workspace_files import Workspace
from agent.tool_settings import ToolRules
from agent.tools.apply_patch import ApplyPatch
from agent.tools.command_runner import CommandRunner
from agent.tools.command_taint import CommandTaint
from agent.tools.documents import DocumentReader
from agent.tools.exec import Exec
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.memory_tools import MemoryGet, MemorySearch
from agent.tools.policy import ToolPolicy
from agent.tools.process import ProcessTool
from agent.tools.protocol import Tool, is_private
from agent.tools.provider import FixedTools, ToolProvider
from agent.tools.send_file import Outgoing, SendFile
from agent.tools.todo_file import TodoFiles
from agent.tools.todo_tool import Todo
from agent.tools.tool_search import CALL, SEARCH
from agent.tools.toolbox import Toolbox, Withheld
from gateway.settings.root import SettingsInForce
from memory.audience import SHARED
from memory.protocol import KeptMemory, Recorded

OWN: Final = "built-in"
"""The name of the provider of the tools that every agent has."""

log = logging.getLogger(__name__)


def tools_of(
    agent: str,
    workspace: Workspace,
    memory: KeptMemory | None,
    outgoing: Outgoing | None = None,
    *,
    shared: Sequence[str] = SHARED,
    commands: CommandRunner | None = None,
    documents: DocumentReader | None = None,
    recorded: Recorded | None = None,
) -> list[Tool]:
    """Make the tools that every agent could have. A new tool is listed here, or comes from a provider of ``gateway.app``.

    ``outgoing`` takes the files that it sends. ``commands`` runs commands, ``documents`` reads PDF and Office
    files. ``recorded`` is told of each file that they change. ``shared`` is what groups and guests may read besides their own folder.
    """
    files = FileToolContext(
        sandbox=workspace.sandbox,
        memory=memory,
        agent=agent,
        shared=tuple(shared),
        untrusted=workspace.untrusted,
        documents=documents,
        recorded=recorded,
    )
    tools: list[Tool] = [*file_tools(files), ApplyPatch(files), Todo(TodoFiles(files))]
    if memory is not None:
        tools += [MemorySearch(memory, files), MemoryGet(memory, files)]
    if outgoing is not None:
        tools.append(SendFile(files, outgoing))
    if commands is not None:
        tools += [Exec(commands, CommandTaint(workspace.untrusted, workspace.sandbox.root).sources), ProcessTool(commands)]
    return tools


class OfferedTool(Struct, frozen=True):
    """A tool, and the name of the provider that gives it. A ``deferred`` one is found with ``tool_search``."""

    tool: Tool
    provider: str
    deferred: bool = False


class ToolRegistry:
    """Hands out toolboxes. The same rules give the same box, so that its bytes stay as a provider's cache has them.

    ``tools`` are the agent's own; those of ``providers`` may change while it runs, and of two tools with one name the first counts.
    ``withheld`` is that of ``Toolbox``. ``settings`` are those that providers follow (see ``ToolProvider``).
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        rules: Iterable[ToolRules] = (),
        withheld: Withheld = lambda _tool, _arguments: False,
        providers: Sequence[ToolProvider] = (),
        settings: SettingsInForce | None = None,
    ) -> None:
        self.withheld = withheld
        self._settings = settings
        self._asked_at: tuple[object, tuple[object, ...]] = (None, ())
        """The settings at which providers were asked that follow them alone, and their versions."""
        self._providers: tuple[ToolProvider, ...] = (FixedTools(OWN, tools), *providers)
        self._followers = tuple(one for one in self._providers if getattr(one, "follows_settings", False))
        self._others = tuple(one for one in self._providers if one not in self._followers)
        self._versions: tuple[object, ...] | None = None
        self._offered: dict[str, OfferedTool] = {}
        self._boxes: dict[frozenset[str], Toolbox] = {}
        self.whole = Toolbox(self._providers[0].tools(), withheld=withheld)
        """The agent's own tools, for what the gateway itself does for it."""
        self.adopt(rules)

    def adopt(self, rules: Iterable[ToolRules]) -> None:
        """Go by other rules from now on; boxes that were handed out stay as they are."""
        self._policy = ToolPolicy(tuple(rules))
        self._usual: dict[tuple[str, bool], Toolbox] = {}
        """The boxes of models for which nothing further is said, for the owner and for others."""

    @property
    def offered(self) -> Mapping[str, OfferedTool]:
        """All tools by name, in order, also those that rules leave out."""
        settings, (asked_at, followed) = self._settings, self._asked_at
        if settings is None or settings.current is not asked_at:
            followed = tuple(one.version for one in self._followers)
            self._asked_at = settings and settings.current, followed
        versions = (followed, *(one.version for one in self._others))
        if versions != self._versions:
            self._offered = _by_name(self._providers)
            self._boxes, self._usual, self._versions = {}, {}, versions
        return self._offered

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, sorted by name, also those that rules leave out."""
        return tuple(one.tool for one in self.offered.values())

    def box(self, model: str = "", *further: ToolRules, private: bool = True) -> Toolbox:
        """Return the tools for a turn of ``model`` (``provider/model``); ``further`` rules narrow them, such as those of a group.

        ``private``: whether the audience of the turn is the owner; others do not have private tools.
        """
        offered = self.offered
        if further:
            return self._box(offered, self._policy.narrowed(*further).under(model), private=private)
        if (model, private) not in self._usual:
            self._usual[model, private] = self._box(offered, self._policy.under(model), private=private)
        return self._usual[model, private]

    async def close(self) -> None:
        """Close the providers. What one of them fails with is logged, and the others are closed."""
        for provider in self._providers:
            try:
                await provider.close()
            except Exception:  # a provider that cannot be closed must not keep the agent from being closed
                log.exception("the tools of %s could not be closed", provider.name)

    def _box(self, offered: Mapping[str, OfferedTool], policy: ToolPolicy, *, private: bool) -> Toolbox:
        searched = all(policy.allows(name) for name in (SEARCH, CALL))
        names = frozenset(
            name
            for name, one in offered.items()
            if policy.allows(name) and (private or not is_private(one.tool)) and (searched or not one.deferred)
        )
        if names not in self._boxes:
            deferred = {name for name in names if offered[name].deferred}
            self._boxes[names] = Toolbox((offered[name].tool for name in names), withheld=self.withheld, deferred=deferred)
        return self._boxes[names]


def _by_name(providers: Iterable[ToolProvider]) -> dict[str, OfferedTool]:
    found: dict[str, OfferedTool] = {}
    for provider in providers:
        deferred = provider.deferred()
        for tool in provider.tools():
            name = tool.spec.name
            if name in found:
                log.warning(
                    "the tool %s of %s is left out: %s has one with that name", name, provider.name, found[name].provider
                )
                continue
            found[name] = OfferedTool(tool, provider.name, deferred=name in deferred)
    return dict(sorted(found.items()))
