"""The composition root: builds all parts of the gateway and connects them.

Gateway.open    settings -> lock, ledger, agents, channels, lanes
Gateway.run     serve until ``stop``: deliveries and channels in one TaskGroup, interrupted turns first
Gateway.close   close everything in the opposite order
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from channels.messages import ChatAddress
from channels.platform import Policy
from channels.protocol import Channel
from channels.terminal.channel import TerminalChannel
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.pairing_requests import PairingHandlers
from gateway.api.handlers.queues import QueueHandlers
from gateway.api.handlers.routes import RouteHandlers
from gateway.app.agent_factory import AgentParts
from gateway.app.agent_supervisor import AgentSupervisor
from gateway.app.dependencies import Dependencies
from gateway.app.reload import Reload
from gateway.app.status import StatusHandlers
from gateway.base.errors import HomebodyError, StorageFailed
from gateway.base.state_lock import StateLock
from gateway.command_handlers.rights import CommandRights
from gateway.command_handlers.urgent_commands import UrgentCommands
from gateway.commands.table import MENU
from gateway.config.effective import alike
from gateway.inbound.inbox import Inbox
from gateway.jobs.scheduler import Scheduler
from gateway.ledger.rows import ApprovedSender
from gateway.ledger.sqlite import SqliteLedger, ledger_gone
from gateway.media.service import MediaService
from gateway.models.registry import ModelRegistry, open_registry
from gateway.outbound.delivery import Delivery
from gateway.outbound.owner_notifications import DeliveryNotices, OwnerNotifications, StartupNotices
from gateway.outbound.progress import AckReactions
from gateway.outbound.secret_filter import SecretFilter
from gateway.queue.enqueue import Enqueuer, WaitingNotices
from gateway.queue.lanes import Lanes, Pause, Ticket
from gateway.queue.message_queue import MessageQueue
from gateway.queue.steering import RunningTurn
from gateway.routing.access import Access, concerns
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import ChatMigrations, router_of
from gateway.settings.block_streaming import Manner, manner_of
from gateway.settings.messages import largest_file
from gateway.settings.root import Settings, SettingsStore
from gateway.supervision.channel_supervisor import ChannelRunner, ChannelSupervisor
from gateway.supervision.crash_loop import OFTEN_CRASHED, TOO_OFTEN, CrashLoopBreaker
from gateway.turns.answering import Answering
from gateway.turns.storage_retry import StorageRetry
from gateway.turns.worker import InterruptedTurn, ResetDue, TurnWorker

log = logging.getLogger(__name__)

DRAIN_SECONDS = 8.0
"""Seconds for running turns at shutdown; together with the deliveries afterwards, less than the 10 s of Docker's default."""
DELIVER_SECONDS = 1.5
ALONE_SECONDS = 5.0
"""The scheduler takes a while to load, and a gateway that is opened for a single question ends before it needs it."""


