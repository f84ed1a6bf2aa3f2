"""Builds what acts without a person's message: jobs, heartbeat, webhooks and sub-agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from channels.messages import ChatAddress
from channels.terminal.channel import LOCAL
from gateway.agents.memory_stores import machine_zone
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.late_calls import Calls, on_first_use
from gateway.app.calendar_parts import CalendarParts
from gateway.app.chat_readers import ChatReaders
from gateway.app.dependencies import Dependencies
from gateway.app.hook_parts import HookParts
from gateway.app.job_targets import GatewayJobTargets
from gateway.app.subagent_parts import SubAgentParts
from gateway.budget.usage_report import first_day
from gateway.command_handlers.urgent_commands import FurtherCommand
from gateway.inbound.pipeline import Inbox
from gateway.jobs.heartbeats import Heartbeats
from gateway.jobs.job_service import JobService
from gateway.jobs.monthly_tidying import MonthlyTidying
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Arrival
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.outbound.unasked_messages import UnaskedMessages
from gateway.queue.lanes import Lanes
from gateway.routing.router import agent_of
from gateway.settings.root import SettingsStore
from gateway.turns.ending import EndedTurn

if TYPE_CHECKING:
    from datetime import datetime

    from agent.tools.protocol import Tool
    from gateway.agents.note_tidying import NoteTidying

_JOB_CALLS: Final = tuple(
    f"jobs.{name}" for name in ("list", "add", "show", "change", "pause", "resume", "run", "remove", "log")
)
TIDYING: Final = ("memory.tidy", "memory.tidyDecide")


class AutomationParts:
    """The parts behind messages that no person wrote. ``inbox`` takes them, ``lanes`` runs their turns.

    ``accounts`` are the accounts of the channels that run; ``client`` is where an owner without a chat on a platform reads.
    """

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, RunningAgent],
        inbox: Inbox,
        lanes: Lanes[Any],
        owner: OwnerNotifications,
        accounts: Callable[[], Collection[str]],
        client: Callable[[], ChatAddress],
        subagents: SubAgentParts,
    ) -> None:
        self._deps = deps
        self._settings = settings
        self._ledger = ledger
        self._agents = agents
        self._inbox = inbox
        self._lanes = lanes
        self._owner = owner
        self._subagents = subagents
        self._unasked = UnaskedMessages(ledger.unasked, agents, deps.clock, owner.place)
        readers = ChatReaders(agents, ledger.pairing, inbox, owner)
        self.hooks = HookParts(deps, settings, ledger, agents=agents, inbox=inbox, owner=owner, readers=readers)
        targets = GatewayJobTargets(agents, owner, readers, accounts if deps.serving else None, client)
        self.heartbeats = Heartbeats(
            agents,
            ledger.heartbeats,
            deps.clock,
            inbox=inbox,
            lanes=lanes,
            spoken=owner.spoken,
            latest_chat=owner.place_of,
            unreachable=targets.unreachable,
            tell=owner.say,
            machine=machine_zone,
            local=ChatAddress(channel="terminal", kind="direct", id=LOCAL),
        )
        self.jobs = JobService(ledger.jobs, deps.clock, targets, hand_out=inbox.hand_out, tell=owner.tell)
        self._tidying: NoteTidying | None = None
        self.monthly_tidying = MonthlyTidying(agents, self._note_tidying, deps.clock, tell=partial(owner.say, waits=True))
        self.calendar = CalendarParts(settings, deps.fetcher, deps.clock, self.jobs)

    def tools(self, agent: str) -> Sequence[Tool]:
        """Return the tools with which an agent makes and uses automations. Called when they are first needed."""
        from agent.tools.cron_tool import Cron
        from gateway.jobs.agent_jobs import AgentJobs

        return [Cron(AgentJobs(agent, self.jobs, place=self._place)), *self._subagents.tools()]

    async def results(self, ended: EndedTurn) -> Sequence[tuple[str, Arrival]]:
        """Return the messages that tell other sessions of the end of an automation's turn, stored with it."""
        return await self._subagents.results.of_turn(ended)

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Return the calls of the command line, by name. Only a gateway that serves offers them."""

        def jobs() -> Calls:
            from gateway.api.handlers.job_requests import JobHandlers

            return JobHandlers(self.jobs, self._deps.clock, settings=lambda: self._settings.current).calls()

        tidying = on_first_use(TIDYING, lambda: self._note_tidying().calls())
        return {**self.hooks.calls(), **on_first_use(_JOB_CALLS, jobs), **self._subagents.tree.calls(), **tidying}

    def commands(self) -> dict[str, FurtherCommand]:
        """Return slash commands that do not wait, by name. They are in ``gateway.commands.table``."""
        from gateway.jobs.jobs_command import JobsCommand

        return {"jobs": JobsCommand(self.jobs, self._deps.clock).reply, **self._subagents.commands}

    async def status_lines(self, agent: RunningAgent) -> list[str]:
        """Return what ``/status`` says of what an agent does without being asked."""
        from gateway.jobs.heartbeat_status import status_line

        spent = await self._ledger.spending.usage(first_day(self._deps.clock.now(), agent.zone, 1), "source")
        tally = await self._ledger.tally()
        held = [f"{tally.held} held until quiet hours end"] if tally.held else []
        held += [f"{tally.kept} kept beyond the number of a day"] if tally.kept else []
        unasked = [f"- 📥 Unasked messages: {', '.join(held)} (`homebody outbox held`)"] if held else []
        return [*filter(None, [status_line(self.heartbeats.facts(agent), spent, agent.zone)]), *unasked]

    async def begin(self) -> None:
        """Take up what the last process left, after interrupted turns are queued and before waiting messages are."""
        await self.hooks.begin()

    @property
    def next_release(self) -> datetime | None:
        """When quiet hours end, so that messages are sent that they held."""
        return self._unasked.next_release

    async def release(self) -> None:
        """Send held messages whose quiet hours have ended. Does not raise."""
        await self._unasked.release()

    async def tick(self) -> None:
        """Do what is due now. The scheduler calls it at every wake-up; nothing here raises."""
        await self._unasked.release()
        await self.heartbeats.tick()
        await self._subagents.service.tick()
        await self.calendar.tick()
        await self.monthly_tidying.tick()

    async def close(self) -> None:
        """End what runs in the background."""
        await self.monthly_tidying.close()
        await self.calendar.close()

    def _note_tidying(self) -> NoteTidying:
        """Return what asks a model about the notes; its code is loaded on first use."""
        if self._tidying is None:
            from gateway.agents.note_tidying import NoteTidying

            self._tidying = NoteTidying(self._agents, self._deps.paths.agent, self._deps.clock)
        return self._tidying

    def _place(self, session: str) -> ChatAddress | None:
        """Return the conversation in which a session was last spoken."""
        agent = self._agents.get(agent_of(session))
        record = agent.store.get(session) if agent is not None else None
        try:
            return ChatAddress.parse(record.address, space=record.space or None) if record and record.address else None
        except ValueError:
            return None
