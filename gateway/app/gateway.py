"""One running gateway: opened, served until it is stopped, and closed.

Gateway.open    settings -> lock, ledger, agents, channels, lanes (``gateway.app.parts`` builds and connects them)
Gateway.run     serve until ``stop``: deliveries and channels in one TaskGroup, interrupted turns first
Gateway.close   close everything in the opposite order
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from channels.platform import Policy
from gateway.app.admin_calls import admin_calls
from gateway.app.backups import restored_notice
from gateway.app.dependencies import Dependencies
from gateway.app.disk_parts import DiskParts
from gateway.app.parts import GatewayParts
from gateway.backup.versions import refuse_later
from gateway.base import heap
from gateway.base.errors import HomebodyError, StorageFailed, first_of
from gateway.base.home_lock import lock_of
from gateway.base.lean_import import leaving_out
from gateway.base.state_lock import StateLock
from gateway.ledger.open_ledger import ledger_gone
from gateway.models.model_registry import ModelRegistry, open_registry
from gateway.routing.access import concerns
from gateway.routing.router import agent_of
from gateway.storage.open_storage import Storage, open_storage
from gateway.supervision.crash_loop import CRASHED_SHORT, OFTEN_CRASHED, TOO_OFTEN, CrashLoopBreaker
from gateway.turns.worker import InterruptedTurn

with leaving_out("watchfiles.run"):  # restarting of processes, with multiprocessing
    import watchfiles  # noqa: F401 -- by which the memory and the settings file are watched

if TYPE_CHECKING:
    from gateway.api.routes.admin import Call
    from gateway.app.cluster_joining import Joined
    from gateway.app.cluster_member import ClusterMember
    from gateway.app.forwarding import ForwardingParts

log = logging.getLogger(__name__)

DRAIN_SECONDS = 8.0
"""Seconds for running turns at shutdown; together with the deliveries afterwards, less than the 10 s of Docker's default."""
DELIVER_SECONDS = 1.5
SETTLED_SECONDS = 5.0
"""Seconds after the start by which most of what stays for good was made."""
ALONE_SECONDS = 5.0
"""The scheduler takes a while to load, and a gateway that is opened for a single question ends before it needs it."""
SANDBOX_TRIED_AFTER = 15.0
"""The trial of the sandbox starts some processes, and can wait until the gateway has started."""
SANDBOX_TRIED_AGAIN_AFTER = 60.0
"""Where the system was too short of descriptors, memory or processes for a trial."""


