"""Settling an agent in: its workspace, its memory, its tools, its sessions and its purse."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

from agent.errors import FileTrouble
from agent.workspace import Workspace, workspace_templates
from gateway.agents import HousedAgent
from gateway.budget.brake import Brake
from gateway.conversations import Conversations
from gateway.memories import keep_memory, owner_zone
from gateway.routing.group_tools import GroupToolRules
from gateway.sessions.store import SessionStore
from gateway.tool_rack import ToolRack, tools_of

if TYPE_CHECKING:
    from gateway.house import House
    from gateway.notices import Notices
    from memory.protocol import KeptMemory

log = logging.getLogger(__name__)


async def settle_in(house: House, agent_id: str) -> tuple[HousedAgent, KeptMemory | None]:
    """Make an agent of a house, with its memory where it has one.

    Raises:
        StorageFailed, AgentError: one of its folders cannot be used.
    """
    on = house.on
    profile = on.settings.agent(agent_id)
    workspace = await asyncio.to_thread(Workspace, profile.workspace)
    if not profile.settings.skip_bootstrap:
        await asyncio.to_thread(_seed, workspace, house.notices)
    memory = keep_memory(profile, on.settings, on.paths, env=on.env, clock=on.clock, random=on.random, tell=house.notices.tell)
    zone = owner_zone(profile)
    store = SessionStore(on.paths.sessions(agent_id), on.clock)
    for notice in await store.load():
        house.notices.report(notice)
    conversations = Conversations(
        profile=profile,
        workspace=workspace,
        memory=memory,
        rack=ToolRack(tools_of(agent_id, workspace, memory, house.post.outgoing), profile.tools),
        narrowed=GroupToolRules(house.keepers.policies, house.moves.formers),
        store=store,
        zone=zone,
        clock=on.clock,
        models=house.shelf.of(agent_id),
        tell=house.notices.report,
        brake=Brake(
            house.ledger,
            on.settings.budgets,
            on.clock,
            agent=agent_id,
            zone=zone,
            price=house.shelf.price,
            tell=house.owner.say,
        ),
    )
    agent = HousedAgent(
        conversations,
        session_settings=on.settings.session,
        hooks=on.settings.hooks.internal,
        new_id=lambda: f"{on.clock.now():%Y%m%d}-{secrets.token_hex(6)}",
    )
    return agent, memory


def _seed(workspace: Workspace, notices: Notices) -> None:
    try:
        made = workspace.seed(workspace_templates())
    except FileTrouble as trouble:
        notices.tell(f"The workspace cannot be written to: {trouble} {trouble.mend}".strip())
    else:
        if made:
            log.info("the workspace %s was given %s", workspace.root, ", ".join(made))
