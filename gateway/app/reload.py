"""Hot reload of settings.

Watches the settings file. Changes take effect for turns that start afterwards; a running turn keeps its settings. The owner is told
about keys that need a restart, and about an invalid file, which changes nothing. A platform account whose settings changed is
reconnected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import AgentError
from channels.errors import ChannelError
from channels.messages import CLIENT_CHANNELS
from channels.platform import Policy
from channels.protocol import Channel
from gateway.app.agent_factory import BuiltAgent
from gateway.app.agent_supervisor import AgentSupervisor
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError, SettingsError, UsageError, as_homebody_error
from gateway.base.paths import Paths
from gateway.config.load import load
from gateway.config.settings_file import copy_of, save_copy
from gateway.queue.lanes import Lanes
from gateway.routing.access import concerns
from gateway.settings.root import ChannelsSettings, Settings, SettingsStore
from gateway.supervision.channel_supervisor import ChannelSupervisor
from gateway.supervision.platforms import BrokenChannel, platforms
from memory.indexing.folder_watch import changes

if TYPE_CHECKING:
    from gateway.config.effective import Difference

log = logging.getLogger(__name__)

QUIET_MS = 300
"""Seconds without a change before the file is read, because editors write in several steps."""
EMPTY_SECONDS = 1.0
"""Seconds to wait for a file that was deleted or emptied to come back."""
FIRST_BACK_OFF_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 60.0
"""Seconds between reads while the file cannot be watched; also the longest back-off."""
COMMAND_SECONDS = 60.0
"""How long after the watch on the file a command that changed it may ask what came of the change."""
_OWN = frozenset(f"{name}:default" for name in CLIENT_CHANNELS)
"""Accounts that no section of the settings makes."""


class Reload:
    """Watches the settings file and applies changes.

    ``learn_secrets`` reads the secrets that settings hold (blocking); ``routers`` makes a router for settings.
    """

    def __init__(
        self,
        *,
        settings: SettingsStore,
        paths: Paths,
        env: Mapping[str, str],
        clock: SystemClock,
        agents: AgentSupervisor,
        channels: ChannelSupervisor,
        lanes: Lanes[Any],
        tell_owner: Callable[[str], None],
        learn_secrets: Callable[[Settings], None],
    ) -> None:
        self._settings = settings
        self._place = paths
        self._env = env
        self._clock = clock
        self._agents = agents
        self._channels = channels
        self._lanes = lanes
        self._tell_owner = tell_owner
        self._learn_secrets = learn_secrets
        self.runs: Callable[[str], bool] = lambda _: True
        """Whether an account is connected by this gateway, where several share them."""
        self._one_at_a_time = asyncio.Lock()
        self._waiting: tuple[str, ...] = ()
        self._complaint = ""
        self._noticed: tuple[float, tuple[str, ...]] = (0.0, ())
        """What was taken over last without a command that asked for it, and when (monotonic)."""
        self._tasks: set[asyncio.Task[None]] = set()
        source = paths.config_file()
        self._had_file = source.exists()
        self._had_settings = self._had_file and _says_something(source)

    async def for_command(self) -> dict[str, Any]:
        """Do the same as ``now`` for a command that changed the file, and name what the watch took over a moment before, too."""
        came = await self.now()
        moment, noticed = self._noticed
        self._noticed = (0.0, ())
        if noticed and self._clock.monotonic() - moment <= COMMAND_SECONDS:
            came["taken"] = list(dict.fromkeys([*noticed, *came["taken"]]))
        return came

    def facts(self) -> dict[str, Any]:
        """The keys that need a restart, and the error in the file, as JSON values."""
        return {"waiting": list(self._waiting), "complaint": self._complaint or None}

    async def watch(self) -> None:
        """Watch the file until cancelled. A failed watch is restarted after a back-off of at most a minute."""
        back_off = FIRST_BACK_OFF_SECONDS
        clock = self._clock
        while True:
            began = clock.monotonic()
            try:
                await self._watch()
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception
                log.warning("watching the settings file failed, restarting the watch: %s", error)
            if clock.monotonic() - began >= LOOK_AGAIN_SECONDS:
                back_off = FIRST_BACK_OFF_SECONDS
            await clock.sleep(back_off)
            back_off = min(back_off * 2, LOOK_AGAIN_SECONDS)
            await self._now_whatever_happens()

    def soon(self) -> None:
        """Schedule a reload."""
        task = asyncio.ensure_future(self._now_whatever_happens())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self) -> None:
        places = await asyncio.to_thread(self._places)
        names = {place.name for place in places}

        def wanted(_change: object, path: str) -> bool:
            return path.rsplit("/", 1)[-1] in names

        folders = {place.parent for place in places if place.parent.is_dir()}
        watch = changes(folders, wanted, step=QUIET_MS, recursive=False)
        async with aclosing(watch):
            async for _ in watch:
                await self._now_whatever_happens()

    async def _now_whatever_happens(self) -> None:
        try:
            taken = (await self.now())["taken"]
            if taken:
                self._noticed = (self._clock.monotonic(), tuple(taken))
        except Exception:  # a defect in a reload must not end a gateway that runs
            log.exception("the settings could not be applied")

    def _places(self) -> list[Path]:
        """The possible paths of the file; for a link, also its target."""
        paths = self._place
        named = [paths.chosen_config] if paths.chosen_config else paths.config_names()
        return [*named, *(place.resolve() for place in named if place.is_symlink())]

    async def now(self) -> dict[str, Any]:
        """Read the file and apply what can be applied. Returns the result as JSON values."""
        from gateway.config.effective import compare

        async with self._one_at_a_time:
            try:
                wanted = await self._wanted()
                difference = compare(self._settings.current, wanted)
                fresh = self._fresh_channels(difference.settings)
                newcomers = await self._agents.prepare(difference.settings)
            except (HomebodyError, AgentError, ChannelError) as wrong:
                return self._refused(as_homebody_error(wrong) or HomebodyError(str(wrong)))
            if self._complaint:
                log.info("the settings file is valid again")
                self._complaint = ""
            await self._take(difference, fresh, newcomers)
            await self._agents.look_again()
            self._tell_waiting(difference.waiting)
            return {"taken": list(difference.taken), **self.facts()}

    async def _wanted(self) -> Settings:
        loaded = await asyncio.to_thread(load, self._place, self._env)
        if self._had_file and not loaded.given:
            await self._clock.sleep(EMPTY_SECONDS)  # it may be about to be written
            loaded = await asyncio.to_thread(load, self._place, self._env)
        if self._had_file and loaded.source is None:
            raise HomebodyError(
                "the settings file is missing",
                where=str(self._place.config_file()),
                hint=f"Restore it from {copy_of(self._place.config_file(), self._place)}; until then the current settings stay.",
            )
        has_settings = loaded.source is not None and (
            bool(loaded.given) or await asyncio.to_thread(_says_something, loaded.source)
        )
        if self._had_settings and not has_settings:
            assert loaded.source is not None
            kept = copy_of(loaded.source, self._place)
            hint = f"Restore it from {kept}; until then the current settings stay. To use only defaults, restart me."
            raise HomebodyError("the settings file is empty", where=str(loaded.source), hint=hint)
        self._had_file, self._had_settings = loaded.source is not None, has_settings
        await asyncio.to_thread(
            self._learn_secrets, loaded.settings
        )  # first: also what waits for a restart, or is refused below
        for warning in loaded.warnings:
            log.warning("settings: %s", warning.as_text())
        await asyncio.to_thread(save_copy, loaded, self._place)
        return loaded.settings

    def _refused(self, wrong: HomebodyError) -> dict[str, Any]:
        """Keep the current settings, and tell the owner once until the file is valid again."""
        problems = wrong.problems if isinstance(wrong, SettingsError) else ()
        first = problems[0].as_text().splitlines()[0] if problems else wrong.as_text()
        log.warning("the settings file is invalid: %s", wrong.as_text())
        if not self._complaint:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            self._tell_owner(
                f"⚠️ The settings file was changed and is invalid: {first}{more}. I keep using the previous settings; "
                "`homebody config validate` lists all errors."
            )
        self._complaint = first
        return {"taken": [], **self.facts()}

    def _tell_waiting(self, waiting: tuple[str, ...]) -> None:
        fresh = [key for key in waiting if key not in self._waiting]
        self._waiting = waiting
        if fresh:
            log.info("these settings take effect after a restart: %s", ", ".join(waiting))
            self._tell_owner(f"⚙️ The settings were changed. These take effect after a restart: {', '.join(fresh)}.")

    def _fresh_channels(self, settings: Settings) -> dict[str, tuple[Channel, Policy]]:
        """Create the channels of all platforms.

        Raises UsageError for an unknown tool group, and, during a reload, for a changed plugin channel that cannot be created: the
        running channel is kept then. At a start such a channel is listed as broken.
        """
        from gateway.config.effective import alike

        former = self._settings.current
        if alike(former.channels, settings.channels):
            return {}
        found = list(platforms(settings, self._clock, self._env, self._place.state))
        for channel, _ in found:
            before, now = (channels.plugins.get(channel.name) for channels in (former.channels, settings.channels))
            if isinstance(channel, BrokenChannel) and not alike(before, now):
                raise UsageError(channel.why, where=f"channels.plugins.{channel.name}", hint=channel.hint)
        return {f"{channel.name}:{channel.account}": (channel, policy) for channel, policy in found}

    async def _take(
        self, difference: Difference, fresh: dict[str, tuple[Channel, Policy]], newcomers: Sequence[BuiltAgent]
    ) -> None:
        from gateway.config.effective import alike

        former, settings = self._settings.current, difference.settings
        self._settings.replace(settings)
        if not difference.taken:
            await self._agents.dismiss(newcomers)  # a lease brings them
            return
        log.info("settings applied: %s", ", ".join(difference.taken))
        busy = {ticket.session for ticket in self._lanes.running()}
        self._agents.adopt(settings, newcomers, busy)
        if not alike(former.channels, settings.channels):
            await self._exchange(former.channels, settings.channels, fresh)

    async def _exchange(
        self, former: ChannelsSettings, now: ChannelsSettings, fresh: dict[str, tuple[Channel, Policy]]
    ) -> None:
        """Reconnect the accounts whose settings changed. New access rules take effect immediately."""
        fresh = {name: one for name, one in fresh.items() if self.runs(name)}

        def stays(name: str) -> bool:
            return name in _OWN or (name in fresh and _same_account(former, now, name))

        for name, runner in self._channels.items():
            if not stays(name) and name in fresh:
                runner.policy = fresh[name][1]
        await asyncio.gather(*(self._channels.let_go(name) for name in list(self._channels) if not stays(name)))
        for name, (channel, policy) in fresh.items():
            if not stays(name) and name not in self._channels and self.runs(name):  # a lease may have come or gone meanwhile
                self._channels.keep(channel, policy)
                for concern in concerns(name, policy):
                    log.warning(concern)


def _same_account(former: ChannelsSettings, now: ChannelsSettings, name: str) -> bool:
    """Return whether nothing changed for ``channel:account``, including what it inherits from its platform."""
    from gateway.config.effective import alike

    platform, _, account = name.partition(":")
    before, after = former.section(platform), now.section(platform)
    if before is None or after is None:
        return before is after
    try:
        return alike(before.account(account), after.account(account))
    except KeyError:  # it came or went
        return False


def _says_something(file: Path) -> bool:
    """Whether a settings file is not empty. An emptied file is treated as a mistake, not as a wish for all defaults."""
    try:
        return bool(file.read_bytes().strip())
    except OSError:
        return False
