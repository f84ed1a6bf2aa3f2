"""Builds an agent: workspace, memory, tools, sessions and budget."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from msgspec import Struct

from agent.context.workspace_files import RITUAL, Workspace, workspace_templates
from agent.errors import WorkspaceFileError
from agent.tools.untrusted_files import UntrustedFiles
from agent.tools.workspace_sandbox import Closed
from channels.messages import ChatAddress
from channels.platform import Policy
from gateway.agents.memory_stores import embedder_key, keep_memory, owner_zone
from gateway.agents.running_agent import RunningAgent
from gateway.agents.session_contexts import SessionContexts
from gateway.app.commands import CommandParts
from gateway.app.workspace_parts import WorkspaceParts
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.budget.budget_guard import BudgetGuard
from gateway.budget.budgeted_calls import BudgetEmbedder
from gateway.budget.raised_limits import keys_of
from gateway.ledger.protocol import Ledger
from gateway.media.outgoing import OutgoingFiles
from gateway.models.model_registry import ModelRegistry
from gateway.outbound.owner_notifications import StartupNotices
from gateway.routing.access import GroupRules
from gateway.runner.agent_commands import AgentCommands
from gateway.settings.root import AgentProfile, Settings, SettingsStore
from gateway.skills.agent_skills import AgentSkills
from gateway.telemetry.recorder import Telemetry
from memory.notes.transcript_source import Transcripts
from memory.protocol import KeptMemory, Recorded

if TYPE_CHECKING:  # loaded when they are needed
    from agent.tools.provider import ToolProvider
    from agent.tools.toolbox import Withheld
    from agent.tools.web.fetch_protocol import Fetcher
    from gateway.sessions.protocol import SessionStore
    from gateway.tools.registry import ToolRegistry
    from gateway.workspaces.workspace_sync import WorkspaceSync

UNTRUSTED = "untrusted.jsonl"
"""The record of which lines of an agent's files were written while untrusted text was in view."""

log = logging.getLogger(__name__)


class BuiltAgent(Struct, frozen=True):
    """An agent, its commands, and its memory, if it has one. An agent whose ``build_key`` changes has to be rebuilt."""

    agent: RunningAgent
    memory: KeptMemory | None
    build_key: object
    commands: AgentCommands
    workspaces: WorkspaceParts
    sync: WorkspaceSync | None = None

    def start(self) -> None:
        """Start its memory's background work, and report commands that an earlier process left running."""
        self.commands.report_lost()
        if self.memory is not None:
            self.memory.start()
        if self.sync is not None:
            self.sync.start()

    async def close(self) -> None:
        """End its commands and close its memory."""
        await self.commands.close()
        await self.agent.conversations.close()
        if self.memory is not None:
            await self.memory.close()
        if self.sync is not None:
            await self.workspaces.closed(self.agent.id, self.sync)


def build_key(profile: AgentProfile, settings: Settings, paths: Paths, env: Mapping[str, str]) -> object:
    """Return the settings that an agent cannot change while it runs, for comparison. Reads files: call it in a thread."""
    kept = settings.plugins.slots.memory, settings.plugins.memory, embedder_key(profile, settings, paths, env)
    return (
        profile.workspace,
        profile.store,
        profile.settings.user_timezone,
        profile.settings.shared_paths,
        profile.memory,
        settings.tools.web,
        settings.mail.accounts_of(profile.id, settings.default_agent).keys(),
        {name: one for name, one in settings.mcp.servers.items() if one.serves(profile.id, settings.default_agent)},
        kept,
    )


class AgentParts(Struct, frozen=True, kw_only=True):
    """What every agent of a gateway shares.

    ``closed`` is that of ``WorkspaceSandbox``; ``busy`` says whether a session has work; ``formers`` gives the earlier ids of a chat.
    """

    settings: SettingsStore
    paths: Paths
    closed: Closed
    env: Mapping[str, str]
    clock: SystemClock
    random: Random
    ledger: Ledger
    sessions: Callable[[str], SessionStore]
    models: ModelRegistry
    outgoing_files: OutgoingFiles
    fetcher: Fetcher
    withheld: Withheld
    notices: StartupNotices
    tell_owner: Callable[[str], None]
    policies: Callable[[], Mapping[tuple[str, str], Policy]]
    formers: Callable[[ChatAddress], tuple[ChatAddress, ...]]
    busy: Callable[[str], bool]
    commands: CommandParts
    skills: Callable[[str], AgentSkills]
    workspaces: WorkspaceParts
    providers: Callable[[str], Sequence[ToolProvider]] = lambda _: ()
    telemetry: Telemetry | None = None


def folder_of(parts: AgentParts, profile: AgentProfile) -> Workspace:
    """Open the folder of an agent that is not built. Blocks. Raises AgentError."""
    return Workspace(profile.workspace, parts.closed, UntrustedFiles(parts.paths.agent(profile.id) / UNTRUSTED))


