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
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agent.errors import AgentError, NotKept
from agent.turn import Turn as AgentTurn
from agent.turn import TurnResult
from channels.terminal.link import Done, Rejected
from gateway import errors
from gateway.command_desk import CommandDesk
from gateway.commands import parse
from gateway.hearing import heard
from gateway.journal import LedgerJournal
from gateway.replying import replies
from gateway.showing import Showing, show_frame
from gateway.turn_log import bound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from agent.clock import Clock
    from channels.messages import Conversation as Place
    from channels.messages import Inbound
    from channels.protocol import Channel
    from gateway.agents import HousedAgent
    from gateway.arrived import Arrived
    from gateway.lanes import Ticket
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import NewOutbound, Turn, TurnEnd
    from gateway.sessions.store import SessionRecord

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
QUOTED_CHARS = 60
FRESH = timedelta(minutes=30)
"""A turn that was begun longer ago is not simply gone on with: its owner may have moved on."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that waits in a lane: its row and where it came from. What it says stays in the ledger until its turn comes."""

    row: int
    place: Place
    message_id: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A turn that the last process did not finish."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class _Case:
    """Messages about to be answered together, and all that belongs to them. ``arrived`` is the first one."""

    agent: HousedAgent
    arrived: Arrived
    further: Sequence[Arrived]
    record: SessionRecord
    turn: Turn
    greeting: str


@dataclass(frozen=True, slots=True)
class ResetDue:
    """A session that the scheduler found due for a fresh start."""

    agent: str
    key: str


