"""How a turn ends: its reply in chunks, its state and what other sessions are told of it in one transaction, and the result for who waits.

finished    the model is done: queue the rest of its reply, or suspend the turn where its owner is asked
failed      an error or a defect, in words
cancelled   stopped by its owner, interrupted by a newer message, or left for the next start
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import AgentError
from agent.taint import Marks, fenced, random_mark
from agent.timing import Clock
from channels.live import Done
from channels.messages import CLIENT_CHANNELS, Button, ChatAddress
from channels.protocol import Channel
from channels.silent import is_silent
from gateway.agents.running_agent import RunningAgent
from gateway.agents.session_contexts import with_asides
from gateway.approvals.approval_gate import LIFETIME
from gateway.approvals.asking import Asking
from gateway.approvals.record import public_name
from gateway.base import errors
from gateway.budget.budget_words import REFUSED, TAKEN, USED_UP
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Arrival, InboxRow, NewApproval, NewEvent, NewOutbound, Turn, TurnEnd, Unasked
from gateway.ledger.unasked import APPROVAL
from gateway.logs.secret_filter import SecretFilter
from gateway.media.media_service import MediaService
from gateway.outbound.progress import show_frame
from gateway.queue.lanes import Lanes, Ticket
from gateway.routing.routed_message import RoutedMessage, is_isolated, to_say
from gateway.settings.root import SettingsStore
from gateway.telemetry.recorder import Telemetry
from gateway.turns.turn_context import DEFECT, TurnContext, exit_of, in_words
from gateway.turns.unanswered_words import UnansweredWords
from gateway.turns.user_message import cut, label_of, unmarked
from gateway.voice.spoken_replies import SpokenReplies

if TYPE_CHECKING:
    from agent.loop.turn import TurnResult
    from gateway.outbound.blocks import Blocks

log = logging.getLogger(__name__)

ASKED_ELSEWHERE = "🔐 I need my owner's approval for this, and have asked for it. I go on once it is given."
STOPPED: Final = "stopped by its owner"
LONGEST_EVENT: Final = 1500
"""Characters of an isolated run's reply that the session of its chat is told."""


class EndedTurn(Struct, frozen=True, kw_only=True):
    """The end of an automation's turn. ``text`` is what came of it, also where nobody is sent it; ``taint`` that of its session."""

    message: RoutedMessage
    state: TurnEnd
    text: str
    taint: tuple[str, ...] = ()
    reason: str = ""


Results: TypeAlias = "Callable[[EndedTurn], Awaitable[Sequence[tuple[str, Arrival]]]]"
"""Returns the messages, each with its account, that tell other sessions of a turn's end. It may be called again for the same end."""


