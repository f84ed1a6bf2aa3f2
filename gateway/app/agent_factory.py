"""Settling an agent in: its workspace, its memory, its tools, its sessions and its purse."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.context.workspace_files import RITUAL, Workspace, workspace_templates
from agent.errors import WorkspaceFileError
from gateway.agents.memory_stores import embedder_key, keep_memory, owner_zone
from gateway.agents.running_agent import RunningAgent
from gateway.agents.session_contexts import SessionContexts
from gateway.budget.embedding import BudgetEmbedder
from gateway.budget.guard import BudgetGuard
from gateway.config.workspace_location import protected_inodes
from gateway.routing.group_tools import GroupToolRules
from gateway.sessions.store import SessionStore
from gateway.tools.registry import ToolRegistry, tools_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.app.gateway import Gateway
    from gateway.base.paths import Paths
    from gateway.outbound.startup_notices import StartupNotices
    from gateway.settings.root import AgentProfile, Settings
    from memory.protocol import KeptMemory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BuiltAgent:
    """An agent with its memory, where it has one. ``build_key`` is what it cannot change while it lives."""

    agent: RunningAgent
    memory: KeptMemory | None
    build_key: object

    def start(self) -> None:
        """Begin what its memory does in the background."""
        if self.memory is not None:
            self.memory.start()

    async def close(self) -> None:
        """Close its memory."""
        if self.memory is not None:
            await self.memory.close()


def build_key(profile: AgentProfile, settings: Settings, paths: Paths, env: Mapping[str, str]) -> object:
    """Return what an agent stands on, to be compared: where it differs, the agent has to be made anew. Looks at files."""
    kept = settings.plugins.slots.memory, settings.plugins.memory, embedder_key(profile, settings, paths, env)
    return profile.workspace, profile.settings.user_timezone, profile.settings.shared_paths, profile.memory, kept


async def build_agent(house: Gateway, agent_id: str, settings: Settings) -> BuiltAgent:
    """Make an agent of a house by ``settings``, with its memory where it has one.

    Raises:
        StorageFailed, AgentError: one of its folders cannot be used.
        UsageError: its memory is one that no package brings.
    """
    on = house.on
    profile = settings.agent(agent_id)
    stands_on = await asyncio.to_thread(build_key, profile, settings, on.paths, on.env)
    closed = await asyncio.to_thread(protected_inodes, on.paths.home)
    workspace = await asyncio.to_thread(Workspace, profile.workspace, closed)
    made = () if profile.settings.skip_bootstrap else await asyncio.to_thread(_seed, workspace, house.notices)
    zone = owner_zone(profile)
    brake = BudgetGuard(
        house.ledger.spending,
        settings.budgets,
        on.clock,
        agent=agent_id,
        zone=zone,
        price=house.shelf.price,
        tell=house.owner.say,
    )
    prices = house.shelf.prices
    memory = keep_memory(
        profile,
        settings,
        on.paths,
        env=on.env,
        clock=on.clock,
        random=on.random,
        tell=house.notices.tell,
        present=lambda: house.on.settings,
        profiles=house.shelf.profiles,
        meter=lambda embedder: BudgetEmbedder(embedder, brake, prices.find(embedder.provider, embedder.model)),
    )
    store = SessionStore(on.paths.sessions(agent_id), on.clock)
    for notice in await store.load():
        house.notices.report(notice)
    if RITUAL in made and store.all():
        house.notices.report(_laid_anew(agent_id, workspace))
    conversations = SessionContexts(
        profile=profile,
        workspace=workspace,
        memory=memory,
        rack=ToolRegistry(
            tools_of(agent_id, workspace, memory, house.post.outgoing, shared=profile.settings.shared_paths), profile.tools
        ),
        narrowed=GroupToolRules(house.keepers.policies, house.moves.formers),
        store=store,
        zone=zone,
        clock=on.clock,
        models=house.shelf.of(agent_id),
        tell=house.notices.report,
        brake=brake,
        busy=house.lanes.busy,
    )
    agent = RunningAgent(
        conversations,
        session_settings=settings.session,
        hooks=settings.hooks.internal,
        new_id=lambda: f"{on.clock.now():%Y%m%d}-{secrets.token_hex(6)}",
    )
    return BuiltAgent(agent, memory, stands_on)


def _laid_anew(agent_id: str, workspace: Workspace) -> str:
    return (
        f"The workspace {workspace.root} was missing or empty although {agent_id} has talked to you before, and was made anew from the "
        "templates. If it is on a disk that is not mounted, stop the gateway, mount the disk and start again. Notes that were deleted "
        f"come back by: homebody memory log --agent {agent_id}, then homebody memory undo NUMBER"
    )


def _seed(workspace: Workspace, notices: StartupNotices) -> tuple[str, ...]:
    try:
        made = workspace.seed(workspace_templates())
    except WorkspaceFileError as trouble:
        notices.tell(f"The workspace cannot be written to: {trouble} {trouble.hint}".strip())
        return ()
    else:
        if made:
            log.info("the workspace %s was given %s", workspace.root, ", ".join(made))
    return made
