"""A gateway of a cluster: it works for the agents and accounts whose leases it holds, and gives them up in order or ends at once.

A lease that is lost ends the process: nothing of its memory can be relied on any more, and everything that is not finished is in the
database. It starts itself again, and shares the work from then on (``begin_anew``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from channels.messages import CLIENT_CHANNELS
from gateway.app.cluster_joining import Joined, digest_of
from gateway.app.dependencies import Dependencies
from gateway.base.errors import StorageFailed
from gateway.cluster.cells import ACCOUNT, AGENT, accounts_in, agents_in, cells_of
from gateway.cluster.directory import Directory
from gateway.cluster.lease_keeper import LeaseKeeper
from gateway.cluster.leases import Cell, Lease
from gateway.cluster.listening import listen
from gateway.cluster.postgres_leases import Member
from gateway.cluster.settings_marks import marks_of
from gateway.cluster.workspace_standing import PostgresStandings
from gateway.settings.root import Settings
from gateway.supervision.connected_elsewhere import ConnectedElsewhere
from gateway.supervision.platforms import platforms

if TYPE_CHECKING:
    from channels.protocol import Channel

log = logging.getLogger(__name__)

DATABASE_PAUSE: Final = 1.0
ADDRESS_VARIABLE: Final = "HOMEBODY_CLUSTER_ADDRESS"
SETTINGS: Final = "settings"
RULES: Final = "rules"
TROUBLE: Final = "trouble"
"""The notices of changed settings, of changed lasting rules, and of a gateway that cannot work or can again: others may share its disk."""
TOLD: Final = "told:"
"""Begins a notice about something else than rows of the ledger."""
RETIRE_TRIES: Final = 10
"""How often, a lease apart, it is seen whether agents that the settings no longer name have been given up."""
GIVE_UP_SECONDS: Final = 8.0
"""How long running turns may take when everything is given up in order."""
REST_SECONDS: Final = 30.0
"""How long running turns may take at a gateway that cannot work: then another one resumes them."""
STUCK_SECONDS: Final = 120.0
"""How long such a gateway may take in all to give up a cell."""
KEPT_SECONDS: Final = 30.0
"""After so long it is tried again to hand over what could not be."""


def begin_anew(why: str) -> None:
    """End everything that this process does, at once, and start it again."""
    log.error("%s: this gateway stops what it does and starts again", why)
    with contextlib.suppress(OSError):  # the log's own lines may not be written any more
        os.write(2, f"{why}: this gateway starts again\n".encode())
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 -- this very program


async def _nothing_hinders(_agents: Sequence[str]) -> str:
    return ""


@dataclass(frozen=True)
class Work:
    """What is done when a cell is taken, given up, when others stored something for it, and when they tell of something (``told``).

    ``leave`` is told how many seconds running turns may take at most. ``hindrance`` returns why agents cannot be given up, "" if they can.
    """

    take: Callable[[Sequence[str], Sequence[str]], Awaitable[None]]
    leave: Callable[[Sequence[str], Sequence[str], float | None], Awaitable[None]]
    arrived: Callable[[], Awaitable[None]]
    to_send: Callable[[], None]
    told: Callable[[str], None] = lambda _: None
    hindrance: Callable[[Sequence[str]], Awaitable[str]] = _nothing_hinders


def _shared(account: str) -> bool:
    """Whether an account needs a lease, also one that the settings have only now: those of platforms do."""
    return account.partition(":")[0] not in CLIENT_CHANNELS


class ClusterMember:
    """Keeps the leases of this gateway, and has work begin and end by them. ``work`` is set before ``run``."""

    work: Work

    def __init__(self, deps: Dependencies, joined: Joined, lost: Callable[[str], None]) -> None:
        self._deps = deps
        self._joined = joined
        self._settings = deps.settings
        self._seconds = deps.settings.cluster.lease_seconds
        self._lost_lease = lost
        self.keeper = LeaseKeeper(
            joined.leases,
            joined.leases.member.name,
            self._seconds,
            taken=self._taken,
            leave=self._leave,
            lost=lambda token: lost(f"the lease on {token} is lost"),
            rests=self._decided,
        )
        self._cells: tuple[Cell, ...] = ()
        self._active: list[Cell] = []
        self._here: set[str] = set()
        self._leaving: set[str] = set()
        self._changed = asyncio.Event()
        self._look = asyncio.Event()
        self._draining = False
        self._why = ""
        self._rests: bool | None = None
        self._kept: dict[Cell, float] = {}
        self.decided: Callable[[bool], None] = lambda _: None
        """Called when it is known whether this gateway, which cannot work, rests."""
        self.kept: Callable[[str, str], None] = lambda _tokens, _why: None
        """Called with what such a gateway cannot hand over, and why."""
        self._found_address = ""
        self._marks: dict[str, str] | None = None
        self._elsewhere: dict[str, ConnectedElsewhere] = {}
        self.directory = Directory(joined.connect, joined.leases.member.name)
        self._retiring: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def member(self) -> Member:
        """How it appears to the others."""
        return self._joined.leases.member

    def here(self, agent: str) -> bool:
        """Return whether messages for an agent are handled in this process now."""
        return f"{AGENT}{agent}" in self._here

    def ours(self, agent: str) -> bool:
        """Return whether this gateway holds an agent, also while it takes or leaves it."""
        return any(f"{AGENT}{agent}" in cell for cell in self._active)

    def holds(self, token: str) -> bool:
        """Return whether work for an agent or account is done in this process now."""
        return token in self._here

    def known(self, token: str) -> bool:
        """Return whether an agent or account is one that the gateways share."""
        return any(token in cell for cell in self._cells)

    def sends(self, account: str) -> bool:
        """Return whether something may be sent on an account at this very moment."""
        return not _shared(account) or self.keeper.held(f"{ACCOUNT}{account}") is not None

    def runs(self, account: str) -> bool:
        """Return whether an account is connected by this gateway."""
        return not _shared(account) or f"{ACCOUNT}{account}" in self._here

    def unconnected(self, account: str) -> Channel | None:
        """Return what is known of an account that another gateway connects, so that messages are queued for it."""
        return self._elsewhere.get(account)

    def accounts(self) -> list[str]:
        """Return the accounts of all gateways."""
        return [name for cell in self._cells for name in accounts_in(cell)]

    async def adopt(self, settings: Settings) -> None:
        """Share the agents and accounts of these settings from now on."""
        self._settings = settings
        found = platforms(settings, self._deps.clock, self._deps.env, self._deps.paths.state)
        channels = {f"{channel.name}:{channel.account}": channel for channel, _ in found}
        self._elsewhere = {name: ConnectedElsewhere(channel) for name, channel in channels.items()}
        self._cells = cells_of(settings, channels)
        self._joined.leases.member = replace(self.member, address=self._address(), settings=digest_of(settings))
        while True:
            try:
                await self._joined.leases.add([token for cell in self._cells for token in cell])
                break
            except StorageFailed as error:
                log.warning("%s", error)
                await asyncio.sleep(DATABASE_PAUSE)
        self.keeper.want(self._cells)
        self._retire_soon([token for cell in self._cells for token in cell])
        await self._tell_of_settings(settings)

    def reached_at(self, address: str) -> None:
        """Tell the others where this gateway is reached, where neither the environment nor the settings say so."""
        self._found_address = address
        self._joined.leases.member = replace(self.member, address=self._address())
        self.keeper.want(self._cells)

    async def _tell_of_settings(self, settings: Settings) -> None:
        """Let the others compare these settings with theirs, and read their file again where it is another one than before."""
        try:
            marks = await asyncio.to_thread(marks_of, settings, await self.directory.marking_secret())
            await self.directory.mark(marks, self._cells)
        except StorageFailed as error:
            log.warning("the settings of this gateway cannot be compared with those of others: %s", error)
            return
        former, self._marks = self._marks, marks
        if former is not None and former != marks:
            await self.tell(SETTINGS)

    async def tell(self, what: str) -> None:
        """Have all gateways of the cluster told of something. What cannot be told is logged."""
        try:
            await self.directory.tell(self._settings.storage.schema_name, f"{TOLD}{what}")
        except StorageFailed as error:
            log.warning("the other gateways were not told of a change (%s): %s", what, error)

    def _address(self) -> str:
        return self._deps.env.get(ADDRESS_VARIABLE, "").strip() or self._settings.cluster.address or self._found_address

    def tell_soon(self, what: str) -> None:
        """The same as ``tell``, in the background."""
        task = asyncio.ensure_future(self.tell(what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _retire_soon(self, wanted: list[str]) -> None:
        """Forget what the settings no longer name, once whoever holds it has ended its work."""

        async def retire() -> None:
            for _ in range(RETIRE_TRIES):
                await asyncio.sleep(self._seconds)
                with contextlib.suppress(StorageFailed):
                    if not await self._joined.leases.retire(wanted):
                        return

        if self._retiring is not None:
            self._retiring.cancel()
        self._retiring = asyncio.create_task(retire())

    def adopt_soon(self, settings: Settings) -> None:
        """The same, in the background."""
        task = asyncio.ensure_future(self.adopt(settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Hold leases and have the work done until cancelled."""
        with contextlib.suppress(ValueError):  # not in the main thread, as in tests
            signal.signal(signal.SIGCONT, lambda *_: self._woken())
        await self.adopt(self._settings)
        channel = self._deps.settings.storage.schema_name
        async with asyncio.TaskGroup() as group:
            group.create_task(self.keeper.run())
            group.create_task(listen(self._joined.connect, channel, self._heard, self._look.set))
            group.create_task(self._follow())
            group.create_task(self._take_in())

    async def drain(self, seconds: float = GIVE_UP_SECONDS) -> bool:
        """Give everything up in order; return whether that was done within the time."""
        self._draining = True
        return await self.keeper.empty(seconds)

    def rest(self, why: str) -> None:
        """Say why this gateway cannot work, with "" that it can. What it holds goes to others, if there are any that can."""
        if why == self._why:
            return
        if not why or not self._why:
            self.tell_soon(TROUBLE)
        if not why:
            log.info("this gateway works again, and takes its part")
            self._rests = None
            self._kept.clear()
        self._why = why
        self.keeper.rest(why)

    def _decided(self, rests: bool) -> None:
        if rests == self._rests or not self._why:
            return
        self._rests = rests
        goes_on = "it gives up what it holds, as others work" if rests else "no other one does, so that it keeps what it holds"
        log.info("this gateway cannot work (%s): %s", self._why, goes_on)
        self.decided(rests)

    def standings(self) -> PostgresStandings:
        """Return where it is kept how far the workspaces have come."""
        return PostgresStandings(self._joined.leases, self.member.name)

    async def close(self) -> None:
        """Close the connections."""
        if self._retiring is not None:
            self._retiring.cancel()
        await self.directory.close()
        await self._joined.leases.close()

    def facts(self) -> dict[str, Any]:
        """Return what is held here, as JSON values."""
        return {"gateway": self.member.label, "holds": sorted(token for cell in self._active for token in cell)}

    def _woken(self) -> None:
        """Called when the process goes on after it was stopped: before anything else it looks whether it is late."""
        for cell in self._active:
            for token in cell:
                if self.keeper.held(token) is None:
                    self._lost_lease(f"the lease on {token} ended while this process stood still")

    def _taken(self, _lease: Lease) -> None:
        self._changed.set()

    def _leave(self, token: str) -> None:
        self._leaving.add(token)
        self._changed.set()

    def _heard(self, payload: str) -> None:
        if payload.startswith(TOLD):
            self.work.told(payload.removeprefix(TOLD))
        elif payload.startswith(ACCOUNT):
            self.work.to_send()
        else:
            self._look.set()

    async def _follow(self) -> None:
        """Take and leave cells, one after the other."""
        while True:
            self._changed.clear()
            for cell in [cell for cell in self._active if self._leaving.intersection(cell)]:
                if self._rests and not self._draining and await self._is_kept(cell):
                    continue
                try:
                    await self._give_up(cell)
                except Exception as error:  # whatever it is: what is in memory is not known to be stored
                    if not isinstance(error, StorageFailed):
                        log.exception("%s could not be given up", ", ".join(cell))
                    self._lost_lease(f"{', '.join(cell)} could not be given up in order: {error}")
            for token in self._leaving - self._at_work():  # others may have been asked for while one was given up
                self._leaving.discard(token)
                self.keeper.left(token)
            for cell in self._cells:
                whole = all(self.keeper.held(token) is not None for token in cell)
                if whole and not (self._at_work() | self._leaving).intersection(cell) and not self._draining:
                    await self._begin(cell)
            await self._changed.wait()

    def _at_work(self) -> set[str]:
        return {token for cell in self._active for token in cell}

    async def _begin(self, cell: Cell) -> None:
        log.info("this gateway takes %s", ", ".join(cell))
        self._active.append(cell)
        try:
            await self.work.take(agents_in(cell), accounts_in(cell))
        except Exception as error:  # whatever is wrong with one cell: another gateway may do better
            if isinstance(error, StorageFailed):
                log.warning("%s could not be taken: %s", ", ".join(cell), error)
                await asyncio.sleep(DATABASE_PAUSE)
            else:
                log.exception("%s could not be taken", ", ".join(cell))
            self._leaving.update(cell)
            self._changed.set()

    def open_to(self, agents: Sequence[str], accounts: Sequence[str]) -> None:
        """Handle the messages of these agents from now on, and connect these accounts."""
        self._here |= {f"{AGENT}{one}" for one in agents} | {f"{ACCOUNT}{one}" for one in accounts}

    async def _is_kept(self, cell: Cell) -> bool:
        """Return whether a cell has to stay though this gateway rests: what is not stored elsewhere could be lost."""
        now = asyncio.get_running_loop().time()
        if now >= self._kept.get(cell, 0.0):
            try:
                why = await self.work.hindrance(agents_in(cell))
            except Exception as error:  # whatever it is: nobody knows that all is stored
                log.exception("it is not known whether %s can be given up", ", ".join(cell))
                why = str(error)
            if not why:
                self._kept.pop(cell, None)
                return False
            if cell not in self._kept:
                log.warning("%s cannot be given up: %s", ", ".join(cell), why)
                self.kept(", ".join(agents_in(cell)), why)
            self._kept[cell] = asyncio.get_running_loop().time() + KEPT_SECONDS
        for token in cell:
            self._leaving.discard(token)
            self.keeper.stay(token)
        return True

    async def _give_up(self, cell: Cell) -> None:
        log.info("this gateway gives up %s", ", ".join(cell))
        self._here.difference_update(cell)
        async with asyncio.timeout(STUCK_SECONDS if self._rests else None):
            await self.work.leave(agents_in(cell), accounts_in(cell), REST_SECONDS if self._rests else None)
        self._active.remove(cell)
        for token in cell:
            self._leaving.discard(token)
            self.keeper.left(token)
        log.info("%s is given up", ", ".join(cell))

    async def _take_in(self) -> None:
        """Take in what others stored for agents that are here."""
        while True:
            await self._look.wait()
            self._look.clear()
            try:
                await self.work.arrived()
                self.work.to_send()
            except StorageFailed as error:
                log.warning("what others stored is looked for again: %s", error)
                await asyncio.sleep(DATABASE_PAUSE)
                self._look.set()