class Turns:
    """Does what lanes are given. ``read`` reads messages by their rows; ``channel`` finds the channel of a conversation."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        read: Callable[[Sequence[int]], Awaitable[list[Arrived]]],
        agents: Mapping[str, HousedAgent],
        channel: Callable[[Place], Channel],
        audience: Callable[[str], Any],
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._read = read
        self._agents = agents
        self._channel = channel
        self._audience = audience
        self._clock = clock

    async def work(self, ticket: Ticket[Any]) -> None:
        """Do one item of a lane."""
        match ticket.item:
            case Interrupted(turn):
                await self._resume(ticket, turn)
            case ResetDue(agent, key):
                await self._reset(self._agents[agent], key)
            case Queued(row):
                for arrived in await self._read([row]):
                    await self._message(ticket, arrived)

    def told_refused(self, inbound: Inbound, error: errors.UsageWrong) -> None:
        """Tell a waiting client that its message goes nowhere; the words are on their way through the outbox."""
        facts = _facts("", "", "", error.as_text(), chunks=1, exit_code=error.exit_code)
        show_frame(self._channel(inbound.conversation), inbound.conversation, Done("", inbound.message_id, facts))

    def told_broken(self, item: Any, error: Exception) -> None:
        """Tell a waiting client that its message could not be dealt with now. It stays in the inbox."""
        if not isinstance(item, Queued):
            return
        known = errors.as_homebody_error(error)
        reason = str(known) if known else "something in me failed over this; the log tells more"
        mend = known.mend if known else "It is kept, and I try again when I am started next."
        show_frame(self._channel(item.place), item.place, Rejected(item.message_id, reason, mend))

    async def _message(self, ticket: Ticket[Any], arrived: Arrived) -> None:
        agent = self._agents[arrived.route.agent]
        with bound(agent=agent.id, session=arrived.route.session, channel=arrived.inbound.conversation.channel):
            if not arrived.inbound.text.strip():
                await self._ledger.settle([arrived.row.id], "ignored", reason="empty")
                self._done(arrived, _facts(agent.id, arrived.route.session, "", ""))
                return
            record = await agent.current(
                arrived.route.session, arrived.route.audience, address=arrived.inbound.conversation.address
            )
            command = parse(arrived.inbound.text, agent.triggers)
            if command is not None:
                await self._command(agent, arrived, record, command[0].name, command[1])
                return
            turn = await self._ledger.claim(arrived.route.session, agent.id, [arrived.row.id])
            await self._answer(ticket, _Case(agent, arrived, (), record, turn, _greeting(record)))

    async def _resume(self, ticket: Ticket[Any], turn: Turn) -> None:
        found = await self._read(turn.inbox)
        if not found:
            await self._ledger.finish(turn.id, "failed", reason="its message cannot be read any more")
            return
        arrived = found[0]
        agent = self._agents.get(turn.agent)
        record = agent.store.get(turn.session) if agent else None
        about = _shortened(arrived.inbound.text)
        if agent is None or record is None or turn.attempt >= MAX_ATTEMPTS:
            text = f"⚠️ I was interrupted {turn.attempt} times over “{about}” and gave it up. Say it again if it still matters."
            await self._ledger.finish(turn.id, "failed", await self._chunks(arrived, text), reason="interrupted too often")
            return
        if self._clock.now() - turn.started_at > FRESH:
            at = f"{turn.started_at.astimezone(agent.zone):%a %H:%M}"
            text = f"I was interrupted over “{about}” ({at}) and am back. It is a while ago: say “go on” if it still matters."
            await self._ledger.finish(turn.id, "stopped", await self._chunks(arrived, text), reason="interrupted long ago")
            return
        turn = await self._ledger.retry(turn.id)
        with bound(agent=agent.id, session=turn.session, channel=arrived.inbound.conversation.channel):
            greeting = "(I was restarted and went on.)" if turn.attempt > 1 else ""
            await self._answer(ticket, _Case(agent, arrived, found[1:], record, turn, greeting))

    async def _reset(self, agent: HousedAgent, key: str) -> None:
        record = agent.store.get(key)
        reason = agent.due(record, self._clock.now()) if record else None
        if record is not None and reason is not None:
            with bound(agent=agent.id, session=key):
                log.info("the session starts afresh (%s)", reason)
                await agent.renew(record, self._audience(key), reason)

    async def _command(self, agent: HousedAgent, arrived: Arrived, record: SessionRecord, name: str, argument: str) -> None:
        exit_code = errors.OK
        try:
            reply = await CommandDesk(agent, arrived, record).run(name, argument)
        except (AgentError, errors.HomebodyError) as error:
            reply, exit_code = _trouble(error)
        chunks = await self._chunks(arrived, reply)
        await self._ledger.settle([arrived.row.id], "answered", reply=chunks)
        self._done(arrived, _facts(agent.id, record.key, record.session, reply, chunks=len(chunks), exit_code=exit_code))

    async def _answer(self, ticket: Ticket[Any], case: _Case) -> None:
        place = case.arrived.inbound.conversation
        showing = Showing(self._channel(place), place, case.turn.id, self._clock, verbose=case.record.verbose)
        with bound(turn=case.turn.id):
            try:
                async with showing.shown():
                    result = await self._run(case, showing)
            except asyncio.CancelledError:
                await _unbroken(self._cancelled(ticket, case))
                raise
            except (AgentError, errors.HomebodyError) as error:
                log.warning("the turn failed: %s", error)
                text, exit_code = _trouble(error)
                await self._finish(case, "failed", text, None, exit_code)
            else:
                await case.agent.ended(case.record, result)
                failed = result.outcome == "failed"
                state: TurnEnd = "failed" if failed else "stopped" if result.outcome == "stopped" else "done"
                await self._finish(case, state, result.reply, result, _exit_code(result))

    async def _run(self, case: _Case, showing: Showing) -> TurnResult:
        inbound, audience, name = case.arrived.inbound, case.arrived.route.audience, case.arrived.row.uid
        conversation = await case.agent.conversation(case.record, audience, model=inbound.hints.get("model"))
        messages = [await heard(conversation, one) for one in (case.arrived, *case.further)]
        journal = LedgerJournal(self._ledger, case.turn.id)
        brake = case.agent.brake
        with contextlib.nullcontext() if brake is None else brake.turn(case.record.key):
            return await AgentTurn(conversation=conversation, id=name, emit=showing.emit, journal=journal).run(messages)

    async def _finish(self, case: _Case, state: TurnEnd, text: str, result: TurnResult | None, exit_code: int) -> None:
        greeting = await self._chunks(case.arrived, case.greeting if text else "")
        chunks = greeting + await self._chunks(case.arrived, text)
        await self._ledger.finish(case.turn.id, state, chunks)
        record = case.record
        self._done(
            case.arrived,
            _facts(case.agent.id, record.key, record.session, text, result, chunks=len(chunks), exit_code=exit_code),
        )

    async def _cancelled(self, ticket: Ticket[Any], case: _Case) -> None:
        """Note why a turn was cut short: stopped by its owner it is over; by our own closing it goes on at the next start."""
        if ticket.ending != "stop":
            await self._ledger.interrupted(case.turn.id)
            return
        await self._ledger.finish(case.turn.id, "stopped", reason="stopped by its owner")
        self._done(case.arrived, _facts(case.agent.id, case.record.key, case.record.session, ""))

    async def _chunks(self, arrived: Arrived, text: str) -> list[NewOutbound]:
        return await replies(self._channel(arrived.inbound.conversation), arrived, text)

    def _done(self, arrived: Arrived, facts: dict[str, Any]) -> None:
        place = arrived.inbound.conversation
        show_frame(self._channel(place), place, Done(arrived.row.uid, arrived.inbound.message_id, facts))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUOTED_CHARS else f"{line[:QUOTED_CHARS].rstrip()}…"


def _exit_code(result: TurnResult) -> int:
    if result.outcome != "failed":
        return errors.OK
    return errors.NO_MODEL if result.failure in {"auth", "unknown_model"} else errors.FAILED


def _greeting(record: SessionRecord) -> str:
    """The one line that tells the owner of a fresh start by the clock: with the first answer after it, never at night."""
    if record.former is None or record.greeted or record.turns:
        return ""
    return "🌅 A fresh conversation; what mattered in the last one is in my notes. /undo brings it back."


def _trouble(error: AgentError | errors.HomebodyError) -> tuple[str, int]:
    """Put an error into words for the chat, with the exit code for a program that asked."""
    known = errors.as_homebody_error(error)
    code = errors.STORAGE_FAILED if isinstance(error, NotKept) else known.exit_code if known else errors.FAILED
    if isinstance(error, AgentError) and not isinstance(error, NotKept):
        code = errors.NO_MODEL
    return f"⚠️ {error}" + (f"\n{error.mend}" if error.mend else ""), code


def _facts(
    agent: str, key: str, session: str, reply: str, result: TurnResult | None = None, *, chunks: int = 0, exit_code: int = 0
) -> dict[str, Any]:
    """What ``homebody agent --json`` prints, with the two fields that a client needs. A figure not known is None."""
    usage = result.usage if result else None
    return {
        "reply": reply,
        "agent": agent,
        "sessionKey": key,
        "sessionId": session,
        "model": result.model if result else None,
        "usage": {
            "input": usage.input if usage else None,
            "output": usage.output if usage else None,
            "cacheRead": usage.cache_read if usage else None,
            "cacheWrite": usage.cache_write if usage else None,
            "cost": usage.cost if usage else None,
        },
        "context": {"tokens": result.context if result else None, "window": result.window if result else None},
        "toolCalls": [
            {"name": call.name, "error": call.is_error} | _json(call.details) for call in (result.calls if result else ())
        ],
        "ms": round(result.seconds * 1000) if result else None,
        "chunks": chunks,
        "exit": exit_code,
    }


def _json(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"details": dict(details)} if details else {}


async def _unbroken(work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work`` although the caller was cancelled."""
    task = asyncio.ensure_future(work)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.shield(task)
    await asyncio.wait([task])
    task.result()
