"""Which agents and accounts one gateway holds together, by the settings.

What is said on an account can reach each agent that its rules name. These work in one process with the account, so that typing, previews,
files, ``/stop`` and decisions need no way between gateways. Agents that share an account are therefore one cell, and so are agents that
may start sub-agents of each other or read one mailbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.cluster.leases import Cell
from gateway.settings.root import Settings

AGENT: Final = "agent:"
ACCOUNT: Final = "account:"
ANY: Final = "*"


def agents_in(cell: Iterable[str]) -> list[str]:
    """Return the ids of the agents in a cell."""
    return [token.removeprefix(AGENT) for token in cell if token.startswith(AGENT)]


def accounts_in(cell: Iterable[str]) -> list[str]:
    """Return the accounts in a cell, as ``channel:account``."""
    return [token.removeprefix(ACCOUNT) for token in cell if token.startswith(ACCOUNT)]


def cells_of(settings: Settings, accounts: Iterable[str]) -> tuple[Cell, ...]:
    """Return the cells of all agents and of these accounts, which are enabled, in the order of the agents."""
    agents = settings.agent_ids
    groups = [{f"{AGENT}{agent}"} for agent in agents]
    groups += [{f"{ACCOUNT}{name}", *(f"{AGENT}{agent}" for agent in _answering(settings, name))} for name in accounts]
    for agent in agents:
        allowed = settings.agent(agent).subagents.allow_agents
        others = agents if ANY in allowed else [one.lower() for one in allowed]
        groups.append({f"{AGENT}{one}" for one in (agent, *others) if one in agents})
    for mailbox in settings.mail.accounts.values():
        readers = [one for one in mailbox.agents if one in agents] or [settings.default_agent]
        groups.append({f"{AGENT}{one}" for one in readers})
    joined: list[set[str]] = []
    for group in groups:
        touching = [one for one in joined if one & group]
        joined = [one for one in joined if not one & group]
        joined.append(group.union(*touching))
    order = {f"{AGENT}{agent}": place for place, agent in enumerate(agents)}
    cells = [tuple(sorted(cell)) for cell in joined]
    return tuple(sorted(cells, key=lambda cell: min(order.get(token, len(order)) for token in cell)))


def _answering(settings: Settings, account: str) -> set[str]:
    """Return the agents that may answer on an account."""
    channel, _, name = account.partition(":")
    matching = [
        binding
        for binding in settings.bindings
        if binding.match.channel.lower() == channel
        and (binding.match.account_id or "default") in {ANY, name}
        and binding.agent_id.lower() in settings.agent_ids
    ]
    found = {binding.agent_id.lower() for binding in matching}
    whole = any(
        (match.peer, match.thread, match.guild_id, match.team_id) == (None,) * 4 for match in (one.match for one in matching)
    )
    if not whole:
        found.add(settings.default_agent)
    for place, named in settings.broadcast.items():
        prefix, colon, _ = place.partition(":")
        if not isinstance(named, str) and (not colon or prefix == channel or prefix.lstrip("-").isdecimal()):
            found |= {agent.lower() for agent in named if agent.lower() in settings.agent_ids}
    return found
