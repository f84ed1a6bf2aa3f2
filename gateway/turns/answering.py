"""Runs one turn: from claimed messages to the queued reply, with its progress display and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent.characters import without_smuggled
from agent.errors import AgentError
from agent.loop.turn import ExtraMessage, TurnResult
from agent.loop.turn import Turn as AgentTurn
from agent.timing import Clock
from channels.live import Done
from channels.messages import Button, ChatAddress
from channels.protocol import Channel
from channels.silent import SilentChannel
from gateway.agents.running_agent import RunningAgent
from gateway.agents.session_contexts import with_asides
from gateway.approvals.asking import Asking
from gateway.approvals.gate import ApprovalGate, TurnFacts
from gateway.approvals.record import asked_call, public_name
from gateway.base import errors
from gateway.base.wait import finish_despite_cancel, run_despite_cancel
from gateway.budget.budget_guard import Spender
from gateway.budget.budgeted_calls import REFUSED, USED_UP
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Approval, NewApproval, NewOutbound, Turn, TurnEnd
from gateway.media.media_service import MediaService
from gateway.outbound.blocks import Blocks
from gateway.outbound.progress import ProgressDisplay, TypingIndicator, show_frame, typing_mode
from gateway.outbound.replying import (
    after_turn,
    replies,
    untagged,
)
from gateway.outbound.secret_filter import SecretFilter
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.message_queue import MessageQueue
from gateway.queue.steering import RunningTurn, Steering
from gateway.routing.automation import is_isolated, to_say
from gateway.routing.routed_message import RoutedMessage
from gateway.sessions.store import SessionRecord
from gateway.settings.block_streaming import Manner
from gateway.turns.ending import (
    DEFECT,
    TurnEndings,
    as_question,
    asked_when_awake,
    exit_of,
    failure_of,
    in_words,
    marked,
    turn_facts,
    unasked_of,
)
from gateway.turns.quoting import label_of, quoted
from gateway.turns.turn_log import LedgerCallLog, bound
from gateway.turns.user_message import sources_of, user_message
from gateway.voice.spoken_replies import SpokenReplies, SpokenWish

log = logging.getLogger(__name__)

ASKED_ELSEWHERE = "🔐 I need my owner's approval for this, and have asked for it. I go on once it is given."


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The messages of one turn and what it needs besides. ``message`` is the first one.

    ``further`` are the others, ``running`` is what is known of the turn while it runs. ``asked`` are the questions that were asked
    about its tool calls before.
    """

    agent: RunningAgent
    message: RoutedMessage
    further: Sequence[RoutedMessage]
    record: SessionRecord
    turn: Turn
    greeting: str
    running: RunningTurn
    asked: Sequence[Approval] = ()

    @property
    def facts(self) -> TurnFacts:
        """What the gate is told of the turn."""
        return TurnFacts(
            name=self.message.row.uid,
            agent=self.agent.id,
            session=self.record.key,
            transcript=self.record.session,
            workspace=str(self.agent.workspace.root),
            conversation=self.message.inbound.conversation,
            asked_by=self.message.automation.asked_by if self.message.automation is not None else None,
        )


