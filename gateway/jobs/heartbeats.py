"""Heartbeats: at regular intervals an agent goes through HEARTBEAT.md, if there is anything to do in it.

An instant is used up when its message is stored or there is no reason for one; while the owner's session is busy it waits. The message is
named after the instant before it, so that a restart in between repeats none. What was missed while the gateway was off is made up for once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from agent.context.workspace_files import HEARTBEAT
from agent.errors import WorkspaceFileError
from agent.timing import Clock
from channels.messages import ChatAddress, Inbound, Sender
from channels.silent import silent_place
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed
from gateway.inbound.pipeline import Inbox
from gateway.ledger.heartbeat_rows import HeartbeatLedger, HeartbeatState
from gateway.queue.lanes import Lanes
from gateway.routing.routed_message import Automation
from gateway.routing.router import Route
from gateway.settings.heartbeat_settings import HeartbeatSettings
from memory.audience import OWNER

log = logging.getLogger(__name__)

AWAY: Final = timedelta(days=7)
LONGEST_BACKOFF: Final = timedelta(hours=6)
TOKEN: Final = "HEARTBEAT_OK"  # noqa: S105  (a word that the model says)
PAUSED: Final = "💤 You have not written for a week, so I pause my heartbeats until you do."
_ACCOUNT: Final = "schedule"

Skipped = Literal[
    "off", "nothing to do", "unreadable", "outside active hours", "quiet hours", "owner away", "busy", "waiting", "unreachable"
]


class _Known(Struct):
    """What is known of one agent's heartbeats. ``skipped`` is why the latest instant brought no request.

    ``stored`` is the latest instant that is in the ledger, by which the message of the next heartbeat is named.
    """

    state: HeartbeatState
    stored: datetime
    skipped: Skipped | None = None
    trouble: str = ""


class Heartbeats:
    """The heartbeats of all agents; ``tick`` is called by the scheduler.

    ``spoken`` returns when the owner last wrote, None if never; ``latest_chat`` the owner's latest private chat with an agent;
    ``unreachable`` why nothing may be sent to a place, "" if it may. ``tell`` sends the owner a line. ``machine`` is the machine's time
    zone. ``local`` is where replies go that have no other place.
    """

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        ledger: HeartbeatLedger,
        clock: Clock,
        *,
        inbox: Inbox,
        lanes: Lanes[Any],
        spoken: Callable[[], Awaitable[datetime | None]],
        latest_chat: Callable[[str], Awaitable[ChatAddress | None]],
        unreachable: Callable[[ChatAddress], Awaitable[str]],
        tell: Callable[[str], object],
        machine: Callable[[], ZoneInfo],
        local: ChatAddress,
    ) -> None:
        self._agents = agents
        self._ledger = ledger
        self._clock = clock
        self._inbox = inbox
        self._lanes = lanes
        self._spoken = spoken
        self._latest_chat = latest_chat
        self._unreachable = unreachable
        self._tell = tell
        self._machine = machine
        self._local = local
        self._known: dict[str, _Known] = {}
        self._ticking = asyncio.Lock()
        self._looked_at: datetime | None = None

    @property
    def next_due(self) -> datetime | None:
        """The next instant of all agents. One that had to wait at the last look is left to the scheduler's regular ones."""
        dues = [
            self._due(agent, known.state)
            for agent in list(self._agents.values())
            if agent.profile.heartbeat.every and (known := self._known.get(agent.id)) is not None
        ]
        looked = self._looked_at
        return min((due for due in dues if looked is None or due > looked), default=None)

    async def tick(self) -> None:
        """Send the heartbeats that are due."""
        async with self._ticking:
            self._looked_at = self._clock.now()
            for agent in list(self._agents.values()):
                try:
                    await self._tick(agent)
                except StorageFailed as error:
                    log.warning("the heartbeat of %s is looked at again later: %s", agent.id, error)

    def facts(self, agent: RunningAgent) -> dict[str, Any]:
        """Return the state of an agent's heartbeats as JSON values, for a status."""
        every, known = agent.profile.heartbeat.every, self._known.get(agent.id)
        found: dict[str, Any] = {"agent": agent.id, "every": every, "skipped": None, "next": None, "failures": 0, "trouble": ""}
        if not every:
            return found | {"skipped": "off"}
        if known is None:
            return found
        due = self._due(agent, known.state)
        found |= {"skipped": known.skipped, "next": due.isoformat(timespec="seconds")}
        return found | {"failures": known.state.failures, "trouble": known.trouble}

    async def _tick(self, agent: RunningAgent) -> None:
        now = self._clock.now()
        if not agent.profile.heartbeat.every:
            self._known.pop(agent.id, None)
            return
        known = self._known.get(agent.id)
        if known is None:
            first = await self._first(agent, now)
            known = self._known[agent.id] = _Known(first, first.last)
        if known.state.last > now:  # the clock was set back
            known.state = replace(known.state, last=now)
        if now < self._due(agent, known.state):
            return
        known.skipped = await self._beat(agent, known, now)
        if known.skipped not in {None, "busy", "waiting"}:
            known.state = replace(known.state, last=now)

    async def _first(self, agent: RunningAgent, now: datetime) -> HeartbeatState:
        """Return the state that the last process left; where there is none, the first interval begins now."""
        state = await self._ledger.get(agent.id)
        if state is None:
            state = HeartbeatState(last=now)
            await self._ledger.put(agent.id, state)
        return state

    def _due(self, agent: RunningAgent, state: HeartbeatState) -> datetime:
        """Return when the next one is due: the time doubles with each that failed, until midnight, as a new day has new limits."""
        every = timedelta(seconds=agent.profile.heartbeat.every)
        if not state.failures:
            return state.last + every
        doubled = state.last + max(every, min(every * 2 ** min(state.failures, 10), LONGEST_BACKOFF))
        tomorrow = state.last.astimezone(agent.zone).date() + timedelta(days=1)
        midnight = datetime.combine(tomorrow, time(), agent.zone).astimezone(UTC)
        due: datetime = min(doubled, max(state.last + every, midnight))
        return due

    async def _beat(self, agent: RunningAgent, known: _Known, now: datetime) -> Skipped | None:
        """Store the message of a heartbeat, or return why there is none."""
        from agent.context.heartbeat_file import heartbeat_text

        try:
            text = await asyncio.to_thread(heartbeat_text, agent.workspace, agent.profile.settings.bootstrap_max_chars)
        except WorkspaceFileError as error:
            self._note_trouble(agent, known, str(error))
            return "unreadable"
        skipped = await self._why_not(agent, known, now) if text else "nothing to do"
        if skipped is None:
            place = await self._place(agent)
            if trouble := await self._unreachable(place):
                trouble = f"{trouble}. Give `heartbeat.target` another chat: `homebody channels chats`"
                if known.trouble != trouble:
                    self._tell(f"⚠️ No heartbeat of {agent.profile.name}: {trouble}.")
                self._note_trouble(agent, known, trouble)
                return "unreachable"
            await self._send(agent, known, text, now, place)
        if skipped is None or skipped == "nothing to do":
            known.trouble = ""
        return skipped

    async def _why_not(self, agent: RunningAgent, known: _Known, now: datetime) -> Skipped | None:
        """Return why there is no heartbeat now although there is something to do."""
        if (asleep := self._asleep(agent, agent.profile.heartbeat, now)) is not None:
            return asleep
        if await self._is_away(agent, known, now):
            return "owner away"
        if any(self._lanes.busy(key) or self._lanes.queued(key) for key in (agent.main_key, _session(agent))):
            return "busy"
        failures = await self._failures(known.state)
        if failures is None:
            return "waiting"
        known.state = replace(known.state, failures=failures, row=None)
        return "waiting" if now < self._due(agent, known.state) else None

    def _asleep(self, agent: RunningAgent, settings: HeartbeatSettings, now: datetime) -> Skipped | None:
        hours = settings.active_hours
        if hours is not None:
            return (
                None if hours.current(now, hours.zone(agent.zone, self._machine()), at_least=True) else "outside active hours"
            )
        return None if agent.unasked_rule.quiet_until(now) is None else "quiet hours"

    async def _is_away(self, agent: RunningAgent, known: _Known, now: datetime) -> bool:
        spoken = await self._spoken()
        if spoken is not None and now - spoken < AWAY:
            known.state = replace(known.state, away_told=False)
            return False
        if spoken is not None and not known.state.away_told:
            known.state = replace(known.state, last=now, away_told=True)
            await self._store(agent, known)
            self._tell(PAUSED)
        return True

    async def _failures(self, state: HeartbeatState) -> int | None:
        """Return how many heartbeats have failed in a row; None while the latest one has not ended."""
        if state.row is None:
            return state.failures
        rows = await self._inbox.ledger.inbox.rows([state.row])
        if rows and rows[0].state in {"waiting", "claimed"}:
            return None
        if not rows:
            return 0
        failed = rows[0].state == "failed" or await self._is_refused(rows[0].turn)
        return state.failures + 1 if failed else 0

    async def _is_refused(self, turn: str | None) -> bool:
        """Whether the answer of a heartbeat was given up: its owner blocks the agent, perhaps, and each one is paid for."""
        return turn is not None and any(one.turn == turn for one in await self._inbox.ledger.outbox.latest(["dead"]))

    async def _send(self, agent: RunningAgent, known: _Known, text: str, now: datetime, place: ChatAddress) -> None:
        settings, session = agent.profile.heartbeat, _session(agent)
        day = f"{now.astimezone(agent.zone):%Y-%m-%d}"
        automation = Automation(
            origin="schedule",
            name="heartbeat",
            source=f"heartbeat:{agent.id}",
            fresh=day != known.state.day or self._is_tainted(agent, session),
            light=True,
            model=settings.model,
            thinking=settings.thinking,
            quiet_reply=TOKEN,
            quiet_chars=settings.ack_max_chars,
            quiet_failure=True,
            daily_usd=settings.daily_usd,
        )
        key = f"{agent.id}:heartbeat:{known.stored.isoformat()}"
        message = Inbound(
            conversation=place,
            sender=Sender(id=automation.source, name="heartbeat"),
            text=f"{settings.prompt}\n\n# {HEARTBEAT}\n\n{text}",
            at=now,
            key=key,
            alias=key,
            message_id="",
        )
        route = Route(agent=agent.id, session=session, audience=OWNER)
        row = await self._inbox.submit(message, route, automation, account=_ACCOUNT)
        known.state = replace(known.state, last=now, row=None if row is None else row.id, day=day)
        await self._store(agent, known)

    async def _store(self, agent: RunningAgent, known: _Known) -> None:
        await self._ledger.put(agent.id, known.state)
        known.stored = known.state.last

    def _is_tainted(self, agent: RunningAgent, session: str) -> bool:
        """Return whether an earlier heartbeat in this session was shown untrusted text, which a new one has nothing to do with."""
        record = agent.store.get(session)
        conversation = agent.conversations.get(record.session) if record else None
        return conversation is not None and bool(conversation.taint)

    async def _place(self, agent: RunningAgent) -> ChatAddress:
        target = agent.profile.heartbeat.target
        if target == "none":
            return silent_place(_session(agent))
        if target == "last":
            return await self._latest_chat(agent.id) or self._local
        return ChatAddress.parse(target)

    def _note_trouble(self, agent: RunningAgent, known: _Known, trouble: str) -> None:
        if trouble != known.trouble:
            log.warning("no heartbeat of %s: %s", agent.id, trouble)
        known.trouble = trouble


def _session(agent: RunningAgent) -> str:
    return f"agent:{agent.id}:heartbeat"