class TurnEndings:
    """Ends turns. ``results`` is asked about each automation's turn; ``hand_out`` enqueues a stored message.

    ``channel`` finds a conversation's channel. ``answered`` is called with messages whose turn is over; ``answering``
    returns the agents that answer in a conversation. ``asking`` makes the chunks of questions, and ``wake`` gets a turn that has nothing to
    wait for. ``resumed_at`` returns where a turn is answered that had to wait for its owner, ``name_at`` the name
    that stands before an agent's words in a chat that other agents answer. ``words`` keeps what was said in turns that end unanswered.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        results: Results,
        hand_out: Callable[[InboxRow], Awaitable[None]],
        channel: Callable[[ChatAddress], Channel],
        clock: Clock,
        lanes: Lanes[Any],
        media: MediaService,
        asking: Asking,
        wake: Callable[[Turn], None],
        resumed_at: Callable[[RoutedMessage], Awaitable[ChatAddress]],
        name_at: Callable[[str, ChatAddress], str],
        answered: Callable[[Iterable[RoutedMessage]], None],
        agents: Mapping[str, RunningAgent],
        settings: SettingsStore,
        answering: Callable[[ChatAddress], Sequence[str]],
        secret_filter: SecretFilter | None,
        spoken: SpokenReplies | None,
        telemetry: Telemetry,
        words: UnansweredWords,
    ) -> None:
        self.telemetry = telemetry
        self._words = words
        self.results = results
        self._agents = agents
        self._settings = settings
        self._answering = answering
        self._ledger = ledger
        self._hand_out = hand_out
        self._channel = channel
        self._clock = clock
        self._lanes = lanes
        self._media = media
        self._asking = asking
        self._wake = wake
        self._resumed_at = resumed_at
        self._name_at = name_at
        self._answered = answered
        self._secret_filter = secret_filter
        self._spoken = spoken

    async def finished(
        self, context: TurnContext, blocks: Blocks, result: TurnResult, questions: Sequence[NewApproval]
    ) -> None:
        """End a turn whose model is done, or leave it until its owner has decided."""
        await context.agent.ended(context.record, result)
        if result.outcome == "suspended":
            await self._suspend(context, blocks, result, questions)
            return
        failed = result.outcome == "failed"
        if result.outcome == "stopped":
            await self._words.of_turn(context, stopped=True)
        state: TurnEnd = "failed" if failed else "stopped" if result.outcome == "stopped" else "done"
        await self._finish(context, blocks, state, result.reply, result)

    async def failed(
        self, context: TurnContext, blocks: Blocks, error: AgentError | errors.HomebodyError | None = None
    ) -> None:
        """End a turn over an error; over a defect where there is none to tell of."""
        text, exit_code = (DEFECT, errors.FAILED) if error is None else in_words(error)
        await self._words.of_turn(context, stopped=False)
        await self._finish(context, blocks, "failed", text, None, exit_code=exit_code)

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
        self.telemetry.turns.add("suspended", message.origin)
        here = [row for rows in asked for row in rows if row.conversation == place]
        text = "\n\n".join(row.text for row in here) or ASKED_ELSEWHERE
        facts = context.result(text, result)
        facts |= {"chunks": len(chunks) + len(here), "replyKeys": None, "waitsFor": [public_name(one) for one in questions]}
        self.done(message, facts)
        for one in context.answered[1:]:
            self.done(one, facts | {"chunks": 0, "answeredWith": message.inbound.message_id})

    async def _finish(
        self,
        context: TurnContext,
        blocks: Blocks,
        state: TurnEnd,
        text: str,
        result: TurnResult | None,
        *,
        exit_code: int | None = None,
    ) -> None:
        """Queue what is left of a reply, and end its turn. ``exit_code``: a program's that asked, where the result does not say it."""
        from gateway.outbound.replying import after_turn

        message, place = context.message, context.message.inbound.conversation
        channel = self._channel(place)
        held = result is not None and result.failure == "billing" and any(words in text for words in (USED_UP, REFUSED, TAKEN))
        came, asked = text, message.automation is None
        text = text if asked else _shown(message, state, text, held=held)
        if not blocks.begun and (message.command is not None or (result is not None and result.failure)):
            text = errors.for_chat(text)  # these are the gateway's words, not the model's
        greeting = await self.chunks(message, blocks.greeting) if blocks.greeting and text and not blocks.begun else []
        failure = result.failure if result else None
        buttons = after_turn(failure, text, message.actor) if asked and failure is not None else ()
        left, continued = blocks.left_of(text)
        if left and blocks.begun:
            await blocks.pause()
        said = with_asides(left, context.record, result, continued=continued)
        if self._spoken is not None and not buttons and message.row.uid in self._spoken.alone:
            said = ""
        if said and not blocks.begun and blocks.greeting and getattr(channel, "encloses", False):
            greeting, said = [], f"{blocks.greeting}\n\n{said}"
        chunks = greeting + await self.chunks(message, said, buttons, continued=continued, before=blocks.said)
        chunks += await self._media.enclosed(message.row.uid, place)
        if context.asked:
            there = await self._resumed_at(message)
            name = self._name_at(message.route.agent, there) if there != place else ""
            chunks = [replace(chunk, conversation=there) for chunk in chunks]
            chunks = [replace(one, text=f"**{name}:** {one.text}") if name and not n else one for n, one in enumerate(chunks)]
        reason = failure_of(message, state, came)
        if not asked:
            chunks = marked(chunks, unasked_of(context.agent, message))
        keys = await self.end(
            context.turn.id,
            state,
            message,
            chunks,
            text=came,
            taint=() if asked else context.taint,
            reason=reason,
        )
        if not hasattr(channel, "show"):  # nobody waits for the facts
            self._answered(context.answered)
            return
        code = exit_of(result) if exit_code is None and result is not None else exit_code or 0
        facts = context.result(text, result, keys=keys, exit_code=code)
        facts |= await self._spent_today(context)
        facts |= {"stopped": True} if state == "stopped" else {}
        self.all_done(context.answered, facts)

    async def _spent_today(self, context: TurnContext) -> dict[str, float]:
        """Return what all agents' calls cost today, which a terminal shows below the prompt."""
        guard = context.agent.budget_guard
        if guard is None:
            return {}
        try:
            return {"costToday": await guard.spent_today()}
        except errors.StorageFailed:
            return {}

    async def cancelled(self, ticket: Ticket[Any], context: TurnContext) -> None:
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
        reason = STOPPED if ticket.ending == "stop" else "interrupted by a newer message"
        await self._words.of_turn(context, stopped=True)
        if context.running.turn is not None:
            with contextlib.suppress(
                AgentError
            ):  # the history then says that the call waits, and nobody can decide it any more
                await context.running.turn.withdraw(f"withdrawn, because the turn was {reason}.")
        await self.end(context.turn.id, "stopped", context.message, taint=context.taint, reason=reason)
        self.all_done(context.answered, context.result("") | {"stopped": True})

    def signature(self, message: RoutedMessage) -> str:
        """Return what a reply begins with: the agent's name where several agents answer, or as the settings say."""
        from gateway.outbound.replying import prefix_of

        place, agent = message.inbound.conversation, self._agents.get(message.route.agent)
        name = message.route.agent if agent is None else agent.profile.name  # a reload may have taken it away meanwhile
        several = not message.actor.local and len(self._answering(place)) > 1
        chosen = None if place.channel in CLIENT_CHANNELS else self._settings.current.messages.response_prefix
        away = self._name_at(message.route.agent, place) if message.automation is not None else ""
        prefix = prefix_of(chosen, name, several=several)
        return f"**{away}:** " if away and away not in prefix else prefix

    async def chunks(
        self, message: RoutedMessage, text: str, buttons: Sequence[Button] = (), *, continued: bool = False, before: str = ""
    ) -> list[NewOutbound]:
        """Return the chunks to queue for a text. ``continued``: it continues what was sent ``before``."""
        from gateway.outbound.replying import replies

        channel = self._channel(message.inbound.conversation)
        text = self.signature(message) + text if text and not continued else text
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

    async def end(
        self,
        turn: str,
        state: TurnEnd,
        message: RoutedMessage | None = None,
        chunks: Sequence[NewOutbound] = (),
        *,
        text: str = "",
        taint: Collection[str] = (),
        reason: str = "",
        returned: Collection[int] = (),
    ) -> tuple[str, ...]:
        """End a turn and queue its reply; return the keys of the reply's chunks. ``message`` is its first one.

        What other sessions are told is stored with it, and enqueued afterwards.

        Raises:
            StorageFailed, InvalidTransition: nothing was stored.
        """
        arrivals: Sequence[tuple[str, Arrival]] = ()
        events: Sequence[NewEvent] = ()
        if message is not None and message.automation is not None:
            ended = EndedTurn(message=message, state=state, text=text, taint=tuple(sorted(taint)), reason=reason)
            arrivals = await self.results(ended)
            away = bool(chunks) and self._name_at(message.route.agent, chunks[0].conversation)
            events = [] if away else told_to_chat(ended, chunks)
        finished = await self._ledger.turns.finish(
            turn, state, chunks, reason=reason, returned=returned, arrivals=arrivals, events=events
        )
        self.telemetry.turns.add(state, message.origin if message is not None else "unknown")
        for row in finished.rows:
            await self._hand_out(row)
        return finished.keys


