"""Answers the messages of one turn: shows its progress, runs the agent, and hands what came of it to ``gateway.turns.ending``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.characters import without_smuggled
from agent.errors import AgentError
from agent.loop.steering_source import ExtraMessage
from agent.timing import Clock
from channels.messages import ChatAddress
from channels.protocol import Channel
from channels.silent import SilentChannel
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.approval_gate import ApprovalGate
from gateway.approvals.record import asked_call
from gateway.base import errors
from gateway.base.wait import finish_despite_cancel, run_despite_cancel
from gateway.ledger.protocol import Ledger
from gateway.logs.secret_filter import SecretFilter
from gateway.media.media_service import MediaService
from gateway.outbound.progress import ProgressDisplay, TypingIndicator, typing_mode
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.message_queue import MessageQueue
from gateway.queue.steering import Steering
from gateway.routing.routed_message import RoutedMessage, is_isolated
from gateway.settings.block_streaming import Manner, manner_of
from gateway.settings.root import AgentProfile, Settings, SettingsStore
from gateway.turns.ending import TurnEndings
from gateway.turns.turn_context import LedgerCallLog, TurnContext, bound
from gateway.turns.user_message import quoted, user_message
from gateway.voice.spoken_replies import SpokenReplies, SpokenWish

if TYPE_CHECKING:
    from agent.loop.turn import TurnResult
    from gateway.outbound.blocks import Blocks

log = logging.getLogger(__name__)


class Answering:
    """Answers messages whose turn is in the ledger. ``read`` reads messages by their rows; ``channel`` finds a conversation's channel.

    ``gate`` makes the gate of a turn, and ``endings`` ends it.
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
        gate: Callable[..., ApprovalGate],
        endings: TurnEndings,
        settings: SettingsStore,
        secret_filter: SecretFilter | None,
        spoken: SpokenReplies | None,
    ) -> None:
        self._ledger = ledger
        self._read = read
        self._channel = channel
        self._clock = clock
        self._lanes = lanes
        self._queue = queue
        self._media = media
        self._gate = gate
        self._endings = endings
        self._settings = settings
        self._manners: dict[tuple[str, str, str], tuple[Settings, AgentProfile, Manner]] = {}
        self._secret_filter = secret_filter
        self._spoken = spoken

    async def answer(self, ticket: Ticket[Any], context: TurnContext) -> None:
        """Run the turn to its end: a reply or an error is queued, or the turn is left for the next start.

        Raises:
            StorageFailed: nothing can be written now; the turn continues from its transcript later.
        """
        channel, blocks, showing = self._shown(context)
        gate = self._gate(turn=context.for_gate, asked=context.asked)
        _announce(channel, context)
        with bound(turn=context.turn.id), self._endings.telemetry.turn(*context.timed):
            try:
                async with showing.shown():
                    result = await self._run(context, showing, blocks, gate)
            except asyncio.CancelledError:
                await run_despite_cancel(self._cancelled(ticket, context, blocks))
                raise
            except errors.StorageFailed:
                raise  # the turn continues from its transcript once the ledger can be written (gateway.turns.storage_retry)
            except (AgentError, errors.HomebodyError) as error:
                log.warning("the turn failed: %s", error)
                if ticket.ending == "stop":  # only its last write failed, and its owner stopped it
                    await self._endings.cancelled(ticket, context)
                    return
                await finish_despite_cancel(self._endings.failed(context, blocks, error))
            except Exception as error:
                if (short := errors.no_descriptor(error)) is not None:
                    raise short from error
                # a defect, in this code or a library: the sender gets an error instead of no answer
                log.exception("the turn failed over a defect")
                await finish_despite_cancel(self._endings.failed(context, blocks))
            else:  # what stops it from now on comes too late: the reply is queued
                await finish_despite_cancel(self._endings.finished(context, blocks, result, gate.questions))

    async def _cancelled(self, ticket: Ticket[Any], context: TurnContext, blocks: Blocks) -> None:
        """End a turn that was cancelled. An answer that is in the transcript is sent, as the model is shown it from now on."""
        result = context.running.turn.answered if context.running.turn is not None else None
        if result is not None and ticket.ending in {"stop", "interrupt"}:
            await self._endings.finished(context, blocks, result, ())
        else:
            await self._endings.cancelled(ticket, context)

    def _shown(self, context: TurnContext) -> tuple[Channel, Blocks, ProgressDisplay]:
        """Return the channel on which the turn is shown, what sends parts of its answer, and what shows its progress."""
        from gateway.outbound.blocks import Blocks

        message, settings = context.message, context.agent.profile.settings
        place, mode = message.inbound.conversation, typing_mode(settings, message.inbound)
        channel, manner = self._channel(place), self._manner(place, context.agent)
        present: Callable[[], Channel] = partial(self._channel, place)
        if message.automation is not None:  # nobody waits, and what comes of it may be nothing: it is shown once it is whole
            channel, manner, mode = SilentChannel(), Manner(), "never"
            present = SilentChannel
        blocks = Blocks(
            self._ledger,
            channel,
            message,
            context.turn.id,
            manner,
            clock=self._clock,
            signature=self._endings.signature(message),
            greeting=context.greeting,
            secret_filter=self._secret_filter,
        )
        showing = ProgressDisplay(
            present,
            place,
            context.turn.id,
            TypingIndicator(present, place, self._clock, mode, settings.typing_interval_seconds),
            verbose=context.record.verbose,
            sent=manner.sent,
            secret_filter=self._secret_filter,
            tool_ran=partial(self._endings.telemetry.tool_ran, context.turn.id),
        )
        return channel, blocks, showing

    def _manner(self, place: ChatAddress, agent: RunningAgent) -> Manner:
        """How an agent's reply is split into blocks in a conversation."""
        settings, profile, key = self._settings.current, agent.profile, (agent.id, place.channel, place.account)
        known = self._manners.get(key)
        if known is None or known[0] is not settings or known[1] is not profile:
            blocks = settings.messages.block_streaming
            manner = manner_of(blocks, settings.channels, profile.blocks, place.channel, place.account)
            known = self._manners[key] = settings, profile, manner
        return known[2]

    async def _run(self, context: TurnContext, showing: ProgressDisplay, blocks: Blocks, gate: ApprovalGate) -> TurnResult:
        from agent.loop.turn import Turn as AgentTurn

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
        if echoes and not context.asked:  # the question had it before it
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
            blocks.sending(conversation.transcript, showing.emit) as emit,
            contextlib.nullcontext()
            if budget_guard is None
            else budget_guard.turn(context.record.key, context.turn.id, context.spender),
        ):
            turn = AgentTurn(
                context=conversation,
                id=name,
                emit=emit,
                journal=journal,
                arrivals=steering,
                speaker=blocks.writing,
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
        from gateway.outbound.replying import untagged

        message, switch = context.message, context.record.voice
        channel = self._channel(message.inbound.conversation)
        spoken_to = any(one.recorded for each in (message, *context.further) for one in each.inbound.attachments)
        if self._spoken is None or message.automation is not None or "files" not in getattr(channel, "shows", ()):
            return
        if not is_spoken(self._settings.current.messages.tts.auto, switch=switch, spoken_to=spoken_to):
            return
        text = untagged(reply).text
        if not text.strip():
            return
        if self._secret_filter is not None:
            text = self._secret_filter.text(text)
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


def is_spoken(auto: str, *, switch: str, spoken_to: bool) -> bool:
    """Return whether answers are spoken in a conversation: its own ``switch`` goes before the settings."""
    return switch == "on" or (switch == "" and (auto == "always" or (auto == "inbound" and spoken_to)))


def _announce(channel: Channel, context: TurnContext) -> None:
    """Tell a channel whose clients wait which messages the turn answers; not of one that was asked about, as nobody waits any more."""
    began = getattr(channel, "turn_began", None)
    if began is not None and not context.asked:
        place = context.message.inbound.conversation
        began(place, context.turn.id, [one.inbound.message_id for one in (context.message, *context.further)])


def _echo(words: str) -> str:
    """Return what was understood of a voice message, as it is shown to who spoke it."""
    return f"🎤 {quoted(without_smuggled(words))}"
