"""What lanes are given to do: messages to answer, turns to take up again, sessions to begin afresh.

    session   the one reset rule, judged
    claim     the turn is in the ledger
    answer    transcript, flush, model, tools, and "turn done" with the reply (``gateway.turns.answering``)

A crash anywhere leaves the turn running in the ledger; the next start goes on from what the transcript holds.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.errors import AgentError
from channels.live import Activity, Rejected
from gateway.base import errors
from gateway.base.shield import finish_despite_cancel, run_despite_cancel
from gateway.command_handlers.model_commands import ModelCommands
from gateway.command_handlers.session_commands import SessionCommands
from gateway.outbound.buttons import offered
from gateway.outbound.progress import show_frame
from gateway.queue.message_queue import QueuedMessage
from gateway.queue.steering import RunningTurn
from gateway.turns.answering import Answering, TurnContext
from gateway.turns.interrupted import given_up, worked_on
from gateway.turns.result_summary import in_words, turn_facts
from gateway.turns.turn_log import bound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from agent.timing import Clock
    from channels.messages import Button, ChatAddress
    from channels.protocol import Channel
    from gateway.agents.running_agent import RunningAgent
    from gateway.command_handlers.rights import CommandRights
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import Turn
    from gateway.queue.lanes import Lanes, Ticket
    from gateway.queue.message_queue import MessageQueue
    from gateway.routing.routed_message import RoutedMessage
    from gateway.sessions.store import SessionRecord
    from gateway.turns.interrupted import GivenUp

log = logging.getLogger(__name__)

STOPPED_COMMAND = "Stopped. The command was not carried out; this conversation goes on as it was."
_SLOW_COMMANDS = {
    "new": "writing notes before the fresh conversation",
    "reset": "writing notes before the fresh conversation",
    "compact": "writing notes and a summary",
}
"""What a command does while its reply is awaited, where a model takes part in it."""


@dataclass(frozen=True, slots=True)
class InterruptedTurn:
    """A turn that the last process did not finish."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class ResetDue:
    """A session that the scheduler found due for a fresh start."""

    agent: str
    key: str


