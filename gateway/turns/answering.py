"""One answer, from messages that were claimed to a reply that is queued: the agent's turn, what is shown of it, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import AgentError
from agent.loop.turn import ExtraMessage, TurnResult
from agent.loop.turn import Turn as AgentTurn
from channels.live import Done
from gateway.agents.fallback_notice import with_asides
from gateway.base import errors
from gateway.base.shield import finish_despite_cancel, run_despite_cancel
from gateway.outbound.blocks import Blocks
from gateway.outbound.buttons import after_turn
from gateway.outbound.progress import ProgressDisplay, show_frame
from gateway.outbound.replying import replies
from gateway.outbound.typing_indicator import TypingIndicator, typing_mode
from gateway.queue.steering import RunningTurn, Steering
from gateway.settings.block_streaming import Manner
from gateway.turns.result_summary import DEFECT, exit_of, in_words, turn_facts
from gateway.turns.tool_call_log import LedgerCallLog
from gateway.turns.turn_log import bound
from gateway.turns.user_message import user_message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from agent.timing import Clock
    from channels.messages import Button, ChatAddress
    from channels.protocol import Channel
    from gateway.agents.running_agent import RunningAgent
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import NewOutbound, Turn, TurnEnd
    from gateway.media.service import MediaService
    from gateway.outbound.secret_filter import SecretFilter
    from gateway.queue.lanes import Lanes, Ticket
    from gateway.queue.message_queue import MessageQueue
    from gateway.routing.routed_message import RoutedMessage
    from gateway.sessions.store import SessionRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnContext:
    """Messages about to be answered together, and all that belongs to them. ``arrived`` is the first one.

    ``further`` are the others, ``under_way`` is what the house knows of the turn while it runs.
    """

    agent: RunningAgent
    arrived: RoutedMessage
    further: Sequence[RoutedMessage]
    record: SessionRecord
    turn: Turn
    greeting: str
    under_way: RunningTurn


class Answering:
    """Answers messages whose turn is in the ledger. ``read`` reads messages by their rows; ``channel`` finds a conversation's channel.

    ``answered`` is told of messages whose turn is over; ``signature`` is what a reply begins with; ``manner`` says how an agent's
    words are sent in a conversation.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]],
        channel: Callable[[ChatAddress], Channel],
        clock: Clock,
        lanes: Lanes[Any],
        line: MessageQueue,
        post: MediaService,
        answered: Callable[[Iterable[RoutedMessage]], None] = lambda _: None,
        signature: Callable[[RoutedMessage], str] = lambda _: "",
        manner: Callable[[ChatAddress, RunningAgent], Manner] = lambda _place, _agent: Manner(),
        held: SecretFilter | None = None,
    ) -> None:
        self._held = held
        self._ledger = ledger
        self._read = read
        self._channel = channel
        self._clock = clock
        self._lanes = lanes
        self._line = line
        self._post = post
        self._answered = answered
        self._signature = signature
        self._manner = manner

    async def answer(self, ticket: Ticket[Any], case: TurnContext) -> None:
        """Answer, whatever comes of it: the reply is queued, or the turn waits for the next start.

        Raises:
            StorageFailed: nothing can be noted now; the turn goes on from its transcript once it can.
        """
        place = case.arrived.inbound.conversation
        settings = case.agent.profile.settings
        mode, seconds = typing_mode(settings, case.arrived.inbound), settings.typing_interval_seconds
        channel, manner, signature = self._channel(place), self._manner(place, case.agent), self._signature(case.arrived)
        sign = TypingIndicator(channel, place, self._clock, mode, seconds)
        blocks = Blocks(
            self._ledger,
            channel,
            case.arrived,
            case.turn.id,
            manner,
            clock=self._clock,
            signature=signature,
            greeting=case.greeting,
            held=self._held,
        )
        showing = ProgressDisplay(
            channel, place, case.turn.id, sign, verbose=case.record.verbose, sent=manner.sent, held=self._held
        )
        with bound(turn=case.turn.id):
            try:
                async with showing.shown():
                    result = await self._run(case, showing, blocks)
            except asyncio.CancelledError:
                await run_despite_cancel(self._cancelled(ticket, case))
                raise
            except errors.StorageFailed:
                raise  # the turn goes on from its transcript once there is a ledger to write to (gateway.turns.storage_retry)
            except (AgentError, errors.HomebodyError) as error:
                log.warning("the turn failed: %s", error)
                if ticket.ending == "stop":  # what could not be kept is its last word, and its owner wants no more of it
                    await self._cancelled(ticket, case)
                    return
                text, exit_code = in_words(error)
                await finish_despite_cancel(self._finish(case, blocks, "failed", text, None, exit_code=exit_code))
            except Exception:
                # a defect, of ours or of a library: whoever waits for the answer is told, instead of waiting for ever
                log.exception("the turn failed over a defect")
                await finish_despite_cancel(self._finish(case, blocks, "failed", DEFECT, None, exit_code=errors.FAILED))
            else:  # what stops it from now on comes too late: the reply is queued
                await finish_despite_cancel(self._ended(case, blocks, result))

    async def _run(self, case: TurnContext, showing: ProgressDisplay, blocks: Blocks) -> TurnResult:
        inbound, audience, name = case.arrived.inbound, case.arrived.route.audience, case.arrived.row.uid
        conversation = await case.agent.conversations.open(case.record, audience, model=inbound.hints.get("model"))
        intake = self._post.intake
        self._post.begin(name, inbound.conversation)
        first = await user_message(conversation, case.arrived, intake)
        further = [ExtraMessage(one.row.uid, await user_message(conversation, one, intake)) for one in case.further]
        steering = Steering(
            case.under_way,
            case.turn.id,
            line=self._line,
            lanes=self._lanes,
            turns=self._ledger.turns,
            read=self._read,
            hear=lambda one: user_message(conversation, one, intake),
        )
        journal = LedgerCallLog(self._ledger.turns, case.turn.id)
        brake = case.agent.brake
        async with (
            blocks.sending(conversation.transcript, showing.emit) as emit,
            contextlib.nullcontext() if brake is None else brake.turn(case.record.key, case.turn.id),
        ):
            turn = AgentTurn(
                context=conversation, id=name, emit=emit, journal=journal, arrivals=steering, speaker=blocks.speaker
            )
            case.under_way.turn = turn
            return await turn.run([first], further)

    async def _ended(self, case: TurnContext, blocks: Blocks, result: TurnResult) -> None:
        await case.agent.ended(case.record, result)
        failed = result.outcome == "failed"
        state: TurnEnd = "failed" if failed else "stopped" if result.outcome == "stopped" else "done"
        await self._finish(case, blocks, state, result.reply, result, exit_code=exit_of(result))

    async def _finish(
        self, case: TurnContext, blocks: Blocks, state: TurnEnd, text: str, result: TurnResult | None, *, exit_code: int
    ) -> None:
        greeting = await self.chunks(case.arrived, case.greeting if text and not blocks.begun else "")
        buttons = after_turn(result.failure if result else None, text, case.arrived.actor)
        left, continued = blocks.left_of(text)
        said = with_asides(left, case.record, result, continued=continued)
        chunks = greeting + await self.chunks(case.arrived, said, buttons, continued=continued)
        chunks += await self._post.enclosed(case.arrived.row.uid, case.arrived.inbound.conversation)
        keys = await self._ledger.turns.finish(case.turn.id, state, chunks)
        record = case.record
        facts = turn_facts(case.agent.id, record.key, record.session, text, result, keys=keys, exit_code=exit_code)
        self.all_done((case.arrived, *case.further, *case.under_way.steered), facts)

    async def _cancelled(self, ticket: Ticket[Any], case: TurnContext) -> None:
        """Note why a turn was cut short.

        Stopped by its owner it is over; by our own closing it goes on at the next start. For something newer it is over when it
        is part of the conversation already, and otherwise its messages are answered together with what is newer.
        """
        if ticket.ending == "interrupt" and not case.under_way.begun and case.under_way.items:
            await self._ledger.turns.release(case.turn.id)
            self._lanes.give_back(ticket.session, case.under_way.items)
            return
        if ticket.ending not in {"stop", "interrupt"}:
            await self._ledger.turns.interrupted(case.turn.id)
            return
        reason = "stopped by its owner" if ticket.ending == "stop" else "interrupted by a newer message"
        await self._ledger.turns.finish(case.turn.id, "stopped", reason=reason)
        facts = turn_facts(case.agent.id, case.record.key, case.record.session, "")
        self.all_done((case.arrived, *case.further, *case.under_way.steered), facts)

    async def chunks(
        self, arrived: RoutedMessage, text: str, buttons: Sequence[Button] = (), *, continued: bool = False
    ) -> list[NewOutbound]:
        """Return what is to be queued for a text. ``continued``: it goes on from what was sent before it."""
        channel = self._channel(arrived.inbound.conversation)
        text = self._signature(arrived) + text if text and not continued else text
        return await replies(
            channel, arrived, text, knows=self._ledger.inbox.knows, buttons=buttons, continued=continued, held=self._held
        )

    def all_done(self, messages: Sequence[RoutedMessage], facts: dict[str, Any]) -> None:
        """Tell those who wait for any of a turn's messages; the reply is counted with the first."""
        self._answered(messages)
        first, *further = messages
        self.done(first, facts)
        for one in further:
            self.done(one, facts | {"chunks": 0, "replyKeys": [], "answeredWith": first.inbound.message_id})

    def done(self, arrived: RoutedMessage, facts: dict[str, Any]) -> None:
        """Tell a waiting client what came of a message."""
        place = arrived.inbound.conversation
        show_frame(self._channel(place), place, Done(arrived.row.uid, arrived.inbound.message_id, facts))
