"""The composition root: builds all parts of the gateway and connects them. No part takes it as a parameter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.agents.memory_stores import owner_zone
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.late_calls import Calls, on_first_use
from gateway.app.agent_factory import AgentParts
from gateway.app.agent_supervisor import AgentSupervisor
from gateway.app.approval_parts import ApprovalParts
from gateway.app.automation_parts import AutomationParts
from gateway.app.backups import ScheduledBackups
from gateway.app.commands import CommandParts
from gateway.app.dependencies import Dependencies
from gateway.app.inbound_parts import InboundParts
from gateway.app.mail_parts import MailParts
from gateway.app.mail_watch import MailWatchParts
from gateway.app.mcp_parts import McpParts
from gateway.app.outage_parts import OutageParts
from gateway.app.outbound_parts import OutboundParts
from gateway.app.queue_parts import QueueParts
from gateway.app.reload import Reload
from gateway.app.routing_parts import RoutingParts
from gateway.app.skill_parts import SkillParts
from gateway.app.status_handlers import StatusHandlers
from gateway.app.subagent_parts import SubAgentParts
from gateway.app.telemetry_parts import TelemetryParts
from gateway.app.turn_parts import TurnParts
from gateway.app.workspace_parts import WorkspaceParts
from gateway.approvals.rules import Rules
from gateway.approvals.stored_rules import StoredRules
from gateway.command_handlers.urgent_commands import FurtherCommand
from gateway.config.workspace_location import ProtectedInodes
from gateway.jobs.scheduler import Scheduler
from gateway.models.model_registry import ModelRegistry
from gateway.outbound.owner_notifications import StartupNotices
from gateway.queue.steering import RunningTurn
from gateway.sandbox.command_sandbox import CommandSandbox
from gateway.settings.root import Settings, SettingsStore
from gateway.storage.open_storage import Storage

if TYPE_CHECKING:
    from agent.tools.provider import ToolProvider
    from gateway.agents.todo_lists import TodoLists

_TOOL_CALLS = ("tools.list", "tools.show")
_TODO_CALLS = ("todo.list", "todo.change")


class GatewayParts:
    """All parts of one gateway."""

    def __init__(self, deps: Dependencies, storage: Storage, model_registry: ModelRegistry) -> None:
        self.deps = deps
        self.storage = storage
        self.ledger = storage.ledger
        self.model_registry = model_registry
        self.settings = SettingsStore(deps.settings)
        self.notices = StartupNotices()
        self.agents: dict[str, RunningAgent] = {}
        self.elsewhere: Callable[[], Collection[str]] = lambda: ()
        """Accounts that other gateways of a cluster connect."""
        self.leads: Callable[[], bool] = lambda: True
        """Whether this gateway does what is done once for all agents: that of the default agent, in a cluster."""
        self._running: dict[str, RunningTurn] = {}
        self._closed = ProtectedInodes(deps.paths.home)
        self._build_commands()
        self._build_outbound()
        self._build_routing()
        self._build_queue()
        self._build_inbound()
        self._build_turns()
        self._build_schedule()
        self._build_supervisor()
        self._build_operations()
        self.settings.subscribe(self._settings_changed)

    def _build_commands(self) -> None:
        """Build what runs commands, and the rules by which acts are allowed."""
        deps = self.deps
        self.sandbox = CommandSandbox(deps.paths, lambda: self.settings.current)
        self.skills = SkillParts(deps, self.settings, self._tell_owner)
        stored = StoredRules(deps.paths.state)
        self.rules = Rules(lambda: self.settings.current, stored, self.sandbox.confined, self.skills.why_asked)
        self.commands = CommandParts(deps, self.settings, self.sandbox, self.ledger, self.agents, skills=self.skills.of)

    def _build_outbound(self) -> None:
        deps = self.deps
        outbound = self.outbound = OutboundParts(
            deps,
            self.settings,
            self.ledger,
            self.model_registry,
            agents=self.agents,
            notices=self.notices,
            sink=lambda name, account: self.inbox.sink(name, account),  # noqa: PLW0108 (it is built later)
            stop=lambda place: self.inbound.stop_client(place),  # noqa: PLW0108 (it is built later)
            owner_keys=lambda *asked: self.routing.owner_keys(*asked),  # noqa: PLW0108 (it is built later)
            answering=lambda place: self.router.answering(place),  # noqa: PLW0108 (it is built later)
            facts=self.page_facts,
        )
        self.terminal, self.channel, self.owner = outbound.terminal, outbound.channel, outbound.owner
        self.delivery, self.channel_supervisor = outbound.delivery, outbound.channel_supervisor
        self.media, self.api, self.page = outbound.media, outbound.api, outbound.page
        self.mail = MailParts(
            deps, self.settings, withheld=outbound.secret_filter.file, closed=self._closed, tell=self._tell_owner
        )

    def _build_routing(self) -> None:
        routing = self.routing = RoutingParts(
            self.deps, self.settings, self.ledger, policies=self.channel_supervisor.policies, channel=self.channel
        )
        self.groups, self.access, self.router = routing.groups, routing.access, routing.router

    def _build_queue(self) -> None:
        """Build the lanes, and the questions that suspend turns in them."""
        queue = self._queue_parts = QueueParts(
            self.deps,
            self.settings,
            self.ledger,
            agents=self.agents,
            notices=self.notices,
            owner=self.owner,
            channel=self.channel,
            store_stops=lambda: self.subagents.service.store_stops(),  # noqa: PLW0108 (they are built later)
        )
        self.acks = queue.acks
        self.lanes, self.queue, self.pause, self.storage_retry = queue.lanes, queue.queue, queue.pause, queue.storage_retry
        self.approvals = ApprovalParts(
            self.ledger,
            self.deps.clock,
            self.rules,
            agents=self.agents,
            channel=self.channel,
            owner=self.owner.place_of,
            wake=queue.wake,
            secret_filter=self.outbound.secret_filter,
            paused=lambda: self.pause.lasts,
            tried=self.sandbox.tried,
        )

    def _build_inbound(self) -> None:
        deps, ledger = self.deps, self.ledger
        self.subagents = SubAgentParts(
            ledger,
            self.agents,
            deps.clock,
            lanes=self.lanes,
            queue=self.queue,
            running=self._running,
            decisions=self.approvals.decisions,
            channel=self.channel,
            owner=self.owner,
            accounts=self.channel_supervisor.working,
            end_commands=self.commands.stop,
            inbox=lambda: self.inbox,
        )
        self.inbound = InboundParts(
            deps,
            self.settings,
            ledger,
            agents=self.agents,
            running=self._running,
            routing=self.routing,
            queue=self._queue_parts,
            outbound=self.outbound,
            decisions=self.approvals.decisions,
            stopping=self.subagents.stopping,
            confined=self.sandbox.known_standing,
            further=self._further_command,
            status_lines=lambda agent: self.automation.status_lines(agent),  # noqa: PLW0108 (it is built later)
        )
        self.inbox = self.inbound.inbox

    def _build_turns(self) -> None:
        deps, ledger = self.deps, self.ledger
        self.automation = AutomationParts(
            deps,
            self.settings,
            ledger,
            agents=self.agents,
            inbox=self.inbox,
            lanes=self.lanes,
            owner=self.owner,
            accounts=lambda: {*self.channel_supervisor, *self.elsewhere()},
            client=self.outbound.client,
            subagents=self.subagents,
        )
        self.mail_watch = MailWatchParts(deps, self.settings, ledger, agents=self.agents, inbox=self.inbox, owner=self.owner)
        self.mcp = McpParts(deps, self.settings, self.agents, self._tell_owner)
        turns = TurnParts(
            deps,
            self.settings,
            ledger,
            agents=self.agents,
            inbox=self.inbox,
            running=self._running,
            routing=self.routing,
            queue=self._queue_parts,
            outbound=self.outbound,
            approvals=self.approvals,
            results=self.automation.results,
        )
        self.endings, self.turns = turns.endings, turns.worker

    def _build_schedule(self) -> None:
        deps, ledger = self.deps, self.ledger
        self.backups = ScheduledBackups(deps, self.settings, ledger, self._tell_owner)
        self.schedule = Scheduler(
            self.agents,
            deps.clock,
            reset=self._queue_parts.reset_due,
            keep_cached=self._queue_parts.keep_cached,
            sweep=self._sweep,
            last_swept=ledger.last_swept,
            backup=ledger.backup,
            archive=self._archive,
            expire=self.approvals.decisions.expire,
            release=self.automation.release,
            release_due=lambda: self.automation.next_release,
            automation=self.automation.tick,
            automation_due=lambda: self.automation.heartbeats.next_due,
            jobs=self.automation.jobs,
        )

    def _build_supervisor(self) -> None:
        """Build what makes and ends agents."""
        deps, ledger = self.deps, self.ledger
        self.workspaces = WorkspaceParts(
            deps, self.settings, ledger, place=self.owner.place, tell=partial(self.owner.say, waits=True)
        )
        self.agent_supervisor = AgentSupervisor(
            AgentParts(
                settings=self.settings,
                paths=deps.paths,
                closed=self._closed,
                env=deps.env,
                clock=deps.clock,
                random=deps.random,
                ledger=ledger,
                sessions=self.storage.sessions,
                models=self.model_registry,
                outgoing_files=self.media.outgoing,
                fetcher=deps.fetcher,
                withheld=self.outbound.secret_filter.call,
                notices=self.notices,
                tell_owner=self._tell_owner,
                policies=self.channel_supervisor.policies,
                formers=self.routing.migrations.formers,
                busy=self.lanes.busy,
                commands=self.commands,
                skills=self.skills.of,
                workspaces=self.workspaces,
                providers=self._providers,
                telemetry=deps.telemetry,
            ),
            self.agents,
            self.lanes,
            at_work=self.queue.at_work,
            serving=deps.serving,
            look_again=self.schedule.look_again,
            leaving=self.subagents.service.stop_agent,
        )
        self._queue_parts.connect(self.turns)

    def _build_operations(self) -> None:
        """Build what reads new settings, and what is told of this gateway."""
        deps, ledger = self.deps, self.ledger
        self.reload = Reload(
            settings=self.settings,
            paths=deps.paths,
            env=deps.env,
            clock=deps.clock,
            agents=self.agent_supervisor,
            channels=self.channel_supervisor,
            lanes=self.lanes,
            tell_owner=self._tell_owner,
            learn_secrets=deps.learn_all,
        )
        self.outage = OutageParts(deps, ledger, notices=self.notices, owner=self.owner, channel=self.channel)
        self.metrics = TelemetryParts(
            deps,
            self.settings,
            ledger,
            agents=self.agents,
            channels=self.channel_supervisor,
            lanes=self.lanes,
            requests=lambda: self.api.waiting,
        )
        self.status = StatusHandlers(
            ledger=ledger,
            agents=self.agents,
            channels=self.channel_supervisor,
            health=self.delivery.health,
            lanes=self.lanes,
            pause=self.pause,
            reload=self.reload,
            notices=self.notices,
            sandbox=self.sandbox,
            heartbeats=self.automation.heartbeats.facts,
            mail=self.mail_watch.facts,
            calendars=self.automation.calendar.facts,
            mcp=self.mcp.facts,
            backup=self.backups.facts,
            workspaces=self.workspaces.facts,
            stopped_jobs=self.automation.jobs.stopped,
        )

    def page_facts(self) -> Mapping[str, Callable[[], Awaitable[Hashable]]]:
        """Return what open pages are told of. It is loaded with the first of them."""
        from gateway.app.page_facts import outside_facts
        from gateway.budget.usage_report import first_day

        deps, settings = self.deps, self.settings
        return outside_facts(
            self.ledger,
            self.rules.stored,
            deps.paths,
            agents=self.agents,
            reload=self.reload,
            status=self.status.mark,
            today=lambda: first_day(deps.clock.now(), owner_zone(settings.current.agent(settings.current.default_agent)), 1),
            log=lambda: settings.current.logging.file or deps.paths.logs / "homebody.jsonl",
        )

    def _providers(self, agent: str) -> Sequence[ToolProvider]:
        """Return the providers of an agent's further tools. Called when they are first needed; each part adds its own here."""
        from agent.tools.provider import FixedTools
        from gateway.tools.message_search_provider import MessageSearchProvider

        own = FixedTools("automation", self.automation.tools(agent))
        settings = self.settings
        search = MessageSearchProvider(
            lambda: settings.current.channels, self.deps.fetcher, lambda: owner_zone(settings.current.agent(agent))
        )
        return [own, self.automation.calendar.provider(agent), *self.mail.providers(agent), *self.mcp.providers(agent), search]

    def agent_calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Return the calls about agents' tools and their lists of things to do, by name."""

        def tools() -> Calls:
            from gateway.api.handlers.tool_requests import ToolHandlers

            return ToolHandlers(self.agents, lambda: self.settings.current, self.rules, self.sandbox.standing).calls()

        def todo() -> Calls:
            from gateway.api.handlers.todo_requests import TodoHandlers

            return TodoHandlers(self._todo_lists()).calls()

        return on_first_use(_TOOL_CALLS, tools) | on_first_use(_TODO_CALLS, todo)

    def _todo_lists(self) -> TodoLists:
        from gateway.agents.todo_lists import TodoLists

        return TodoLists(self.agents, self.deps.clock, lambda: self.settings.current.default_agent)

    def _further_command(self, name: str) -> FurtherCommand | None:
        from gateway.command_handlers.todo_command import TodoCommand

        if name == "memory":
            return self.groups.memory_command(self.agents, self.lanes, self.router.audience, self.inbox, self.owner)
        return {
            **self.automation.commands(),
            **self.mcp.commands(),
            **self.skills.commands(),
            **self.groups.commands(),
            "todo": TodoCommand(self._todo_lists()).reply,
        }.get(name)

    def _tell_owner(self, text: str) -> None:
        self.owner.say(text)

    def _settings_changed(self, former: Settings, settings: Settings) -> None:
        from gateway.config.effective import alike

        self.routing.adopt(settings)
        if not (alike(former.models, settings.models) and alike(former.auth, settings.auth)):
            self.model_registry.adopt(settings.models, settings.auth)
        if not alike(former.session, settings.session):
            self.schedule.look_again()
        self.api.begin()
        if self.deps.logs is not None:
            self.deps.logs.adopt(settings.logging)

    async def _archive(self) -> None:
        if self.leads():
            await self.backups.tick()

    async def _sweep(self) -> None:
        await self.ledger.sweep()
        await self.media.sweep([agent.workspace.sandbox for agent in self.agents.values()])