class Answering:
    """Answers messages whose turn is in the ledger. ``read`` reads messages by their rows; ``channel`` finds a conversation's channel.

    ``answered`` is called with messages whose turn is over; ``signature`` returns what a reply begins with; ``manner`` returns how an
    agent's replies are sent in a conversation. ``gate`` makes the gate of a turn, ``asking`` the chunks of its questions, and ``wake`` gets
    a turn that has nothing to wait for. ``endings`` ends turns. ``resumed_at`` returns where a turn is answered that had to wait for its
    owner.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]],
        channel: Callable[[ChatAddress], Channel],
        clock: Clock,
        lanes: Lanes[Any],
        queue: MessageQueue,
        media: MediaService,
        gate: Callable[[TurnFacts, Sequence[Approval]], ApprovalGate],
        asking: Asking,
        endings: TurnEndings,
        wake: Callable[[Turn], None],
        resumed_at: Callable[[RoutedMessage], Awaitable[ChatAddress]],
        answered: Callable[[Iterable[RoutedMessage]], None] = lambda _: None,
        signature: Callable[[RoutedMessage], str] = lambda _: "",
        manner: Callable[[ChatAddress, RunningAgent], Manner] = lambda _place, _agent: Manner(),
        secret_filter: SecretFilter | None = None,
        spoken: SpokenReplies | None = None,
    ) -> None:
        self._secret_filter = secret_filter
        self._spoken = spoken
        self._ledger = ledger
        self._read = read
        self._channel = channel
        self._clock = clock
        self._lanes = lanes
        self._queue = queue
        self._media = media
        self._gate = gate
        self._asking = asking
        self._endings = endings
        self._wake = wake
        self._resumed_at = resumed_at
        self._answered = answered
        self._signature = signature
        self._manner = manner

    async def answer(self, ticket: Ticket[Any], context: TurnContext) -> None:
        """Run the turn to its end: a reply or an error is queued, or the turn is left for the next start.

        Raises:
            StorageFailed: nothing can be written now; the turn continues from its transcript later.
        """
        place = context.message.inbound.conversation
        settings = context.agent.profile.settings
        mode, seconds = typing_mode(settings, context.message.inbound), settings.typing_interval_seconds
        channel, manner, signature = self._channel(place), self._manner(place, context.agent), self._signature(context.message)
        if (
            context.message.automation is not None
        ):  # nobody waits, and what comes of it may be nothing: it is shown once it is whole
            channel, manner, mode = SilentChannel(), Manner(), "never"
        sign = TypingIndicator(channel, place, self._clock, mode, seconds)
        blocks = Blocks(
            self._ledger,
            channel,
            context.message,
            context.turn.id,
            manner,
            clock=self._clock,
            signature=signature,
            greeting=context.greeting,
            secret_filter=self._secret_filter,
        )
        showing = ProgressDisplay(
            channel,
            place,
            context.turn.id,
            sign,
            verbose=context.record.verbose,
            sent=manner.sent,
            secret_filter=self._secret_filter,
        )
        gate = self._gate(context.facts, context.asked)
        self._announce(channel, context)
        with bound(turn=context.turn.id), self._endings.telemetry.turn(*_timed(context)):
            try:
                async with showing.shown():
                    result = await self._run(context, showing, blocks, gate)
            except asyncio.CancelledError:
                await run_despite_cancel(self._cancelled(ticket, context))
                raise
            except errors.StorageFailed:
                raise  # the turn continues from its transcript once the ledger can be written (gateway.turns.storage_retry)
            except (AgentError, errors.HomebodyError) as error:
                log.warning("the turn failed: %s", error)
                if ticket.ending == "stop":  # only its last write failed, and its owner stopped it
                    await self._cancelled(ticket, context)
                    return
                text, exit_code = in_words(error)
                await finish_despite_cancel(self._finish(context, blocks, "failed", text, None, exit_code=exit_code))
            except Exception:
                # a defect, in this code or a library: the sender gets an error instead of no answer
                log.exception("the turn failed over a defect")
                await finish_despite_cancel(self._finish(context, blocks, "failed", DEFECT, None, exit_code=errors.FAILED))
            else:  # what stops it from now on comes too late: the reply is queued
                await finish_despite_cancel(self._ended(context, blocks, result, gate.questions))

    @staticmethod
    def _announce(channel: Channel, context: TurnContext) -> None:
        """Tell a channel whose clients wait which messages the turn answers; not of one that was asked about, as nobody waits any more."""
        began = getattr(channel, "turn_began", None)
        if began is not None and not context.asked:
            place = context.message.inbound.conversation
            began(place, context.turn.id, [one.inbound.message_id for one in (context.message, *context.further)])

    async def _run(self, context: TurnContext, showing: ProgressDisplay, blocks: Blocks, gate: ApprovalGate) -> TurnResult:
        inbound, audience, name = context.message.inbound, context.message.route.audience, context.message.row.uid
        conversation = await context.agent.conversations.open(
            context.record,
            audience,
            model=inbound.hints.get("model"),
            origin=context.message.origin,
            automation=context.message.automation,
        )
        intake, echoes = self._media.intake, list[str]()
        self._media.begin(name, inbound.conversation)
        said = partial(user_message, conversation, intake=intake, echo=echoes.append)
        first = await said(context.message)
        further = [ExtraMessage(one.row.uid, await said(one)) for one in context.further]
        if not context.asked:  # the question had it before it
            blocks.greet(*map(_echo, echoes))
        steering = Steering(
            context.running,
            context.turn.id,
            queue=self._queue,
            lanes=self._lanes,
            turns=self._ledger.turns,
            read=self._read,
            hear=lambda one: user_message(conversation, one, intake),
        )
        journal = LedgerCallLog(self._ledger.turns, context.turn.id)
        budget_guard = context.agent.budget_guard
        async with (
            blocks.sending(conversation.transcript, self._endings.telemetry.hears(context.turn.id, showing.emit)) as emit,
            contextlib.nullcontext()
            if budget_guard is None
            else budget_guard.turn(context.record.key, context.turn.id, _spender(context.message)),
        ):
            turn = AgentTurn(
                context=conversation,
                id=name,
                emit=emit,
                journal=journal,
                arrivals=steering,
                speaker=blocks.speaker,
                gate=gate,
                background=is_isolated(context.record.key),
            )
            context.running.turn = turn
            result = await turn.run([first], further, [asked_call(one) for one in context.asked])
        if result.outcome == "answered":
            await self._speak(context, result.reply)
        return result

    async def _speak(self, context: TurnContext, reply: str) -> None:
        """Make a voice message of a reply, where that is wanted. It goes out behind the text, as a file of the turn.

        Done before the turn's end is stored, so that `/stop` does not wait for it.
        """
        message, switch = context.message, context.record.voice
        channel = self._channel(message.inbound.conversation)
        spoken_to = any(one.recorded for each in (message, *context.further) for one in each.inbound.attachments)
        if self._spoken is None or message.automation is not None or "files" not in getattr(channel, "shows", ()):
            return
        text = untagged(reply).text
        if not text.strip() or not self._spoken.wanted(switch=switch, spoken_to=spoken_to):
            return
        if self._secret_filter is not None:
            text = self._secret_filter.text(text, quietly=True)
        wish = SpokenWish(
            turn=message.row.uid,
            agent=context.agent.id,
            session=context.record.key,
            text=text,
            form=getattr(channel, "voice_format", "mp3"),
            switch=switch,
            spoken_to=spoken_to,
        )
        await self._spoken.speak(wish)

    async def _ended(self, context: TurnContext, blocks: Blocks, result: TurnResult, questions: Sequence[NewApproval]) -> None:
        await context.agent.ended(context.record, result)
        if result.outcome == "suspended":
            await self._suspend(context, blocks, result, questions)
            return
        failed = result.outcome == "failed"
        state: TurnEnd = "failed" if failed else "stopped" if result.outcome == "stopped" else "done"
        await self._finish(context, blocks, state, result.reply, result, exit_code=exit_of(result))

    async def _suspend(
        self, context: TurnContext, blocks: Blocks, result: TurnResult, questions: Sequence[NewApproval]
    ) -> None:
        """Ask the owner, and leave the turn until the answer comes. Clients that wait are told so; the answer comes later."""
        message, place = context.message, context.message.inbound.conversation
        unasked, now = unasked_of(context.agent, message), self._clock.now()
        questions = [asked_when_awake(one, unasked, now) for one in questions]
        chunks = await self.chunks(message, "" if blocks.begun else blocks.greeting)
        asked = [marked(await asyncio.to_thread(self._asking.chunks, one), as_question(one, unasked)) for one in questions]
        if any(one.place != place for one in questions) and message.automation is None:
            chunks += await self.chunks(message, ASKED_ELSEWHERE)
        turn = await self._ledger.turns.suspend(context.turn.id, questions, [*chunks, *(one for rows in asked for one in rows)])
        if turn is not None:
            self._wake(turn)
            return
        self._endings.telemetry.turn_ended("suspended", message.origin)
        here = [row for rows in asked for row in rows if row.conversation == place]
        text = "\n\n".join(row.text for row in here) or ASKED_ELSEWHERE
        facts = turn_facts(context.agent.id, context.record.key, context.record.session, text, result)
        facts |= {"chunks": len(chunks) + len(here), "replyKeys": None, "waitsFor": [public_name(one) for one in questions]}
        self.done(message, facts)
        for one in (*context.further, *context.running.steered):
            self.done(one, facts | {"chunks": 0, "answeredWith": message.inbound.message_id})

    async def _finish(
        self, context: TurnContext, blocks: Blocks, state: TurnEnd, text: str, result: TurnResult | None, *, exit_code: int
    ) -> None:
        held = result is not None and result.failure == "billing" and (USED_UP in text or REFUSED in text)
        came, text = text, _shown(context.message, state, text, held=held)
        greeting = await self.chunks(context.message, blocks.greeting if text and not blocks.begun else "")
        asked = context.message.automation is None
        buttons = after_turn(result.failure if result else None, text, context.message.actor) if asked else ()
        left, continued = blocks.left_of(text)
        said = with_asides(left, context.record, result, continued=continued)
        if self._spoken is not None and not buttons and self._spoken.replaces_text(context.message.row.uid):
            said = ""
        chunks = greeting + await self.chunks(context.message, said, buttons, continued=continued, before=blocks.said)
        chunks += await self._media.enclosed(context.message.row.uid, context.message.inbound.conversation)
        if context.asked:
            there = await self._resumed_at(context.message)
            chunks = [replace(chunk, conversation=there) for chunk in chunks]
        chunks = marked(chunks, unasked_of(context.agent, context.message))
        keys = await self._endings.end(
            context.turn.id,
            state,
            context.message,
            chunks,
            text=came,
            taint=_taint(context),
            reason=failure_of(context.message, state, came),
        )
        record = context.record
        facts = turn_facts(context.agent.id, record.key, record.session, text, result, keys=keys, exit_code=exit_code)
        facts |= await self._spent_today(context)
        facts |= {"stopped": True} if state == "stopped" else {}
        self.all_done((context.message, *context.further, *context.running.steered), facts)

    async def _spent_today(self, context: TurnContext) -> dict[str, float]:
        """Return what all agents' calls cost today, for a terminal, which shows it below the prompt; otherwise nothing."""
        guard = context.agent.budget_guard
        if guard is None or not hasattr(self._channel(context.message.inbound.conversation), "show"):
            return {}
        try:
            return {"costToday": await guard.spent_today()}
        except errors.StorageFailed:
            return {}

    async def _cancelled(self, ticket: Ticket[Any], context: TurnContext) -> None:
        """Record why a turn was cancelled.

        A turn that its owner stopped is over. One that the gateway cancelled while closing continues at the next start. One that a newer
        message interrupted is over when its messages are in the transcript; otherwise they are answered together with the newer one.
        """
        begun = context.running.begun or context.asked  # one that was asked about has begun before
        if ticket.ending == "interrupt" and not begun and context.running.items:
            await self._ledger.turns.release(context.turn.id)
            self._lanes.give_back(ticket.session, context.running.items)
            return
        if ticket.ending not in {"stop", "interrupt"}:
            await self._ledger.turns.interrupted(context.turn.id)
            return
        reason = "stopped by its owner" if ticket.ending == "stop" else "interrupted by a newer message"
        if context.running.turn is not None:
            with contextlib.suppress(
                AgentError
            ):  # the history then says that the call waits, and nobody can decide it any more
                await context.running.turn.withdraw(f"withdrawn, because the turn was {reason}.")
        await self._endings.end(context.turn.id, "stopped", context.message, taint=_taint(context), reason=reason)
        facts = turn_facts(context.agent.id, context.record.key, context.record.session, "") | {"stopped": True}
        self.all_done((context.message, *context.further, *context.running.steered), facts)

    async def chunks(
        self, message: RoutedMessage, text: str, buttons: Sequence[Button] = (), *, continued: bool = False, before: str = ""
    ) -> list[NewOutbound]:
        """Return the chunks to queue for a text. ``continued``: it continues what was sent ``before``."""
        channel = self._channel(message.inbound.conversation)
        text = self._signature(message) + text if text and not continued else text
        return await replies(
            channel,
            message,
            text,
            knows=self._ledger.inbox.knows,
            buttons=buttons,
            continued=continued,
            secret_filter=self._secret_filter,
            before=before,
        )

    def all_done(self, messages: Sequence[RoutedMessage], facts: dict[str, Any]) -> None:
        """Send the result to clients that wait for any of a turn's messages; the reply is counted with the first."""
        self._answered(messages)
        first, *further = messages
        self.done(first, facts)
        for one in further:
            self.done(one, facts | {"chunks": 0, "replyKeys": [], "answeredWith": first.inbound.message_id})

    def done(self, message: RoutedMessage, facts: dict[str, Any]) -> None:
        """Send a message's result to a client that waits for it."""
        if message.automation is not None:
            return
        place = message.inbound.conversation
        show_frame(self._channel(place), place, Done(message.row.uid, message.inbound.message_id, facts))