class Gateway:
    """All parts of one running gateway."""

    def __init__(self, deps: Dependencies, lock: StateLock, ledger: SqliteLedger, model_registry: ModelRegistry) -> None:
        self.deps = deps
        self.lock = lock
        self.ledger = ledger
        self.model_registry = model_registry
        self.settings = SettingsStore(deps.settings)
        self.agents: dict[str, RunningAgent] = {}
        self.notices = StartupNotices()
        self._running: dict[str, RunningTurn] = {}
        self._rights = CommandRights(lambda: self.settings.current.messages.group_commands)
        self._closing = asyncio.Event()
        self._build_outbound()
        self._build_routing()
        self._build_queue()
        self._build_inbound()
        self._build_turns()
        self._build_operations()
        self.settings.subscribe(self._settings_changed)

    def _build_outbound(self) -> None:
        deps, ledger = self.deps, self.ledger
        self.terminal = TerminalChannel(clock=deps.clock, on_stop=self._stop_terminal)
        self.post = MediaService(
            deps.paths.state,
            outbox=ledger.outbox,
            clock=deps.clock,
            channel=self.channel,
            settings=lambda: self.settings.current.messages.attachments,
            largest=lambda place: largest_file(self.settings.current.channels, place),
        )
        telling, jitter = DeliveryNotices(self.notices, lambda: self.owner), deps.random.random
        self._secret_filter = SecretFilter(deps.outgoing, lambda text: self.owner.say(text))  # noqa: PLW0108 - it is made further down
        self.delivery = Delivery(
            ledger.outbox, deps.clock, jitter=jitter, delivered=self.post.delivered, telling=telling, held=self._secret_filter
        )
        self.channel_supervisor = ChannelSupervisor(self._keeper, self.delivery)
        troubles, attached = self.delivery.troubles, self.terminal.attached
        self.owner = OwnerNotifications(
            ledger,
            self.agents,
            self.channel_supervisor.working,
            failing=troubles.failing,
            attached=attached,
            keys=self._owner_keys,
        )

    def _build_routing(self) -> None:
        deps = self.deps
        self.migrations = ChatMigrations()
        self.access = Access(
            self.ledger.pairing,
            self.channel_supervisor.policies,
            lambda: self.settings.current.session.identity_links,
            formers=self.migrations.formers,
        )
        self.router = router_of(deps.settings, self.migrations.formers)

    def _build_queue(self) -> None:
        deps, ledger = self.deps, self.ledger
        self.lanes: Lanes[Any] = Lanes(
            self._work, limit=deps.settings.agents.defaults.max_concurrent, broken=self._broken, hold=self._hold
        )
        self.queue = MessageQueue(self.lanes, self.settings, self.agents, deps.clock)
        self.acks = AckReactions(lambda: self.settings.current.messages, self.channel)
        self.pause = Pause(self.lanes, self.notices.report)
        self.storage_retry = StorageRetry(ledger, self.lanes, self.pause, deps.clock, self.owner.tell)
        self.waiting_notices = WaitingNotices(ledger.outbox, deps.clock, lambda: self.pause)

    def _build_inbound(self) -> None:
        deps, ledger = self.deps, self.ledger
        self.urgent = UrgentCommands(
            ledger=ledger,
            lanes=self.lanes,
            agents=self.agents,
            channel=self.channel,
            resume=self.pause.resume,
            queue=self.queue,
            running=self._running,
            rights=self._rights,
        )
        enqueuer = Enqueuer(
            queue=self.queue,
            lanes=self.lanes,
            waiting_notices=self.waiting_notices,
            acks=self.acks,
            owner=self.owner,
            running=self._running,
            channel=self.channel,
        )
        self.inbox = Inbox(
            ledger,
            self.access,
            self.router,
            agents=self.agents,
            settings=self.settings,
            clock=deps.clock,
            migrations=self.migrations,
            urgent=self.urgent,
            enqueue=enqueuer.enqueue,
            channel=self.channel,
            ready=self.delivery.ready,
            alive=self._alive,
        )

    def _build_turns(self) -> None:
        deps, ledger = self.deps, self.ledger
        answering = Answering(
            ledger=ledger,
            read=self.inbox.read,
            channel=self.channel,
            clock=deps.clock,
            lanes=self.lanes,
            queue=self.queue,
            answered=self.acks.answered,
            signature=self._signature,
            post=self.post,
            manner=self._manner,
            held=self._secret_filter,
        )
        self.turns = TurnWorker(
            ledger=ledger,
            read=self.inbox.read,
            agents=self.agents,
            channel=self.channel,
            audience=self.router.audience,
            clock=deps.clock,
            lanes=self.lanes,
            queue=self.queue,
            answering=answering,
            rights=self._rights,
            running=self._running,
        )
        self.schedule = Scheduler(self.agents, deps.clock, reset=self._reset_due, sweep=self._sweep, backup=ledger.backup)

    def _build_operations(self) -> None:
        deps, ledger = self.deps, self.ledger
        self.agent_supervisor = AgentSupervisor(
            AgentParts(
                settings=self.settings,
                paths=deps.paths,
                env=deps.env,
                clock=deps.clock,
                random=deps.random,
                ledger=ledger,
                models=self.model_registry,
                outgoing_files=self.post.outgoing,
                notices=self.notices,
                tell_owner=self._tell_owner,
                policies=self.channel_supervisor.policies,
                formers=self.migrations.formers,
                busy=self.lanes.busy,
            ),
            self.agents,
            self.lanes,
            serving=deps.serving,
            look_again=self.schedule.look_again,
        )
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
        self.status = StatusHandlers(
            ledger=ledger,
            settings=self.settings,
            agents=self.agents,
            channels=self.channel_supervisor,
            health=self.delivery.troubles,
            lanes=self.lanes,
            pause=self.pause,
            reload=self.reload,
            notices=self.notices,
            audience=self.router.audience,
        )

    def _tell_owner(self, text: str) -> None:
        self.owner.say(text)

    def _settings_changed(self, former: Settings, settings: Settings) -> None:
        self.router.adopt(settings)
        if not (alike(former.models, settings.models) and alike(former.auth, settings.auth)):
            self.model_registry.adopt(settings.models, settings.auth)
        if not alike(former.session, settings.session):
            self.schedule.look_again()
        if self.deps.logs is not None:
            self.deps.logs.adopt(settings.logging)

    @classmethod
    async def open(cls, deps: Dependencies) -> Gateway:
        """Take the state lock and build everything, without serving yet.

        Raises:
            AlreadyRunning: another process has the state.
            StorageFailed, AgentError: a folder or the ledger cannot be used.
        """
        deps.paths.prepare()
        lock = StateLock.acquire(deps.paths.state / "gateway.lock", deps.holder())
        try:
            ledger = await SqliteLedger.open(deps.paths.state / "ledger.sqlite", deps.clock)
        except BaseException:  # also when cancelled: a lock that nobody holds on to must not stay
            lock.release()
            raise
        model_registry = open_registry(
            deps.settings, deps.paths, deps.env, clock=deps.clock, random=deps.random, learn=deps.learn
        )
        house = cls(deps, lock, ledger, model_registry)
        for notice in (*deps.notices, *([ledger.warning] if ledger.warning else [])):
            house.notices.report(notice)
        try:
            await house.agent_supervisor.open(deps.settings)
            if (
                ledger.warning is None
                and any(len(agent.store) for agent in house.agents.values())
                and not await ledger.took_any()
            ):
                house.notices.report(ledger_gone(ledger.path))
        except BaseException:  # the same, with all that was opened so far
            await house.close()
            raise
        return house

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until ``stop``. Interrupted turns are queued before any channel starts.

        Raises:
            HomebodyError: a service cannot start (its port is taken, say).
        """
        self.channel_supervisor.keep(self.terminal, Policy(local=True))
        if self.deps.serving:
            self._keep_platforms()
        starts = CrashLoopBreaker(self.deps.paths.state, self.deps.clock)
        if self.deps.serving and await asyncio.to_thread(starts.begin) >= TOO_OFTEN:
            self.pause.begin("crashes", OFTEN_CRASHED)
        self.notices.begin(partial(self.owner.say, waits=True))
        await self._take_up()
        try:
            await self._serve(started)
        except* HomebodyError as group:
            raise group.exceptions[0] from None
        if self.deps.serving:
            await asyncio.to_thread(starts.end)

    async def _serve(self, started: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.delivery.run()), group.create_task(self.channel_supervisor.run())]
            tasks += [group.create_task(service) for service in self._services()]
            waking = group.create_task(self.schedule.start(0 if self.deps.serving else ALONE_SECONDS))
            self.agent_supervisor.start()
            started()
            await self._closing.wait()
            waking.cancel()
            self.schedule.stop()
            await self._drain()
            for task in tasks:
                task.cancel()

    def stop(self) -> None:
        """End ``run`` gracefully: running turns may finish, waiting messages are kept for the next start."""
        self._closing.set()

    async def close(self) -> None:
        """Close everything and release the lock."""
        self.storage_retry.close()
        await self.agent_supervisor.close()
        await self.model_registry.close()
        await self.ledger.backup()
        await self.ledger.close()
        self.lock.release()

    def channel(self, place: ChatAddress) -> Channel:
        """Return the channel of a conversation; the terminal's if the channel was removed."""
        keeper = self.channel_supervisor.get(f"{place.channel}:{place.account}")
        return keeper.channel if keeper else self.terminal

    def _keeper(self, channel: Channel, policy: Policy) -> ChannelRunner:
        door = self.inbox.door(channel.name, channel.account)
        make = partial(ChannelRunner, menu=MENU, before=self._learn_tokens, tell_owner=self.owner.say)
        return make(channel, policy, door, self.deps.clock, self.deps.random)

    def _owner_keys(self, agent: str, place: ChatAddress, approved: Sequence[ApprovedSender]) -> set[str]:
        """Return the sessions in which the owner talks to an agent in a private conversation."""
        owners = self.access.owners_on(place.channel, place.account, approved)
        return {self.router.session_key(agent, place, owner) for owner in owners}

    async def _learn_tokens(self) -> None:
        """Called before a channel reconnects, because its token file may have changed."""
        if self.deps.serving:
            await asyncio.to_thread(self.deps.learn_all, self.settings.current)

    def _keep_platforms(self) -> None:
        from gateway.supervision.platforms import platforms

        for channel, policy in platforms(self.settings.current, self.deps.clock, self.deps.env):
            self.channel_supervisor.keep(channel, policy)
            for concern in concerns(f"{channel.name}:{channel.account}", policy):
                self.notices.tell(concern)

    def _services(self) -> list[Coroutine[Any, Any, None]]:
        if not self.deps.serving:
            return []
        from gateway.app.services import tcp_api, unix_api, watch

        state, env, status = self.deps.paths.state, self.deps.env, self.status.status
        calls = {
            **self.status.calls(),
            **PairingHandlers(self.ledger, self.access).calls(),
            **RouteHandlers(
                lambda: self.settings.current, lambda: self.router, self.access, self.channel_supervisor.policies
            ).calls(),
            **QueueHandlers(self.ledger, self.inbox.hand_out).calls(),
        }
        return [
            unix_api(state, calls, status=status, spending=self.ledger.spending, terminal=self.terminal),
            tcp_api(
                state, self.settings.current.gateway.under(env), status=status, channels=self.channel_supervisor, lock=self.lock
            ),
            watch(state, self.deps.clock, pause=self.pause, owner=self.owner, env=env, restart=self.deps.restart_on_stall),
            self.reload.watch(),
        ]

    async def _take_up(self) -> None:
        """Queue what the last process left: interrupted turns before waiting messages."""
        for turn in await self.ledger.turns.unfinished():
            self.lanes.submit(turn.session, InterruptedTurn(turn))
        for agent in self.agents.values():
            agent.take_up_unsaved(self.router.audience)
        await self.inbox.replay()

    async def _work(self, ticket: Ticket[Any]) -> None:
        with self.agent_supervisor.working(ticket.session) as may:
            if may:
                await self.turns.work(ticket)
            else:
                self.lanes.give_back(ticket.session, [ticket.item])

    async def _hold(self, session: str) -> None:
        await self.queue.hold(session)
        await self.agent_supervisor.hold(session)

    def _signature(self, arrived: RoutedMessage) -> str:
        """The agent's name at the beginning of a reply, where several agents answer."""
        several = not arrived.actor.local and len(self.router.answering(arrived.inbound.conversation)) > 1
        return f"**{self.agents[arrived.route.agent].profile.name}:** " if several else ""

    def _manner(self, place: ChatAddress, agent: RunningAgent) -> Manner:
        """How an agent's reply is split into blocks in a conversation."""
        settings = self.settings.current
        blocks = settings.messages.block_streaming
        return manner_of(blocks, settings.channels, agent.profile.blocks, place.channel, place.account)

    def _reset_due(self, agent: str, key: str) -> None:
        if not self.lanes.queued(key) and not any(ticket.session == key for ticket in self.lanes.running()):
            self.lanes.submit(key, ResetDue(agent, key))

    async def _sweep(self) -> None:
        await self.ledger.sweep()
        await self.post.sweep([agent.workspace.sandbox for agent in self.agents.values()])

    def _broken(self, ticket: Ticket[Any], error: Exception) -> None:
        if isinstance(error, StorageFailed):
            log.warning("a turn of %s failed: %s", ticket.session, error)
            self.storage_retry.met(ticket, error)
        else:
            log.error("a turn of %s failed: %s", ticket.session, error, exc_info=error)
        self.turns.report_failure(ticket.item, error, stopped=ticket.ending == "stop")

    def _alive(self, channel: str, account: str) -> None:
        keeper = self.channel_supervisor.get(f"{channel}:{account}")
        if keeper is not None:
            keeper.alive()

    async def _stop_terminal(self, place: ChatAddress) -> None:
        await self.urgent.stop_at(place)

    async def _drain(self) -> None:
        began = self.deps.clock.monotonic()
        late = await self.lanes.drain(DRAIN_SECONDS)
        if late:
            log.info("%d turns will be resumed at the next start", late)
        left = max(0.5, DRAIN_SECONDS - (self.deps.clock.monotonic() - began))
        await asyncio.gather(*(agent.settle(left, flushing=self.deps.serving) for agent in self.agents.values()))
        await self.delivery.drain(DELIVER_SECONDS)
