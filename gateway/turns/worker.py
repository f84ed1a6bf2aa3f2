"""Handles the items of the lanes: queued messages, interrupted turns, sessions that are due for a reset.

    session   reset it if it is due
    claim     begin the turn in the ledger
    answer    transcript, flush, model, tools, with what people see of it meanwhile (``gateway.turns.answering``)
    end       the reply and the end of the turn (``gateway.turns.ending``)

A crash at any point leaves the turn running in the ledger; the next start continues from its transcript.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import AgentError
from agent.timing import Clock
from channels.live import Activity, Rejected
from channels.messages import API, Button, ChatAddress
from channels.protocol import Channel
from channels.silent import is_silent
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.decisions import Decisions
from gateway.approvals.record import asked_call
from gateway.base import errors
from gateway.base.wait import finish_despite_cancel, run_despite_cancel
from gateway.command_handlers.rights import CommandRights
from gateway.commands.table import COMMANDS
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Approval, Turn
from gateway.outbound.progress import show_frame
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.message_queue import MessageQueue, QueuedMessage
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import agent_of
from gateway.sessions.sessions_file import SessionRecord
from gateway.turns.answering import Answering
from gateway.turns.ending import STOPPED, TurnEndings, marked, unasked_of
from gateway.turns.turn_code import load_turn_code
from gateway.turns.turn_context import TurnContext, bound, in_words, turn_facts
from gateway.turns.unanswered_words import UnansweredWords

if TYPE_CHECKING:
    from gateway.turns.interrupted import GivenUp

log = logging.getLogger(__name__)

LEFT = "the conversation was left"
"""Why questions are withdrawn when their session is."""
STOPPED_COMMAND = "Stopped. The command was not carried out; this conversation goes on as it was."
_SLOW_COMMANDS = {
    "new": "writing notes before the fresh conversation",
    "reset": "writing notes before the fresh conversation",
    "compact": "writing notes and a summary",
}
"""What is shown while a command runs that calls a model."""


class InterruptedTurn(Struct, frozen=True):
    """A turn that the last process did not finish."""

    turn: Turn


class ResetDue(Struct, frozen=True):
    """A session that the scheduler found due for a reset."""

    agent: str
    key: str


class Errand(Struct, frozen=True):
    """Work that is to be done while no turn runs in a session."""

    work: Callable[[], Awaitable[None]]


def go_on(lanes: Lanes[Any], turn: Turn) -> None:
    """Put a turn that may go on at the front of its lane, behind turns that were interrupted in the midst of their work.

    Steps of two turns in one history must not stand among each other.
    """
    waiting = lanes.waiting(turn.session)
    begun = list(takewhile(lambda item: isinstance(item, InterruptedTurn) and not item.turn.waited, waiting))
    lanes.take(turn.session, begun)
    lanes.put_first(turn.session, InterruptedTurn(turn))
    for item in reversed(begun):
        lanes.put_first(turn.session, item)


class TurnWorker:
    """Handles items of lanes, and keeps ``running`` (by session) up to date.

    ``read`` reads messages by their rows; ``channel`` finds a conversation's channel.
    """

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
        queue: MessageQueue,
        answering: Answering,
        endings: TurnEndings,
        rights: CommandRights,
        running: dict[str, RunningTurn],
        decisions: Decisions,
        words: UnansweredWords,
    ) -> None:
        self._words = words
        self._decisions = decisions
        self._rights = rights
        self._ledger = ledger
        self._read = read
        self._agents = agents
        self._channel = channel
        self._audience = audience
        self._clock = clock
        self._lanes = lanes
        self._queue = queue
        self._answering = answering
        self._endings = endings
        self._running = running

    async def work(self, ticket: Ticket[Any]) -> None:
        """Handle one item of a lane; it waits again where its agent is being rebuilt."""
        stopped = _is_stopped(ticket)
        await load_turn_code()
        with self._queue.at_work.working(agent_of(ticket.session)) as may:
            if not may:
                self._lanes.give_back(ticket.session, [ticket.item])
                return
            match ticket.item:
                case InterruptedTurn(turn):
                    await self._resume(ticket, turn)
                case ResetDue(agent, key):
                    await self._reset(self._agents[agent], key)
                case Errand(work):
                    await work()
                case QueuedMessage() as head:
                    items = [head] if _is_stopped(ticket) and not stopped else self._queue.gather(ticket.session, head)
                    await self._queued(ticket, head, items)

    async def end_stopped(self, item: QueuedMessage | InterruptedTurn) -> None:
        """End what its owner stopped, as soon as that can be stored. Idempotent."""
        turn = item.turn if isinstance(item, InterruptedTurn) else None
        if isinstance(item, QueuedMessage):
            rows = await self._ledger.inbox.rows([item.row])
            if rows and rows[0].turn is not None and rows[0].state == "claimed":
                turn = await self._ledger.turns.get(rows[0].turn)
            else:
                await self._end_unbegun([item.row])
        if turn is not None:
            await self._end_not_resumed(turn)

    def report_failure(self, item: Any, error: Exception, *, stopped: bool = False) -> None:
        """Tell a waiting client that its message could not be handled. It stays in the inbox, unless its owner stopped it."""
        if not isinstance(item, QueuedMessage):
            return
        if stopped:
            show_frame(self._channel(item.place), item.place, Rejected(item.message_id, "it was stopped"))
            return
        known = errors.as_homebody_error(error)
        reason = str(known) if known else "Something went wrong on my side; see the log."
        hint = known.hint if known else "Your message is kept; I try again after the next start."
        code = known.exit_code if known else errors.FAILED
        show_frame(self._channel(item.place), item.place, Rejected(item.message_id, reason, hint, code))

    async def _queued(self, ticket: Ticket[Any], head: QueuedMessage, items: Sequence[QueuedMessage]) -> None:
        """Handle a message together with those behind it that go with it."""
        if _is_stopped(ticket):
            await run_despite_cancel(self._end_stopped(ticket, items))
            return
        running, over = RunningTurn(ticket.session, head.group_key, items), False
        in_hand = head.message if len(items) == 1 and head.group_key else None
        try:
            if in_hand is None:
                await self._stored(ticket, items, running)
            else:
                try:
                    await self._messages(ticket, [in_hand], running)
                except errors.InvalidTransition:
                    if self._running.get(ticket.session) is running:
                        raise
                    await self._stored(ticket, items, running)
            over = True
        except asyncio.CancelledError:
            over = True
            if self._running.get(ticket.session) is not running:  # no turn has them yet
                await run_despite_cancel(self._end_stopped(ticket, items))
            raise
        finally:
            if self._running.get(ticket.session) is running:
                del self._running[ticket.session]
            elif not over:  # the error handler of the lanes has the first one; the others get turns of their own
                self._lanes.give_back(ticket.session, items[1:])

    async def _stored(self, ticket: Ticket[Any], items: Sequence[QueuedMessage], running: RunningTurn) -> None:
        """Answer messages as the ledger has them: those that nobody answered or dropped meanwhile."""
        found = [one for one in await self._read([item.row for item in items]) if one.row.state == "waiting"]
        if found:
            await self._messages(ticket, found, running)

    async def _end_stopped(self, ticket: Ticket[Any], items: Sequence[QueuedMessage]) -> None:
        """End messages that their owner stopped before their turn began."""
        if ticket.ending == "stop":
            await self._end_unbegun([item.row for item in items])
            for item in items:
                stopped = STOPPED_COMMAND if not item.group_key else "it was stopped"
                show_frame(self._channel(item.place), item.place, Rejected(item.message_id, stopped))

    async def _end_unbegun(self, rows: Sequence[int]) -> None:
        """End waiting messages, with their words in the transcript. Idempotent.

        Those of people are given to a turn first, so that after a crash in between they have the same names in the transcript.
        """
        found = [one for one in await self._read(rows) if one.row.state == "waiting"]
        agent = self._agents.get(found[0].route.agent) if found else None
        if agent is not None:
            said = [one for one in found if one.command_for(agent.triggers) is None and one.says_something]
            record = await self._present_session(agent, said[0]) if said else None
            if record is not None and said[0].automation is not None:
                await self._words.keep(agent, record, said)
            elif record is not None:
                turn, claimed = await self._claimed(agent, said)
                await self._words.keep(agent, record, claimed)
                await self._endings.end(turn.id, "stopped", claimed[0], reason=STOPPED)
        await self._ledger.inbox.settle(rows, "answered", reason=STOPPED)

    async def _present_session(self, agent: RunningAgent, message: RoutedMessage) -> SessionRecord | None:
        """Return the session of a message that begins no turn: a reset that is due is left to the next one, which does."""
        route, place = message.route, message.inbound.conversation
        record = agent.store.get(route.session)
        if record is not None or message.automation is not None:
            return record
        return await agent.current(route.session, route.audience, address=place.address, space=place.space or "")

    async def _messages(self, ticket: Ticket[Any], found: Sequence[RoutedMessage], running: RunningTurn) -> None:
        message, route = found[0], found[0].route
        agent = self._agents[route.agent]
        with bound(**_names(message)):
            if not message.says_something:
                await self._ledger.inbox.settle([message.row.id], "ignored", reason="empty")
                self._endings.done(message, turn_facts(agent.id, route.session, "", ""))
                return
            former = agent.store.get(route.session)
            record = await self._session(agent, message)
            if former is not None and former.session != record.session:
                await self._decisions.withdraw(route.session, LEFT)
            command = message.command_for(agent.triggers)
            if command is not None:
                await self._command(agent, message, record, command[0].name, command[1])
                return
            turn, (message, *further) = await finish_despite_cancel(self._claimed(agent, found))
            self._running[route.session] = running
            greeting = _greeting(record) if message.automation is None else ""
            await self._answering.answer(ticket, TurnContext(agent, message, further, record, turn, greeting, running))

    async def _session(self, agent: RunningAgent, message: RoutedMessage) -> SessionRecord:
        """Return the session for a message that begins a turn or is a command; a new one if a reset is due."""
        route, place, automation = message.route, message.inbound.conversation, message.automation
        if automation is None:
            return await agent.current(route.session, route.audience, address=place.address, space=place.space or "")
        home = automation.made_in or ("" if is_silent(place) else place.address)
        waits = automation.fresh and any(
            one.session == route.session for one in await self._ledger.approvals.latest(["pending"])
        )
        return await agent.current_run(
            route.session,
            route.audience,
            name=message.row.uid,
            fresh=automation.fresh and not waits,  # a run that waits for its owner's decision goes on in its own session
            address=home,
            space=place.space or "",
        )

    async def _claimed(self, agent: RunningAgent, found: Sequence[RoutedMessage]) -> tuple[Turn, Sequence[RoutedMessage]]:
        """Begin the turn for messages. Those that their senders edited while they waited are read again."""
        turn = await self._ledger.turns.claim(found[0].route.session, agent.id, [one.row.id for one in found])
        if not turn.edited:
            return turn, found
        edited = {one.row.id: one for one in await self._read(turn.edited)}
        return turn, [edited.get(one.row.id, one) for one in found]

    async def _resume(self, ticket: Ticket[Any], turn: Turn) -> None:
        try:
            context = None if _is_stopped(ticket) else await self._taken_up(ticket, turn)
        except asyncio.CancelledError:
            if _is_stopped(ticket):
                await run_despite_cancel(self._end_not_resumed(turn))
            raise
        if context is None and _is_stopped(ticket):
            await run_despite_cancel(self._end_not_resumed(turn))
        if context is None:
            return
        self._running[turn.session] = context.running
        with bound(**_names(context.message)):
            try:
                await self._answering.answer(ticket, context)
            finally:
                del self._running[turn.session]

    async def _taken_up(self, ticket: Ticket[Any], turn: Turn) -> TurnContext | None:
        """Begin another attempt at a turn; None where it is not gone on with, and has ended."""
        from gateway.turns.interrupted import given_up

        found = await self._read(turn.inbox)
        if not found:
            await self._endings.end(turn.id, "failed", reason="its message cannot be read any more")
            return None
        message = found[0]
        agent = self._agents.get(turn.agent)
        record = agent.store.get(turn.session) if agent else None
        zone = agent.zone if agent is not None and record is not None else None
        judged = partial(given_up, turn, found, self._clock.now(), zone)
        over = judged()
        if over is not None or agent is None or record is None:
            assert over is not None
            if agent is not None and record is not None:
                over = await self._record_given_up(agent, record, over, judged)
            await finish_despite_cancel(self._give_up(ticket, turn, over))
            return None
        asked = await self._ledger.approvals.of_turn(turn.id)
        if _pointless(asked, record):
            await self._end_withdrawn(agent, record, turn, found, asked)
            return None
        turn = await finish_despite_cancel(self._ledger.turns.retry(turn.id))
        items = [self._queue.item(one) for one in found]
        running = RunningTurn(turn.session, items[0].group_key, items)
        greeting = "(I was restarted and went on.)" if turn.attempt > 1 and message.automation is None else ""
        return TurnContext(agent, message, found[1:], record, turn, greeting, running, asked)

    async def _end_not_resumed(self, turn: Turn) -> None:
        """End a turn that its owner stopped before it was taken up, with its words in the transcript. Idempotent."""
        present = await self._ledger.turns.get(turn.id)
        if present is None or present.state != "running":
            return
        found = await self._read(present.inbox)
        agent = self._agents.get(turn.agent)
        record = agent.store.get(turn.session) if agent is not None else None
        if agent is not None and record is not None and found:
            asked = await self._ledger.approvals.of_turn(turn.id)
            if all(one.transcript == record.session for one in asked):  # otherwise a session has them that was left since
                await self._words.keep(agent, record, found)
        await self._endings.end(turn.id, "stopped", found[0] if found else None, reason=STOPPED)
        if found:
            self._endings.all_done(found, turn_facts(turn.agent, turn.session, "", ""))

    async def _end_withdrawn(
        self, agent: RunningAgent, record: SessionRecord, turn: Turn, found: Sequence[RoutedMessage], asked: Sequence[Approval]
    ) -> None:
        """End a turn whose questions were withdrawn: its calls are recorded as not run, where its session is still the present one."""
        from agent.loop.tool_runner import withdraw

        reason = _pointless(asked, record)
        if record.session == asked[0].transcript:
            try:
                transcript = await agent.conversations.transcript(record)
                calls = [asked_call(one) for one in asked]
                await withdraw(transcript, found[0].row.uid, calls, f"withdrawn ({reason}).", self._clock.now())
            except AgentError as error:
                log.warning("the transcript does not tell that a call was withdrawn: %s", error)
        await self._endings.end(turn.id, "stopped", found[0], reason=reason)
        self._endings.all_done(found, turn_facts(turn.agent, turn.session, "", ""))

    async def _record_given_up(
        self, agent: RunningAgent, record: SessionRecord, over: GivenUp, judged: Callable[[set[str]], GivenUp | None]
    ) -> GivenUp:
        """Note in the transcript what was said and given up, so that the next turn does not answer it; once, however often it is called.

        Returns how the turn ends, given what the transcript holds.
        """
        from agent.transcript.entries import Said
        from gateway.turns.interrupted import worked_on

        try:
            transcript = await agent.conversations.transcript(record)
            over = judged(worked_on(over, transcript.entries)) or over
            for name, message in over.unheld({entry.id for entry in transcript.entries}).items():
                await transcript.append(name, Said(message=message), n=0)
            entry = over.entry({entry.id for entry in transcript.entries})
            await transcript.append(f"{over.ended[0].row.uid}~over", entry, n=0)
        except AgentError as error:
            log.warning("the transcript does not tell what was given up: %s", error)
        return over

    async def _give_up(self, ticket: Ticket[Any], turn: Turn, over: GivenUp) -> None:
        """End the messages that are given up, and put the others back in the lane."""
        chunks = await self._endings.chunks(over.ended[0], over.text)
        if (agent := self._agents.get(turn.agent)) is not None:
            chunks = marked(chunks, unasked_of(agent, over.ended[0]))
        returned = [one.row.id for one in over.returned]
        keys = await self._endings.end(
            turn.id, over.state, over.ended[0], chunks, text=over.text, reason=over.reason, returned=returned
        )
        self._endings.all_done(
            over.ended, turn_facts(turn.agent, turn.session, "", over.text, keys=keys, exit_code=errors.FAILED)
        )
        self._lanes.give_back(ticket.session, [self._queue.item(one) for one in over.returned])

    async def _reset(self, agent: RunningAgent, key: str) -> None:
        record = agent.store.get(key)
        reason = agent.due(record, self._clock.now()) if record else None
        if record is not None and reason is not None:
            with bound(agent=agent.id, session=key):
                if any(one.session == key for one in await self._ledger.approvals.latest(["pending"])):
                    return  # the scheduler finds it due again once the question is decided
                log.info("the session starts afresh (%s)", reason)
                await agent.renew(record, self._audience(key), reason)

    async def _command(
        self, agent: RunningAgent, message: RoutedMessage, record: SessionRecord, name: str, argument: str
    ) -> None:
        from gateway.command_handlers.model_commands import ModelCommands
        from gateway.command_handlers.session_commands import SessionCommands
        from gateway.outbound.replying import offered

        exit_code = errors.OK
        buttons: Sequence[Button] = ()
        if doing := _SLOW_COMMANDS.get(name):
            show_frame(self._channel(message.inbound.conversation), message.inbound.conversation, Activity(doing, "started"))
        try:
            reply = await SessionCommands(agent, message, record, self._rights).run(name, argument)
            known = COMMANDS.get(name)  # a mistyped one is not in the table
            if known is not None and self._rights.may_change(known, message.inbound.conversation, message.actor):
                buttons = await offered(name, argument, ModelCommands(agent, message, record).choices)
        except (AgentError, errors.HomebodyError) as error:
            reply, exit_code = in_words(error)
        if (now := agent.store.get(record.key)) is not None and now.session != record.session:
            await self._decisions.withdraw(record.key, LEFT)
        chunks = await self._endings.chunks(message, reply, buttons)
        if message.inbound.conversation.channel == API:  # a repeat of the request finds the reply by it
            chunks = [replace(one, key=f"{message.row.uid}.c.{n}") for n, one in enumerate(chunks)]
        keys = await self._ledger.inbox.settle([message.row.id], "answered", reply=chunks)
        self._endings.done(message, turn_facts(agent.id, record.key, record.session, reply, keys=keys, exit_code=exit_code))


def _is_stopped(ticket: Ticket[Any]) -> bool:
    return ticket.ending == "stop"


def _pointless(asked: Sequence[Approval], record: SessionRecord) -> str:
    """Return why a turn need not go on after its questions, or nothing."""
    withdrawn = next((one for one in asked if one.state == "withdrawn"), None)
    if withdrawn is not None:
        return withdrawn.reason or LEFT
    return LEFT if asked and asked[0].transcript != record.session else ""


def _names(message: RoutedMessage) -> dict[str, str]:
    """Return what every log line of a message's turn is marked with."""
    route = message.route
    names = {
        "agent": route.agent,
        "session": route.session,
        "channel": message.inbound.conversation.channel,
        "origin": message.origin,
    }
    return names if message.automation is None else names | {"source": message.automation.source}


def _greeting(record: SessionRecord) -> str:
    """Return the line about a scheduled reset that goes before the first answer after it."""
    if record.former is None or record.greeted or record.turns:
        return ""
    return " ".join(filter(None, ("🌅 New conversation.", record.noted, "/undo restores the previous one.")))