def told_to_chat(ended: EndedTurn, chunks: Sequence[NewOutbound], marks: Marks = random_mark) -> list[NewEvent]:
    """Return what the session of a chat is told of a reply that an isolated run sends there; tainted text is fenced."""
    automation = ended.message.automation
    if automation is None or not chunks or not is_isolated(ended.message.route.session):
        return []
    place, said = chunks[0].conversation, unmarked(cut(ended.text.strip(), LONGEST_EVENT))
    if is_silent(place) or not said:
        return []
    said = fenced(said, ended.taint, marks) if ended.taint else said
    line = f"[{label_of(automation)} said here, outside of this conversation]\n{said}"
    return [NewEvent(conversation=place, line=line, sources=ended.taint, agent=ended.message.route.agent)]


def unasked_of(agent: RunningAgent, message: RoutedMessage) -> Unasked | None:
    """Return the mark of a message's reply; None for a reply to a person, or one that is urgent."""
    automation = message.automation
    if automation is None or automation.urgent:
        return None
    return agent.unasked(automation.source, automation.name)


def marked(chunks: Sequence[NewOutbound], unasked: Unasked | None) -> list[NewOutbound]:
    """Return chunks with the mark of their message."""
    return [replace(chunk, unasked=unasked) for chunk in chunks]


def asked_when_awake(question: NewApproval, unasked: Unasked | None, now: datetime) -> NewApproval:
    """Return a question with the time until which it is open: if it is held in quiet hours, that begins when they end."""
    until = None if unasked is None else unasked.rule.quiet_until(now)
    return question if until is None else replace(question, expires=until + LIFETIME)


def as_question(question: NewApproval, unasked: Unasked | None) -> Unasked | None:
    """Return the mark of the chunks that ask a question: they do not count, and are not sent once it is decided."""
    return None if unasked is None else replace(unasked, source=f"{APPROVAL}{question.id}", counts=False)


_LONGEST_REASON: Final = 600
"""Characters of the reason that is stored of a failed turn."""


def failure_of(message: RoutedMessage, state: TurnEnd, text: str) -> str:
    """Return why a turn failed, for those who look it up. A sub-agent's failure is told in its result."""
    automation = message.automation
    if state != "failed" or (automation is not None and automation.parent is not None):
        return ""
    line = " ".join(text.removeprefix("⚠️").split())
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"


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