class TurnWorker:
    """Does what lanes are given. ``read`` reads messages by their rows; ``channel`` finds the channel of a conversation."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]],
        agents: Mapping[str, RunningAgent],
        channel: Callable[[ChatAddress], Channel],
        audience: Callable[[str], Any],
        clock: Clock,
        lanes: Lanes[Any],
        line: MessageQueue,
        answering: Answering,
        rights: CommandRights,
        running: dict[str, RunningTurn],
    ) -> None:
        self._rights = rights
        self._ledger = ledger
        self._read = read
        self._agents = agents
        self._channel = channel
        self._audience = audience
        self._clock = clock
        self._lanes = lanes
        self._line = line
        self._answering = answering
        self._under_way = running

    async def work(self, ticket: Ticket[Any]) -> None:
        """Do one item of a lane."""
        match ticket.item:
            case InterruptedTurn(turn):
                await self._resume(ticket, turn)
            case ResetDue(agent, key):
                await self._reset(self._agents[agent], key)
            case QueuedMessage() as head:
                await self._queued(ticket, head)

    def told_broken(self, item: Any, error: Exception, *, stopped: bool = False) -> None:
        """Tell a waiting client that its message could not be dealt with now. It stays in the inbox, unless its owner stopped it."""
        if not isinstance(item, QueuedMessage):
            return
        if stopped:
            show_frame(self._channel(item.place), item.place, Rejected(item.message_id, "it was stopped"))
            return
        known = errors.as_homebody_error(error)
        reason = str(known) if known else "Something went wrong on my side; see the log."
        hint = known.hint if known else "It is kept, and I try again when I am started next."
        show_frame(self._channel(item.place), item.place, Rejected(item.message_id, reason, hint))

    async def _queued(self, ticket: Ticket[Any], head: QueuedMessage) -> None:
        """Deal with a message, and with those in line behind it that belong to it."""
        items = self._line.gather(ticket.session, head)
        if ticket.ending == "stop":
            await self._left(ticket, items)
            return
        under_way, over = RunningTurn(ticket.session, head.kin, items), False
        try:
            if not await self._at_once(ticket, items, under_way):
                found = [one for one in await self._read([item.row for item in items]) if one.row.state == "waiting"]
                if found:
                    await self._messages(ticket, found, under_way)
            over = True
        except asyncio.CancelledError:
            over = True
            if self._under_way.get(ticket.session) is not under_way:  # no turn has them yet
                await run_despite_cancel(self._left(ticket, items))
            raise
        finally:
            if self._under_way.get(ticket.session) is under_way:
                del self._under_way[ticket.session]
            elif not over:  # the first one is for whoever hears of the error; the others are tried for themselves
                self._lanes.give_back(ticket.session, items[1:])

    async def _at_once(self, ticket: Ticket[Any], items: Sequence[QueuedMessage], under_way: RunningTurn) -> bool:
        """Deal with a message that is still at hand. False where it has to be read, or is not what it was any more."""
        if len(items) > 1 or items[0].arrived is None or not items[0].kin:
            return False
        try:
            await self._messages(ticket, [items[0].arrived], under_way)
        except errors.InvalidTransition:
            if self._under_way.get(ticket.session) is under_way:
                raise
            return False
        return True

    async def _left(self, ticket: Ticket[Any], items: Sequence[QueuedMessage]) -> None:
        """End messages whose turn their owner stopped before it began; something newer ends only a turn that has begun."""
        if ticket.ending == "stop":
            await self._ledger.inbox.settle([item.row for item in items], "answered", reason="stopped by its owner")
            for item in items:
                stopped = STOPPED_COMMAND if not item.kin else "it was stopped"
                show_frame(self._channel(item.place), item.place, Rejected(item.message_id, stopped))

    async def _messages(self, ticket: Ticket[Any], found: Sequence[RoutedMessage], under_way: RunningTurn) -> None:
        arrived, route = found[0], found[0].route
        agent = self._agents[route.agent]
        with bound(agent=agent.id, session=route.session, channel=arrived.inbound.conversation.channel):
            if not arrived.inbound.text.strip() and not arrived.inbound.attachments:
                await self._ledger.inbox.settle([arrived.row.id], "ignored", reason="empty")
                self._answering.done(arrived, turn_facts(agent.id, route.session, "", ""))
                return
            place = arrived.inbound.conversation
            record = await agent.current(route.session, route.audience, address=place.address, space=place.space or "")
            command = arrived.command_for(agent.triggers)
            if command is not None:
                await self._command(agent, arrived, record, command[0].name, command[1])
                return
            turn, (arrived, *further) = await finish_despite_cancel(self._claimed(agent, found))
            self._under_way[route.session] = under_way
            await self._answering.answer(
                ticket, TurnContext(agent, arrived, further, record, turn, _greeting(record), under_way)
            )

    async def _claimed(self, agent: RunningAgent, found: Sequence[RoutedMessage]) -> tuple[Turn, Sequence[RoutedMessage]]:
        """Begin the turn for messages. Those that their senders edited while they waited are read again."""
        turn = await self._ledger.turns.claim(found[0].route.session, agent.id, [one.row.id for one in found])
        if not turn.edited:
            return turn, found
        edited = {one.row.id: one for one in await self._read(turn.edited)}
        return turn, [edited.get(one.row.id, one) for one in found]

    async def _resume(self, ticket: Ticket[Any], turn: Turn) -> None:
        found = await self._read(turn.inbox)
        if ticket.ending == "stop":
            await self._ledger.turns.finish(turn.id, "stopped", reason="stopped by its owner")
            if found:
                self._answering.all_done(found, turn_facts(turn.agent, turn.session, "", ""))
            return
        if not found:
            await self._ledger.turns.finish(turn.id, "failed", reason="its message cannot be read any more")
            return
        arrived = found[0]
        agent = self._agents.get(turn.agent)
        record = agent.store.get(turn.session) if agent else None
        zone = agent.zone if agent is not None and record is not None else None
        judged = partial(given_up, turn, found, self._clock.now(), zone)
        over = judged()
        if over is not None or agent is None or record is None:
            assert over is not None
            if agent is not None and record is not None:
                over = await self._noted(agent, record, over, judged)
            await self._give_up(ticket, turn, over)
            return
        turn = await finish_despite_cancel(self._ledger.turns.retry(turn.id))
        items = [self._line.item(one) for one in found]
        under_way = self._under_way[turn.session] = RunningTurn(turn.session, items[0].kin, items)
        with bound(agent=agent.id, session=turn.session, channel=arrived.inbound.conversation.channel):
            greeting = "(I was restarted and went on.)" if turn.attempt > 1 else ""
            try:
                await self._answering.answer(ticket, TurnContext(agent, arrived, found[1:], record, turn, greeting, under_way))
            finally:
                del self._under_way[turn.session]

    async def _noted(
        self, agent: RunningAgent, record: SessionRecord, over: GivenUp, judged: Callable[[set[str]], GivenUp | None]
    ) -> GivenUp:
        """Have the transcript say what was given up, so that the next turn does not answer it; once, however often it is tried.

        Return how the turn ends, judged anew by what the transcript holds.
        """
        try:
            transcript = await agent.conversations.transcript(record)
            over = judged(worked_on(over, transcript.entries)) or over
            entry = over.entry({entry.id for entry in transcript.entries})
            await transcript.append(f"{over.ended[0].row.uid}~over", entry, n=0)
        except AgentError as error:
            log.warning("the transcript does not tell what was given up: %s", error)
        return over

    async def _give_up(self, ticket: Ticket[Any], turn: Turn, over: GivenUp) -> None:
        """End what is given up, and let the other messages wait for a turn of their own."""
        chunks = await self._answering.chunks(over.ended[0], over.text)
        returned = [one.row.id for one in over.returned]
        keys = await self._ledger.turns.finish(turn.id, over.state, chunks, reason=over.reason, returned=returned)
        self._answering.all_done(
            over.ended, turn_facts(turn.agent, turn.session, "", over.text, keys=keys, exit_code=errors.FAILED)
        )
        self._lanes.give_back(ticket.session, [self._line.item(one) for one in over.returned])

    async def _reset(self, agent: RunningAgent, key: str) -> None:
        record = agent.store.get(key)
        reason = agent.due(record, self._clock.now()) if record else None
        if record is not None and reason is not None:
            with bound(agent=agent.id, session=key):
                log.info("the session starts afresh (%s)", reason)
                await agent.renew(record, self._audience(key), reason)

    async def _command(
        self, agent: RunningAgent, arrived: RoutedMessage, record: SessionRecord, name: str, argument: str
    ) -> None:
        exit_code = errors.OK
        buttons: Sequence[Button] = ()
        if doing := _SLOW_COMMANDS.get(name):
            show_frame(self._channel(arrived.inbound.conversation), arrived.inbound.conversation, Activity(doing, "started"))
        try:
            reply = await SessionCommands(agent, arrived, record, self._rights).run(name, argument)
            buttons = await offered(name, argument, ModelCommands(agent, arrived, record).choices)
        except (AgentError, errors.HomebodyError) as error:
            reply, exit_code = in_words(error)
        chunks = await self._answering.chunks(arrived, reply, buttons)
        keys = await self._ledger.inbox.settle([arrived.row.id], "answered", reply=chunks)
        self._answering.done(arrived, turn_facts(agent.id, record.key, record.session, reply, keys=keys, exit_code=exit_code))


def _greeting(record: SessionRecord) -> str:
    """The one line that tells the owner of a fresh start by the clock: with the first answer after it, never at night."""
    if record.former is None or record.greeted or record.turns:
        return ""
    return " ".join(filter(None, ("🌅 A fresh conversation.", record.noted, "/undo brings the last one back.")))
