"""Keeps all channels running: each is restarted with back-off when it fails, and can be replaced while the others run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal, cast

from channels.errors import ChannelBroken
from channels.messages import CLIENT_CHANNELS, ChatAddress
from channels.platform import Policy
from channels.protocol import Channel, Hooked, InboundSink, Menu, MenuEntry
from gateway.base.clock import SystemClock
from gateway.base.wait import wait_until_set
from gateway.outbound.delivery import Delivery

log = logging.getLogger(__name__)

LET_GO_SECONDS = 5.0
"""Seconds that a send in progress may delay the end of its channel."""


class ChannelSupervisor(Mapping[str, "ChannelRunner"]):
    """The runners by ``channel:account``. ``make`` builds that of a channel; ``instead`` returns what stands for a channel without one."""

    def __init__(
        self,
        make: Callable[[Channel, Policy], ChannelRunner],
        delivery: Delivery,
        instead: Callable[[ChatAddress], Channel],
    ) -> None:
        self._make = make
        self._instead = instead
        self._delivery = delivery
        self._kept: dict[str, ChannelRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._gone: list[Channel] = []
        self._group: asyncio.TaskGroup | None = None

    def __getitem__(self, name: str) -> ChannelRunner:
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def channel(self, place: ChatAddress) -> Channel:
        """Return the channel of a conversation."""
        runner = self._kept.get(f"{place.channel}:{place.account}")
        return self._instead(place) if runner is None else runner.channel

    def keep(self, channel: Channel, policy: Policy) -> None:
        """Add a channel; it starts now, or when ``run`` starts."""
        name = f"{channel.name}:{channel.account}"
        self._kept[name] = self._make(channel, policy)
        self._delivery.attach(channel)
        if self._group is not None:
            self._begin(name, self._group)

    def restart(self, name: str) -> None:
        """Restart a channel, whether it is off, waiting or running. Raises KeyError for an unknown one."""
        self._kept[name].restart()

    async def let_go(self, name: str) -> None:
        """Stop and remove a channel: sends in progress may finish, other outgoing messages wait. Without one nothing happens.

        As long as it receives, it is here with its policy: what comes in meanwhile is from whom it was. New settings and a lease that is
        given up may let go of one at the same time: each returns when it has ended.
        """
        runner = self._kept.get(name)
        if runner is None:
            return
        async with runner.ending:
            if self._kept.get(name) is not runner:
                return
            await self._delivery.let_go(runner.channel.name, runner.channel.account, LET_GO_SECONDS)
            task = self._tasks.pop(name, None)
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            if self._kept.get(name) is runner:
                del self._kept[name]
            self._gone.append(runner.channel)

    async def run(self) -> None:
        """Run all channels until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for name in self._kept:
                    self._begin(name, group)
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            for channel in self._gone:  # a turn that was under way may have used it once more
                await _ended(channel, channel.close())

    def alive(self, channel: str, account: str) -> None:
        """Note that the platform was heard on an account."""
        runner = self._kept.get(f"{channel}:{account}")
        if runner is not None:
            runner.alive()

    def policies(self) -> dict[tuple[str, str], Policy]:
        """The access policies by channel and account."""
        return {(runner.channel.name, runner.channel.account): runner.policy for runner in self._kept.values()}

    def working(self) -> Mapping[str, ChannelRunner]:
        """The channels that are not off."""
        return {name: runner for name, runner in self._kept.items() if not runner.broken}

    def facts(self) -> dict[str, Any]:
        """The state of each channel as JSON values."""
        return {name: runner.facts() for name, runner in self._kept.items()}

    def _begin(self, name: str, group: asyncio.TaskGroup) -> None:
        runner = self._kept[name]
        self._tasks[name] = group.create_task(_ended(runner.channel, runner.run()), name=f"channel {name}")