def _timed(context: TurnContext) -> tuple[str, str, dict[str, str]]:
    """Return under which name, origin and attributes the work on a turn is timed."""
    message, record = context.message, context.record
    told = {
        "homebody.agent": context.agent.id,
        "homebody.session": record.key,
        "homebody.channel": message.inbound.conversation.channel,
        "homebody.origin": message.origin,
        "homebody.message": message.row.uid,
    }
    return context.turn.id, message.origin, told


def _echo(words: str) -> str:
    """Return what was understood of a voice message, as it is shown to who spoke it."""
    return f"🎤 {quoted(without_smuggled(words))}"


def _spender(message: RoutedMessage) -> Spender:
    """Return for whom or what the calls of a message's turn are made."""
    automation = message.automation
    if automation is None:
        return Spender(origin=message.origin)
    return Spender(
        origin=automation.origin,
        source=automation.source,
        label=label_of(automation),
        usd=automation.daily_usd,
        tokens=automation.daily_tokens,
    )


def _shown(message: RoutedMessage, state: TurnEnd, text: str, *, held: bool) -> str:
    """Return what people are sent of a turn's reply: of an automation's, nothing where there is nothing to say, and whose failure it is.

    ``held``: a budget did not allow it, of which the owner is told once a day already.
    """
    automation = message.automation
    if automation is None or not text:
        return text
    if state == "failed":
        log.warning("%s failed: %s", label_of(automation), text)
        return "" if automation.quiet_failure or held else f"{label_of(automation)}: {text}"
    return to_say(automation, text)


def _taint(context: TurnContext) -> Collection[str]:
    """Return the sources of untrusted text that a turn's session has seen."""
    running = context.running.turn
    return sources_of(context.message) if running is None else running.context.taint