class Gateway(GatewayParts):
    """The parts of one gateway, and how they live."""

    def __init__(self, deps: Dependencies, lock: StateLock, storage: Storage, model_registry: ModelRegistry) -> None:
        super().__init__(deps, storage, model_registry)
        self.lock = lock
        self.cluster: ClusterMember | None = None
        self.forwarding: ForwardingParts | None = None
        self._starts = CrashLoopBreaker(deps.paths.local, deps.clock)
        self._disk = DiskParts(deps, self.settings, self.pause, notices=self.notices, owner=self.owner)
        self._closing = asyncio.Event()

    @classmethod
    async def open(cls, deps: Dependencies) -> Gateway:
        """Take the state lock and build everything, without serving yet.

        Raises:
            AlreadyRunning: another process has the state.
            StorageFailed, AgentError: a folder or the ledger cannot be used.
        """
        deps.paths.prepare()
        await asyncio.to_thread(refuse_later, deps.paths.home)
        lock = lock_of(deps.paths, deps.holder())
        try:
            joined = None
            if deps.settings.cluster.enabled:
                from gateway.app.cluster_joining import join

                joined = await deps.once_storage_answers(partial(join, deps), lock.write)
                storage = joined.storage
            else:
                storage = await deps.once_storage_answers(partial(_storage, deps), lock.write)
        except BaseException:  # also when cancelled: a lock that nobody holds on to must not stay
            lock.release()
            raise
        model_registry = open_registry(
            deps.settings, deps.paths, deps.env, clock=deps.clock, random=deps.random, learn=deps.learn
        )
        ledger = storage.ledger
        gateway = cls(deps, lock, storage, model_registry)
        if joined is not None:
            gateway.share(joined)
        for notice in (*deps.notices, *([ledger.warning] if ledger.warning else [])):
            gateway.notices.report(notice)
        try:
            await gateway.agent_supervisor.open(deps.settings)
            if (
                ledger.warning is None
                and any(len(agent.store) for agent in gateway.agents.values())
                and not await ledger.took_any()
            ):
                gateway.notices.report(ledger_gone(ledger.where))
        except BaseException:  # the same, with all that was opened so far
            await gateway.close()
            raise
        return gateway

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Serve until ``stop``. Interrupted turns are queued before any channel starts.

        Raises:
            HomebodyError: a service cannot start (its port is taken, say).
        """
        self.channel_supervisor.keep(self.terminal, Policy(local=True))
        if self.deps.serving:
            if self.cluster is None:
                self._keep_platforms(lambda _: True)
            self.api.begin()
            self.page.begin()
            await self.metrics.begin()
        starts = self._starts
        if self.deps.serving and await asyncio.to_thread(starts.begin) >= TOO_OFTEN:
            self.pause.begin("crashes", OFTEN_CRASHED, short=CRASHED_SHORT, known=starts.owner_knows)
            for text in self.pause.words("crashes"):
                self.owner.when_stored(f"⚠️ {text}", starts.record_owner_told)
        self.pause.resumed = starts.resumed
        self.notices.begin(partial(self.owner.say, waits=True))
        if self.cluster is not None:  # one whose disk is full is not to take what others work for
            await asyncio.to_thread(self._disk.guard.check)
        await self._take_up()
        try:
            await self._serve(started)
        except* HomebodyError as group:
            raise first_of(group) from None
        if self.deps.serving:
            await asyncio.to_thread(starts.end)

    async def _serve(self, started: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.delivery.run()), group.create_task(self.channel_supervisor.run())]
            tasks += [group.create_task(service) for service in self._services()]
            if self.cluster is not None:
                tasks += [group.create_task(self.cluster.run()), group.create_task(self.agent_supervisor.bring_left())]
            waking = group.create_task(self._begin_schedule())
            self.agent_supervisor.start()
            started()
            # A full collection stops every thread for up to 200 ms; what is there for good need not be looked through.
            settled = asyncio.get_running_loop().call_later(SETTLED_SECONDS, self._settle)
            await self._closing.wait()
            settled.cancel()
            waking.cancel()
            self.schedule.stop()
            await self._drain()
            if self.cluster is not None:
                await self.cluster.drain()
            for task in tasks:
                task.cancel()

    def _settle(self) -> None:
        gc.freeze()
        asyncio.get_running_loop().run_in_executor(None, heap.give_back)

    async def _begin_schedule(self) -> None:
        """Begin work on a schedule, after the API, for which people and service managers wait."""
        if self.deps.serving:
            await asyncio.to_thread(import_module, "gateway.app.services")
        await self.schedule.start(0 if self.deps.serving else ALONE_SECONDS)

    def stop(self) -> None:
        """End ``run`` gracefully: running turns may finish, waiting messages are kept for the next start."""
        self._closing.set()

    async def close(self) -> None:
        """Close everything and release the lock."""
        self.storage_retry.close()
        await self.backups.close()
        await self.automation.close()
        await self.mail_watch.close()
        await self.mail.close()
        await self.mcp.close()
        await self.commands.close()
        await self.agent_supervisor.close()
        await self.model_registry.close()
        await self.sandbox.close()
        self._closed.close()
        await self.metrics.close()
        if self.forwarding is not None:
            await self.forwarding.close()
        if self.cluster is not None:
            await self.cluster.close()
        await self.ledger.backup()
        await self.storage.close()
        self.lock.release()

    def _keep_platforms(self, wanted: Callable[[str], bool]) -> None:
        from gateway.supervision.platforms import platforms

        for channel, policy in platforms(self.settings.current, self.deps.clock, self.deps.env, self.deps.paths.state):
            if not wanted(f"{channel.name}:{channel.account}"):
                continue
            self.channel_supervisor.keep(channel, policy)
            for concern in concerns(f"{channel.name}:{channel.account}", policy):
                self.notices.tell(concern)

    def _services(self) -> list[Coroutine[Any, Any, None]]:
        if not self.deps.serving:
            return [self._unix_api()] if self.deps.shared else []
        from gateway.app.services import tcp_api, watch

        state, env = self.deps.paths.state, self.deps.env
        return [
            self._unix_api(),
            tcp_api(
                state,
                self.deps.paths.local,
                lambda: self.settings.current.gateway.under(env),
                api=self.api,
                metrics=self.metrics,
                page=self.page,
                calls=self.own_calls,
                learn=self.deps.learn,
                status=self.status.status,
                channels=self.channel_supervisor,
                hooks=self.automation.hooks.receiver,
                elsewhere=self.elsewhere,
                lock=self.lock,
                forwarding=self.forwarding,
                terminal=self.terminal,
            ),
            watch(self._disk.guard, env, restart=self.deps.restart_on_stall),
            self.reload.watch(),
            self._try_sandbox(),
            # in a cluster another gateway may have the owner's chat by the time it is told
            *([self.outage.watch()] if self.deps.settings.storage.url is not None and self.cluster is None else []),
        ]

    async def _unix_api(self) -> None:
        """Serve commands and terminals. What that needs is loaded in a thread, because a conversation does not wait for it."""
        await asyncio.to_thread(import_module, "gateway.app.services")
        from gateway.app.services import unix_api

        await unix_api(
            self.deps.paths.local,
            self.calls(),
            status=self.status.status,
            terminal=self.terminal,
            forwarding=self.forwarding,
        )

    def calls(self) -> dict[str, Call]:
        """The owner's calls by name, for ``POST /admin/CALL``; in a cluster for all agents of it."""
        return self.own_calls() if self.forwarding is None else self.forwarding.calls()

    def own_calls(self) -> dict[str, Call]:
        """The owner's calls by name, for what this gateway holds."""
        calls = admin_calls(self)
        if self.forwarding is not None:
            calls |= {"cluster.drain": self._drain_cluster, **self.forwarding.own_calls()}
        return calls

    async def _drain_cluster(self, seconds: float) -> dict[str, Any]:
        assert self.cluster is not None
        empty = await self.cluster.drain(seconds)
        asyncio.get_running_loop().call_later(0.2, self.stop)  # the answer goes out first
        return {"empty": empty}

    async def _try_sandbox(self) -> None:
        """Find out how commands are confined some time after the start, so that the first one need not wait for it."""
        await self.deps.clock.sleep(SANDBOX_TRIED_AFTER)
        for agent in self.settings.current.agent_ids:
            standing = await self.sandbox.standing(agent)
            while self.sandbox.known_standing(agent) is None and agent in self.settings.current.agent_ids:
                await self.deps.clock.sleep(SANDBOX_TRIED_AGAIN_AFTER)
                standing = await self.sandbox.standing(agent)
            if standing.rung == "off":
                log.warning("commands of %s are not confined: %s %s", agent, standing.reason, standing.hint)

    async def _take_up(self) -> None:
        """Queue what the last process left: interrupted turns before waiting messages. Suspended ones wait on, but not too long."""
        self.commands.begin()
        once = self.deps.once_storage_answers  # it may be restarted at this very moment
        await once(self.groups.load)
        if self.deps.serving and (restored := await once(self.ledger.begin_restored)) is not None:
            self.notices.report(restored_notice(restored))
        if self.cluster is None:
            await self._take_up_turns(list(self.agents))
        await once(self.automation.begin)
        self.mail.begin()
        if self.deps.serving:
            self.mail_watch.begin()
        self.mcp.begin()
        if self.cluster is None:
            await self.inbox.replay()

    async def _take_up_turns(self, agents: Collection[str]) -> None:
        await self.subagents.service.begin(agents)
        for turn in await self.ledger.turns.unfinished():
            if self.cluster is None or turn.agent in agents:
                self.lanes.submit(turn.session, InterruptedTurn(turn))
        await self.approvals.decisions.expire()
        for agent in agents:
            self.agents[agent].take_up_unsaved(self.router.audience)

    def share(self, joined: Joined) -> None:
        """Work for those agents and accounts alone whose leases this gateway holds."""
        from gateway.app.cell_work import CellWork
        from gateway.app.cluster_member import GIVE_UP_SECONDS, ClusterMember, Work
        from gateway.app.forwarding import ForwardingParts
        from gateway.app.workspace_sharing import WorkspaceSharing

        cluster = self.cluster = ClusterMember(self.deps, joined, self._lost_lease)
        self.forwarding = ForwardingParts(
            cluster,
            lambda: self.settings.current,
            page=self.page,
            hooks=self.automation.hooks.receiver,
            router=lambda: self.router,
            own_calls=self.own_calls,
            owner=self.owner,
            decisions=self.approvals.decisions,
        )
        cells = CellWork(
            self.ledger,
            agents=self.agent_supervisor,
            channels=self.channel_supervisor,
            groups=self.groups,
            inbox=self.inbox,
            mail_watch=self.mail_watch,
            jobs=self.automation.jobs,
            take_up_turns=self._take_up_turns,
            connect=self._keep_platforms,
            open_to=cluster.open_to,
        )
        cluster.work = Work(cells.take, cells.leave, cells.arrived, self.delivery.look, self._told, self.workspaces.hindrance)
        self._share_pause(cluster, self.forwarding)
        self.page.across, self.page.opened = self.forwarding.page_calls, self.forwarding.page_opened
        self.api.elsewhere = self.forwarding.request
        self.agent_supervisor.ours = self.workspaces.held = cluster.ours
        self.workspaces.settle_seconds = GIVE_UP_SECONDS
        self.workspaces.sharing = WorkspaceSharing(
            cluster.member.label, cluster.standings(), partial(self.owner.say, waits=True)
        )
        self.reload.runs = cluster.runs
        self.mail_watch.here = self.automation.jobs.here = cluster.here
        self.delivery.may_send = cluster.sends
        self.inbox.share(cluster.here)
        self.elsewhere, self.outbound.unconnected = cluster.accounts, cluster.unconnected
        self._share_rules(cluster)
        self.leads = lambda: cluster.here(self.settings.current.default_agent)
        self.settings.subscribe(lambda _former, settings: cluster.adopt_soon(settings))

    def _share_pause(self, cluster: ClusterMember, forwarding: ForwardingParts) -> None:
        """Let others take over while this gateway cannot work."""
        pause, name = self.pause, cluster.member.label
        pause.name, pause.changed, pause.everywhere = name, cluster.rest, forwarding.resume
        cluster.decided = lambda rests: pause.decide(rests=rests)

        def kept(tokens: str, why: str) -> None:
            pause.keeps = True
            self.owner.say(f"⚠️ {name} cannot work, and cannot hand {tokens} over to another gateway: {why}", waits=True)

        cluster.kept = kept
        self.storage_retry.here = lambda session: cluster.ours(agent_of(session))

    def _share_rules(self, cluster: ClusterMember) -> None:
        """Let no two gateways change the lasting rules at once, and the others read them again."""
        from gateway.app.cluster_member import RULES
        from gateway.cluster.database_lock import database_lock

        loop, stored = asyncio.get_running_loop(), self.rules.stored
        stored.guard = partial(database_lock, self.settings.current.storage, "rules")

        def changed() -> None:
            loop.call_soon_threadsafe(cluster.tell_soon, RULES)

        stored.changed = changed

    def _told(self, what: str) -> None:
        from gateway.app.cluster_member import RULES, SETTINGS, TROUBLE

        assert self.forwarding is not None
        if what == RULES:
            self.rules.stored.look_again()
        if what == SETTINGS:
            self.reload.soon()
        if what == TROUBLE:
            self._disk.guard.soon()
        self.forwarding.heard(what)

    def _lost_lease(self, why: str) -> None:
        """End all work at once and start this program again, which is no crash."""
        from gateway.app.cluster_member import begin_anew
        from gateway.cluster.own_end import leave_end

        self._starts.end()
        if self.cluster is not None:
            leave_end(self.deps.paths.local, self.cluster.member.name)
        with suppress(StorageFailed):
            self.lock.write(replace(self.deps.holder(), restarts=True))
        begin_anew(why)

    async def _drain(self) -> None:
        began = self.deps.clock.monotonic()
        late = await self.lanes.drain(DRAIN_SECONDS)
        if late:
            log.info("%d turns will be resumed at the next start", late)
        left = max(0.5, DRAIN_SECONDS - (self.deps.clock.monotonic() - began))
        await asyncio.gather(*(agent.settle(left, flushing=self.deps.serving) for agent in self.agents.values()))
        await asyncio.gather(self.delivery.drain(DELIVER_SECONDS), self.workspaces.settle(DELIVER_SECONDS))


async def _storage(deps: Dependencies) -> Storage:
    return await open_storage(deps.paths, deps.settings.storage, deps.clock, committed=deps.telemetry.commit_seconds.add)
