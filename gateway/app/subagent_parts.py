"""Builds sub-agents: the tools that start them and look at sessions, what brings their results, and what stops them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from agent.timing import Clock
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.decisions import Decisions
from gateway.command_handlers.stopping import Stopping
from gateway.command_handlers.urgent_commands import FurtherCommand
from gateway.inbound.pipeline import Inbox
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import InboxRow
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.subagents.subagent_results import SubAgentResults
from gateway.subagents.subagent_service import SubAgents
from gateway.subagents.tree import WorkTree

if TYPE_CHECKING:
    from agent.tools.protocol import Tool


class SubAgentParts:
    """The parts of sub-agents, and what stops all that runs.

    ``accounts`` are the accounts that are on, ``running`` the turns that run, by session; ``inbox`` returns the inbox once it is built.
    """

    def __init__(
        self,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        clock: Clock,
        *,
        lanes: Lanes[Any],
        queue: MessageQueue,
        running: Mapping[str, RunningTurn],
        decisions: Decisions,
        channel: Callable[[ChatAddress], Channel],
        owner: OwnerNotifications,
        accounts: Callable[[], Collection[str]],
        end_commands: Callable[[Callable[[str], bool]], int],
        inbox: Callable[[], Inbox],
    ) -> None:
        async def read(rows: Sequence[int]) -> list[RoutedMessage]:
            return await inbox().read(rows)

        async def hand_out(row: InboxRow) -> None:
            await inbox().hand_out(row)

        self.results = SubAgentResults(ledger, agents, clock)
        self.service = SubAgents(
            ledger,
            agents,
            clock,
            lanes=lanes,
            queue=queue,
            results=self.results,
            end_commands=end_commands,
            hand_out=hand_out,
        )
        self.stopping = Stopping(ledger, lanes, queue, decisions, subagents=self.service, end_commands=end_commands)
        self.tree = WorkTree(ledger, agents, clock, lanes=lanes, running=running, subagents=self.service)

        def tools() -> Sequence[Tool]:
            from agent.tools.message import MessageTool
            from agent.tools.session_tools import SessionsTool
            from agent.tools.spawn import Spawn
            from gateway.subagents.asking_turn import AskingTurns
            from gateway.subagents.chats import OtherChats
            from gateway.subagents.session_reading import SessionReading
            from gateway.subagents.starting import SubAgentStarter

            asking = AskingTurns(agents, running, read)
            starter = SubAgentStarter(ledger, agents, asking, read=read, hand_out=hand_out)
            chats = OtherChats(ledger, agents, asking, channel=channel, owners=owner.chats, accounts=accounts)
            return Spawn(starter), SessionsTool(SessionReading(ledger, agents, starter)), MessageTool(chats)

        self.tools: Callable[[], Sequence[Tool]] = cache(tools)
        """The tools that every agent gets; they find out from each call who asks."""
        self.commands: Mapping[str, FurtherCommand] = {"agents": self.tree.command}