async def _ended(channel: Channel, work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:
        # a failure while closing must not end the gateway
        log.exception("%s:%s did not close cleanly", channel.name, channel.account)


FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
BROKEN_PAUSE = 300.0
"""Seconds between attempts of a channel that is off: the error may have been fixed at the platform, without notice to us."""
SILENT = "Check the network (test now: `homebody channels status --probe`). The gateway keeps retrying."


class ChannelRunner:
    """One channel, its state, and its access policy.

    ``menu``: the commands it may offer. ``before`` is awaited before each run, to reread the token file.
    ``tell_owner`` gets a line for the owner when the channel is off; it is sent on another channel.
    """

    def __init__(
        self,
        channel: Channel,
        policy: Policy,
        sink: InboundSink,
        clock: SystemClock,
        random: Random,
        *,
        menu: Sequence[MenuEntry] = (),
        before: Callable[[], Awaitable[None]] | None = None,
        tell_owner: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.channel = channel
        self.policy = policy
        self.ending = asyncio.Lock()
        """Held by who lets it go."""
        self._menu = menu
        self._tell_owner = tell_owner
        self._before = before
        self._running = False
        self._again = asyncio.Event()
        self._told_owner = ""
        self._sink = sink
        self._clock = clock
        self._random = random
        self._state = "starting"
        self.connections = 0
        """How often it was connected."""
        self._trouble = ""
        self._hint = ""
        self._heard = ""
        self._since = clock.monotonic()

    def alive(self) -> None:
        """Note that the platform sent something."""
        if self._state != "connected":
            self.connections += 1
        if self._state != "connected" and self.channel.name not in CLIENT_CHANNELS:
            known_as = getattr(self.channel, "known_as", "")
            name = f"{self.channel.name}:{self.channel.account}"
            log.info("%s is connected%s", name, f" as {known_as}" if known_as else "")
        self._state = "connected"
        self._trouble = self._hint = self._told_owner = ""
        self._heard = self._clock.now().isoformat(timespec="seconds")
        self._since = self._clock.monotonic()

    def facts(self) -> dict[str, Any]:
        """The state as JSON values. It is "silent" if the platform cannot be reached, or sends regular heartbeats and they stopped."""
        remarks: Any = getattr(self.channel, "remarks", list)
        facts: dict[str, Any] = {"state": self._state, "heard": self._heard or None}
        if lines := list(remarks()):
            facts["remarks"] = lines
        if self._state == "connected" and (away := getattr(self.channel, "away", "")):
            return facts | {"state": "silent", "trouble": away, "mend": SILENT}
        silent = self._clock.monotonic() - self._since
        if self._state in {"starting", "connected"} and silent > getattr(self.channel, "silence", silent):
            trouble = f"The platform has been silent for {silent:.0f} seconds; outgoing messages wait."
            return facts | {"state": "silent", "trouble": trouble, "mend": SILENT}
        trouble = self._trouble or getattr(self.channel, "trouble", "")
        return facts | ({"trouble": trouble, "mend": self._hint} if trouble else {})

    @property
    def broken(self) -> bool:
        """Whether it is off: its owner must act; until then it is retried at long intervals."""
        return self._state == "broken"

    @property
    def hook(self) -> Hooked | Literal["unknown", "not running"]:
        """The channel, if it receives webhooks and is running."""
        hooked: Any = self.channel
        if not getattr(hooked, "hooked", False):
            return "unknown"
        return cast("Hooked", hooked) if self._running else "not running"

    def restart(self) -> None:
        """Restart the channel, or end its pause."""
        self._again.set()

    async def run(self) -> None:
        """Run the channel until cancelled."""
        pause = FIRST_PAUSE
        try:
            await self._prepare()
            await self._offer_menu()
            while True:
                began = self._clock.monotonic()
                if await self._run_once():
                    return
                if self._clock.monotonic() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                wait = BROKEN_PAUSE if self.broken else pause * (0.5 + self._random.random())
                if await wait_until_set(self._again, self._clock, wait):
                    self._again.clear()
                    pause = FIRST_PAUSE
                await self._prepare()
                pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            await self.channel.close()

    async def _run_once(self) -> bool:
        """Run it until it ends or is to be restarted. Returns whether it is finished for good."""
        name = f"{self.channel.name}:{self.channel.account}"
        self._running = True
        try:
            await self._until_asked_to_begin_anew()
        except ChannelBroken as broken:
            self._off(name, broken)
            return bool(getattr(self.channel, "absent", False))
        except Exception as error:
            # a defect in one channel must not end the gateway: it is reported, and the channel restarts
            self._state, self._trouble = "restarting", f"{type(error).__name__}: {error}"
            log.exception("%s failed and is being restarted", name)
            task = asyncio.current_task()
            return task is not None and task.cancelling() > 0  # what failed while it was ended is not begun anew
        finally:
            self._running = False
        return False

    async def _until_asked_to_begin_anew(self) -> None:
        work = asyncio.ensure_future(self.channel.run(self._sink))
        again = asyncio.ensure_future(self._again.wait())
        try:
            await asyncio.wait((work, again), return_when=asyncio.FIRST_COMPLETED)
        finally:
            again.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait((work,))
        if not work.cancelled():
            await work

    def _off(self, name: str, broken: ChannelBroken) -> None:
        """Report the error and its hint, once as long as they stay the same."""
        again = f"It reconnects within {BROKEN_PAUSE / 60:.0f} minutes, or immediately with: homebody channels restart {name}"
        hint = f"{broken.hint.rstrip('.')}. {again}" if broken.hint else again
        if getattr(self.channel, "absent", False):
            hint = broken.hint
        self._state, self._trouble, self._hint = "broken", str(broken), hint
        text = f"{name} is off: {ChannelBroken(str(broken), hint=hint).in_full()}"
        if text != self._told_owner:
            self._told_owner = text
            log.error("%s", text)
            self._tell_owner(f"⚠️ {text}")

    async def _prepare(self) -> None:
        if self._before is not None:
            await self._before()

    async def _offer_menu(self) -> None:
        """Set the command menu of a channel that has one."""
        offer: Any = getattr(self.channel, "menu", None)
        if offer is None or not self._menu:
            return
        try:
            await cast("Menu", self.channel).menu(self._menu)
        except Exception as error:  # noqa: BLE001  (a menu is a convenience: whatever is wrong with it, messages go on)
            log.warning("could not set the menu of %s:%s: %s", self.channel.name, self.channel.account, error)
