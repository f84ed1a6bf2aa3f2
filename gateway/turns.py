"""From a message that arrived to a reply that is queued: one turn of one session, in its lane.

    session   the one reset rule, judged
    claim     the turn is in the ledger
    agent     transcript, flush, model, tools (``agent.turn``)
    finish    reply and "turn done" in one transaction

A crash anywhere leaves the turn running in the ledger; the next start goes on from what the transcript holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import AgentError
from agent.turn import Further, TurnResult
from agent.turn import Turn as AgentTurn
from channels.terminal.link import Done, Rejected
from gateway import errors
from gateway.desks.command_desk import CommandDesk
from gateway.desks.commands import parse
from gateway.desks.model_desk import ModelDesk
from gateway.inbound.hearing import heard
from gateway.interrupted import given_up
from gateway.journal import LedgerJournal
from gateway.outbound.block_settings import Manner
from gateway.outbound.blocks import Blocks
from gateway.outbound.offers import after_turn, offered
from gateway.outbound.replying import replies
from gateway.outbound.showing import Showing, show_frame
from gateway.outbound.typing_sign import TypingSign, typing_mode
from gateway.queueing.line import Queued
from gateway.queueing.steering import Steering, UnderWay
from gateway.stand_in import with_asides
from gateway.turn_facts import DEFECT, exit_of, in_words, turn_facts
from gateway.turn_log import bound
from gateway.unbroken import unbroken, whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from agent.clock import Clock
    from channels.messages import Button, Inbound
    from channels.messages import Conversation as Place
    from channels.protocol import Channel
    from gateway.agents import HousedAgent
    from gateway.attachments.post_room import PostRoom
    from gateway.inbound.arrived import Arrived
    from gateway.lanes import Lanes, Ticket
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import NewOutbound, Turn, TurnEnd
    from gateway.queueing.line import Line
    from gateway.sessions.store import SessionRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A turn that the last process did not finish."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class _Case:
    """Messages about to be answered together, and all that belongs to them. ``arrived`` is the first one.

    ``further`` are the others, ``under_way`` is what the house knows of the turn while it runs.
    """

    agent: HousedAgent
    arrived: Arrived
    further: Sequence[Arrived]
    record: SessionRecord
    turn: Turn
    greeting: str
    under_way: UnderWay


@dataclass(frozen=True, slots=True)
class ResetDue:
    """A session that the scheduler found due for a fresh start."""

    agent: str
    key: str


class Turns:
    """Does what lanes are given. ``read`` reads messages by their rows; ``channel`` finds the channel of a conversation.

    ``answered`` is told of messages whose turn is over; ``signature`` is what a reply begins with; ``manner`` says how an agent's
    words are sent in a conversation.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        read: Callable[[Sequence[int]], Awaitable[list[Arrived]]],
        agents: Mapping[str, HousedAgent],
        channel: Callable[[Place], Channel],
        audience: Callable[[str], Any],
        clock: Clock,
        lanes: Lanes[Any],
        line: Line,
        post: PostRoom,
        answered: Callable[[Iterable[Arrived]], None] = lambda _: None,
        signature: Callable[[Arrived], str] = lambda _: "",
        manner: Callable[[Place, HousedAgent], Manner] = lambda _place, _agent: Manner(),
    ) -> None:
        self._ledger = ledger
        self._read = read
        self._agents = agents
        self._channel = channel
        self._audience = audience
        self._clock = clock
        self._lanes = lanes
        self._line = line
        self._answered = answered
        self._signature = signature
        self._post = post
        self._manner = manner
        self._under_way: dict[str, UnderWay] = {}

    def under_way(self, session: str) -> UnderWay | None:
        """Return the turn that a session works on, if it works on one."""
        return self._under_way.get(session)

    async def work(self, ticket: Ticket[Any]) -> None:
        """Do one item of a lane."""
        match ticket.item:
            case Interrupted(turn):
                await self._resume(ticket, turn)
            case ResetDue(agent, key):
                await self._reset(self._agents[agent], key)
            case Queued() as head:
                await self._queued(ticket, head)

    def told_refused(self, inbound: Inbound, error: errors.UsageWrong) -> None:
        """Tell a waiting client that its message goes nowhere; the words are on their way through the outbox."""
        facts = turn_facts("", "", "", error.as_text(), exit_code=error.exit_code) | {"chunks": 1, "replyKeys": None}
        show_frame(self._channel(inbound.conversation), inbound.conversation, Done("", inbound.message_id, facts))

    def told_broken(self, item: Any, error: Exception, *, stopped: bool = False) -> None:
        """Tell a waiting client that its message could not be dealt with now. It stays in the inbox, unless its owner stopped it."""
        if not isinstance(item, Queued):
            return
        if stopped:
            show_frame(self._channel(item.place), item.place, Rejected(item.message_id, "it was stopped"))
            return
        known = errors.as_homebody_error(error)
        reason = str(known) if known else "something in me failed over this; the log tells more"
        mend = known.mend if known else "It is kept, and I try again when I am started next."
        show_frame(self._channel(item.place), item.place, Rejected(item.message_id, reason, mend))

    async def _queued(self, ticket: Ticket[Any], head: Queued) -> None:
        """Deal with a message, and with those in line behind it that belong to it."""
        items = self._line.gather(ticket.session, head)
        under_way, over = UnderWay(ticket.session, head.kin, items), False
        try:
            found = [one for one in await self._read([item.row for item in items]) if one.row.state == "waiting"]
            if found:
                await self._messages(ticket, found, under_way)
            over = True
        except asyncio.CancelledError:
            over = True
            if self._under_way.get(ticket.session) is not under_way:  # no turn has them yet
                await unbroken(self._left(ticket, items))
            raise
        finally:
            if self._under_way.get(ticket.session) is under_way:
                del self._under_way[ticket.session]
            elif not over:  # the first one is for whoever hears of the error; the others are tried for themselves
                self._lanes.give_back(ticket.session, items[1:])

    async def _left(self, ticket: Ticket[Any], items: Sequence[Queued]) -> None:
        """Messages whose turn was stopped before it began: their owner's wish ends them, something newer has them come with it."""
        if ticket.ending == "interrupt":
            self._lanes.give_back(ticket.session, items)
        elif ticket.ending == "stop":
            await self._ledger.settle([item.row for item in items], "answered", reason="stopped by its owner")

    async def _messages(self, ticket: Ticket[Any], found: Sequence[Arrived], under_way: UnderWay) -> None:
        arrived, route = found[0], found[0].route
        agent = self._agents[route.agent]
        with bound(agent=agent.id, session=route.session, channel=arrived.inbound.conversation.channel):
            if not arrived.inbound.text.strip() and not arrived.inbound.attachments:
                await self._ledger.settle([arrived.row.id], "ignored", reason="empty")
                self._done(arrived, turn_facts(agent.id, route.session, "", ""))
                return
            place = arrived.inbound.conversation
            record = await agent.current(route.session, route.audience, address=place.address, space=place.space or "")
            command = parse(arrived.inbound.text, agent.triggers)
            if command is not None:
                await self._command(agent, arrived, record, command[0].name, command[1])
                return
            turn, (arrived, *further) = await whole(self._claimed(agent, found))
            self._under_way[route.session] = under_way
            await self._answer(ticket, _Case(agent, arrived, further, record, turn, _greeting(record), under_way))

    async def _claimed(self, agent: HousedAgent, found: Sequence[Arrived]) -> tuple[Turn, Sequence[Arrived]]:
        """Begin the turn for messages, and read them once more: until then their senders could edit them."""
        rows = [one.row.id for one in found]
        turn, again = await asyncio.gather(self._ledger.claim(found[0].route.session, agent.id, rows), self._read(rows))
        return turn, again or found

    async def _resume(self, ticket: Ticket[Any], turn: Turn) -> None:
        found = await self._read(turn.inbox)
        if not found:
            await self._ledger.finish(turn.id, "failed", reason="its message cannot be read any more")
            return
        arrived = found[0]
        agent = self._agents.get(turn.agent)
        record = agent.store.get(turn.session) if agent else None
        zone = agent.zone if agent is not None and record is not None else None
        over = given_up(turn, arrived.inbound.text, self._clock.now(), zone)
        if over is not None or agent is None or record is None:
            assert over is not None
            await self._ledger.finish(turn.id, over.state, await self._chunks(arrived, over.text), reason=over.reason)
            return
        turn = await whole(self._ledger.retry(turn.id))
        items = [self._line.item(one, agent.triggers) for one in found]
        under_way = self._under_way[turn.session] = UnderWay(turn.session, items[0].kin, items)
        with bound(agent=agent.id, session=turn.session, channel=arrived.inbound.conversation.channel):
            greeting = "(I was restarted and went on.)" if turn.attempt > 1 else ""
            try:
                await self._answer(ticket, _Case(agent, arrived, found[1:], record, turn, greeting, under_way))
            finally:
                del self._under_way[turn.session]

    async def _reset(self, agent: HousedAgent, key: str) -> None:
        record = agent.store.get(key)
        reason = agent.due(record, self._clock.now()) if record else None
        if record is not None and reason is not None:
            with bound(agent=agent.id, session=key):
                log.info("the session starts afresh (%s)", reason)
                await agent.renew(record, self._audience(key), reason)

    async def _command(self, agent: HousedAgent, arrived: Arrived, record: SessionRecord, name: str, argument: str) -> None:
        exit_code = errors.OK
        buttons: Sequence[Button] = ()
        try:
            reply = await CommandDesk(agent, arrived, record).run(name, argument)
            buttons = await offered(name, argument, ModelDesk(agent, arrived, record).choices)
        except (AgentError, errors.HomebodyError) as error:
            reply, exit_code = in_words(error)
        chunks = await self._chunks(arrived, reply, buttons)
        keys = await self._ledger.settle([arrived.row.id], "answered", reply=chunks)
        self._done(arrived, turn_facts(agent.id, record.key, record.session, reply, keys=keys, exit_code=exit_code))

    async def _answer(self, ticket: Ticket[Any], case: _Case) -> None:
        place = case.arrived.inbound.conversation
        settings = case.agent.profile.settings
        mode, seconds = typing_mode(settings, case.arrived.inbound), settings.typing_interval_seconds
        channel, manner, signature = self._channel(place), self._manner(place, case.agent), self._signature(case.arrived)
        sign = TypingSign(channel, place, self._clock, mode, seconds)
        blocks = Blocks(
            self._ledger,
            channel,
            case.arrived,
            case.turn.id,
            manner,
            clock=self._clock,
            signature=signature,
            greeting=case.greeting,
        )
        showing = Showing(channel, place, case.turn.id, sign, verbose=case.record.verbose, sent=manner.sent)
        with bound(turn=case.turn.id):
            try:
                async with showing.shown():
                    result = await self._run(case, showing, blocks)
            except asyncio.CancelledError:
                await unbroken(self._cancelled(ticket, case))
                raise
            except errors.StorageFailed:
                raise  # the turn goes on from its transcript once there is a ledger to write to (gateway.guards.setback)
            except (AgentError, errors.HomebodyError) as error:
                log.warning("the turn failed: %s", error)
                if ticket.ending == "stop":  # what could not be kept is its last word, and its owner wants no more of it
                    await self._cancelled(ticket, case)
                    return
                text, exit_code = in_words(error)
                await self._finish(case, blocks, "failed", text, None, exit_code=exit_code)
            except Exception:
                # a defect, of ours or of a library: whoever waits for the answer is told, instead of waiting for ever
                log.exception("the turn failed over a defect")
                await self._finish(case, blocks, "failed", DEFECT, None, exit_code=errors.FAILED)
            else:
                await case.agent.ended(case.record, result)
                failed = result.outcome == "failed"
                state: TurnEnd = "failed" if failed else "stopped" if result.outcome == "stopped" else "done"
                await self._finish(case, blocks, state, result.reply, result, exit_code=exit_of(result))

    async def _run(self, case: _Case, showing: Showing, blocks: Blocks) -> TurnResult:
        inbound, audience, name = case.arrived.inbound, case.arrived.route.audience, case.arrived.row.uid
        conversation = await case.agent.conversations.open(case.record, audience, model=inbound.hints.get("model"))
        intake = self._post.intake
        self._post.begin(name, inbound.conversation)
        first = await heard(conversation, case.arrived, intake)
        further = [Further(one.row.uid, await heard(conversation, one, intake)) for one in case.further]
        steering = Steering(
            case.under_way,
            case.turn.id,
            line=self._line,
            lanes=self._lanes,
            ledger=self._ledger,
            read=self._read,
            hear=lambda one: heard(conversation, one, intake),
        )
        journal = LedgerJournal(self._ledger, case.turn.id)
        brake = case.agent.brake
        async with (
            blocks.sending(conversation.transcript, showing.emit) as emit,
            contextlib.nullcontext() if brake is None else brake.turn(case.record.key, case.turn.id),
        ):
            turn = AgentTurn(
                conversation=conversation, id=name, emit=emit, journal=journal, arrivals=steering, speaker=blocks.speaker
            )
            case.under_way.turn = turn
            return await turn.run([first], further)

    async def _finish(
        self, case: _Case, blocks: Blocks, state: TurnEnd, text: str, result: TurnResult | None, *, exit_code: int
    ) -> None:
        greeting = await self._chunks(case.arrived, case.greeting if text and not blocks.begun else "")
        buttons = after_turn(result.failure if result else None, text, case.arrived.actor)
        left, continued = blocks.left_of(text)
        said = with_asides(left, case.record, result, continued=continued)
        chunks = greeting + await self._chunks(case.arrived, said, buttons, continued=continued)
        chunks += await self._post.enclosed(case.arrived.row.uid, case.arrived.inbound.conversation)
        keys = await self._ledger.finish(case.turn.id, state, chunks)
        record = case.record
        facts = turn_facts(case.agent.id, record.key, record.session, text, result, keys=keys, exit_code=exit_code)
        self._all_done(case, facts)

    async def _cancelled(self, ticket: Ticket[Any], case: _Case) -> None:
        """Note why a turn was cut short.

        Stopped by its owner it is over; by our own closing it goes on at the next start. For something newer it is over when it
        is part of the conversation already, and otherwise its messages are answered together with what is newer.
        """
        if ticket.ending == "interrupt" and not case.under_way.begun and case.under_way.items:
            await self._ledger.release(case.turn.id)
            self._lanes.give_back(ticket.session, case.under_way.items)
            return
        if ticket.ending not in {"stop", "interrupt"}:
            await self._ledger.interrupted(case.turn.id)
            return
        reason = "stopped by its owner" if ticket.ending == "stop" else "interrupted by a newer message"
        await self._ledger.finish(case.turn.id, "stopped", reason=reason)
        self._all_done(case, turn_facts(case.agent.id, case.record.key, case.record.session, ""))

    async def _chunks(
        self, arrived: Arrived, text: str, buttons: Sequence[Button] = (), *, continued: bool = False
    ) -> list[NewOutbound]:
        channel = self._channel(arrived.inbound.conversation)
        text = self._signature(arrived) + text if text and not continued else text
        return await replies(channel, arrived, text, knows=self._ledger.knows, buttons=buttons, continued=continued)

    def _all_done(self, case: _Case, facts: dict[str, Any]) -> None:
        """Tell those who wait for any of a turn's messages; the reply is counted with the first."""
        self._answered((case.arrived, *case.further, *case.under_way.steered))
        self._done(case.arrived, facts)
        for one in (*case.further, *case.under_way.steered):
            self._done(one, facts | {"chunks": 0, "replyKeys": [], "answeredWith": case.arrived.inbound.message_id})

    def _done(self, arrived: Arrived, facts: dict[str, Any]) -> None:
        place = arrived.inbound.conversation
        show_frame(self._channel(place), place, Done(arrived.row.uid, arrived.inbound.message_id, facts))


def _greeting(record: SessionRecord) -> str:
    """The one line that tells the owner of a fresh start by the clock: with the first answer after it, never at night."""
    if record.former is None or record.greeted or record.turns:
        return ""
    return "🌅 A fresh conversation; what mattered in the last one is in my notes. /undo brings it back."