async def build_agent(parts: AgentParts, agent_id: str, settings: Settings) -> BuiltAgent:
    """Build an agent from ``settings``, with its memory if it has one.

    Raises:
        StorageFailed, AgentError: one of its folders cannot be used.
        UsageError: no installed package provides its memory, or its workspace cannot be kept as the settings say.
    """
    profile = settings.agent(agent_id)
    key = await asyncio.to_thread(build_key, profile, settings, parts.paths, parts.env)
    store = parts.sessions(agent_id)
    untrusted = UntrustedFiles(parts.paths.agent(agent_id) / UNTRUSTED, store.transcript, parts.skills(agent_id))
    workspace = await asyncio.to_thread(Workspace, profile.workspace, parts.closed, untrusted)
    sync = await parts.workspaces.of(profile, workspace)
    recorded = sync.wrote if sync is not None else None
    made = () if profile.settings.skip_bootstrap else await asyncio.to_thread(_seed, workspace, parts.notices)
    zone = owner_zone(profile)
    budget = _budget_guard(parts, agent_id, settings, zone)
    memory = _memory(parts, profile, settings, budget=budget, sessions=store.transcripts.searched(), recorded=recorded)
    for notice in await store.load():
        parts.notices.report(notice)
    if RITUAL in made and store.all():
        parts.notices.report(_laid_anew(agent_id, workspace))
    commands = await parts.commands.of(profile, workspace, *([sync.command] if sync is not None else []))
    rules = GroupRules(parts.policies, parts.formers)
    contexts = SessionContexts(
        profile=profile,
        workspace=workspace,
        memory=memory,
        rack=partial(
            _tools, parts, profile, settings, workspace=workspace, memory=memory, commands=commands, recorded=recorded
        ),
        group=rules.of_session,
        store=store,
        zone=zone,
        clock=parts.clock,
        models=parts.models.of(agent_id),
        tell=parts.notices.report,
        budget_guard=budget,
        busy=parts.busy,
        skills=parts.skills(agent_id).listing,
    )
    agent = RunningAgent(
        contexts,
        session_settings=settings.session,
        hooks=settings.hooks.internal,
        new_id=lambda: f"{parts.clock.now():%Y%m%d}-{secrets.token_hex(6)}",
    )
    return BuiltAgent(agent, memory, key, commands, parts.workspaces, sync)


def _budget_guard(parts: AgentParts, agent_id: str, settings: Settings, zone: ZoneInfo) -> BudgetGuard:
    return BudgetGuard(
        parts.ledger.spending,
        settings.budgets,
        parts.clock,
        agent=agent_id,
        zone=zone,
        price=parts.models.price,
        tell=parts.tell_owner,
        telemetry=parts.telemetry,
        keys=keys_of(settings, agent_id),
    )


def _memory(
    parts: AgentParts,
    profile: AgentProfile,
    settings: Settings,
    *,
    budget: BudgetGuard,
    sessions: Transcripts | None,
    recorded: Recorded | None,
) -> KeptMemory | None:
    """Open the memory, whose embedder is paid from the agent's budget."""
    prices = parts.models.prices
    return keep_memory(
        profile,
        settings,
        parts.paths,
        env=parts.env,
        clock=parts.clock,
        random=parts.random,
        tell=parts.notices.tell,
        present=lambda: parts.settings.current,
        profiles=parts.models.profiles,
        sessions=sessions,
        meter=lambda embedder: BudgetEmbedder(embedder, budget, prices.find(embedder.provider, embedder.model)),
        recorded=recorded,
    )


def _tools(
    parts: AgentParts,
    profile: AgentProfile,
    settings: Settings,
    *,
    workspace: Workspace,
    memory: KeptMemory | None,
    commands: AgentCommands,
    recorded: Recorded | None,
) -> ToolRegistry:
    """Put together the agent's own tools, those of the web, and those of other providers."""
    from agent.tools.provider import FixedTools
    from gateway.documents.reader import DocumentParser
    from gateway.tools.registry import ToolRegistry, tools_of
    from gateway.tools.web_tools import web_tools

    own = tools_of(
        profile.id,
        workspace,
        memory,
        parts.outgoing_files,
        shared=profile.settings.shared_paths,
        commands=commands,
        documents=DocumentParser(),
        recorded=recorded,
    )
    web = FixedTools("web", web_tools(settings.tools.web, parts.fetcher, parts.env))
    return ToolRegistry(own, profile.tools, parts.withheld, [web, *parts.providers(profile.id)], parts.settings)


def _laid_anew(agent_id: str, workspace: Workspace) -> str:
    return (
        f"The workspace {workspace.root} was missing or empty although {agent_id} had conversations before; it was "
        "created again from the templates. If it is on a disk that is not mounted, stop the gateway, mount it and start again. To "
        f"restore deleted notes: homebody memory log --agent {agent_id}, then homebody memory undo NUMBER"
    )


def _seed(workspace: Workspace, notices: StartupNotices) -> tuple[str, ...]:
    try:
        made = workspace.seed(workspace_templates())
    except WorkspaceFileError as trouble:
        notices.tell(f"The workspace is not writable: {trouble} {trouble.hint}".strip())
        return ()
    else:
        if made:
            log.info("created in the workspace %s: %s", workspace.root, ", ".join(made))
    return made
