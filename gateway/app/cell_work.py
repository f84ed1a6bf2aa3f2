"""What begins and ends with the leases of a gateway in a cluster: agents, their messages, and the accounts they answer on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from gateway.app.agent_supervisor import AgentSupervisor
from gateway.app.group_parts import GroupParts
from gateway.app.mail_watch import MailWatchParts
from gateway.inbound.pipeline import Inbox
from gateway.jobs.job_service import JobService
from gateway.ledger.protocol import Ledger
from gateway.supervision.channel_supervisor import ChannelSupervisor


class CellWork:
    """Begins and ends the work for a cell: accounts, and the agents that answer on them.

    ``take_up_turns`` queues unfinished turns of agents, ``connect`` has accounts connected. ``open_to`` is called in between: messages
    for these agents are handled here from then on.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        agents: AgentSupervisor,
        channels: ChannelSupervisor,
        groups: GroupParts,
        inbox: Inbox,
        mail_watch: MailWatchParts,
        jobs: JobService,
        take_up_turns: Callable[[Collection[str]], Awaitable[None]],
        connect: Callable[[Callable[[str], bool]], None],
        open_to: Callable[[Sequence[str], Sequence[str]], None],
    ) -> None:
        self._ledger = ledger
        self._agents = agents
        self._channels = channels
        self._groups = groups
        self._inbox = inbox
        self._mail_watch = mail_watch
        self._jobs = jobs
        self._take_up_turns = take_up_turns
        self._connect = connect
        self._open_to = open_to

    async def take(self, agents: Sequence[str], accounts: Sequence[str]) -> None:
        """Take up what is unfinished of these agents, then handle their messages, then connect these accounts."""
        await self._ledger.outbox.taken_over(accounts)
        for agent in agents:
            await self._agents.take(agent)
        await self._groups.load()
        await self._inbox.migrations.load(self._ledger.chat_migrations)
        await self._take_up_turns(agents)
        last = await self._inbox.take_in(agents)
        while (newer := await self._inbox.take_in(agents, last)) > last:
            last = newer
        self._open_to(agents, accounts)
        self._connect(accounts.__contains__)
        self._mail_watch.look_again()
        await self._jobs.look_again()

    async def leave(self, agents: Sequence[str], accounts: Sequence[str], within: float | None) -> None:
        """Disconnect these accounts, and let these agents finish what they have begun, at most ``within`` seconds long."""
        await asyncio.gather(*(self._channels.let_go(name) for name in accounts if name in self._channels))
        self._mail_watch.look_again()
        await asyncio.gather(*(self._agents.give_up(agent, within) for agent in agents))
        self._inbox.left(agents)

    async def arrived(self) -> None:
        """Take in what others stored for agents that are here."""
        await self._inbox.take_in()
