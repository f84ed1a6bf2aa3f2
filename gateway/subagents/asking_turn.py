"""The turn in which a tool was called: its agent, the message that it answers, and the tools that it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from agent.errors import RequestRefused
from agent.tools.protocol import ToolContext
from gateway.agents.running_agent import RunningAgent
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import agent_of


class Asking(Struct, frozen=True):
    """The turn that asks. ``model`` is the one that answers it."""

    agent: RunningAgent
    message: RoutedMessage
    tools: Sequence[str]
    model: str

    @property
    def depth(self) -> int:
        """How many sub-agents are above it."""
        return self.message.automation.depth if self.message.automation else 0


class AskingTurns:
    """Finds the turn of a tool call. ``running`` are the turns that run, by session; ``read`` reads messages by their rows."""

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        running: Mapping[str, RunningTurn],
        read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]],
    ) -> None:
        self._agents = agents
        self._running = running
        self._read = read

    async def of(self, context: ToolContext) -> Asking:
        """Return the turn of a call.

        Raises:
            RequestRefused: the call belongs to no turn that answers a message, such as a memory flush.
        """
        running, agent = self._running.get(context.key), self._agents.get(agent_of(context.key))
        found = await self._read([running.items[0].row]) if running is not None and running.items else []
        conversation = agent.conversations.get(context.session) if agent is not None else None
        if agent is None or conversation is None or not found:
            raise RequestRefused("this is possible only in a turn that answers a message")
        return Asking(agent, found[0], conversation.toolbox.names, conversation.model.name)
