"""What the checks look at: the paths and settings of one installation, and the gateway that runs on them, if one does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from gateway.agents.memory_stores import owner_zone
from gateway.api import api_client
from gateway.base.errors import AlreadyRunning, GatewayNotResponding, SettingsError
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, StateLock, describe
from gateway.config.document import read_text
from gateway.config.load import Checked, check
from gateway.doctor.finding import NotChecked
from gateway.settings.root import AgentProfile, Settings

STARTING_SECONDS: Final = 5.0
"""How long a gateway that holds the lock may take until it listens."""
T = TypeVar("T")
P = ParamSpec("P")


async def in_thread(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Run a blocking function in a thread that the process does not wait for when it ends, as a disk that hangs may never answer."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    came: list[tuple[T | None, BaseException | None]] = []

    def work() -> None:
        try:
            came.append((function(*given, **named), None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
            came.append((None, error))
        with contextlib.suppress(RuntimeError):  # the loop was closed, as nobody waits any more
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=work, daemon=True, name="doctor").start()
    await done.wait()
    value, error = came[0]
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # a value of T, as there was no error


@dataclass(kw_only=True)
class Installation:
    """One installation, looked at once: what was read is kept. ``afresh`` returns it as it is now.

    ``env``: the environment of the command. ``cwd``: the folder that it was started in. ``offline``: no other machine is asked.
    """

    paths: Paths
    env: Mapping[str, str]
    cwd: Path
    offline: bool = False
    _asked: dict[str, asyncio.Task[Any]] = field(default_factory=dict, init=False, repr=False)

    def afresh(self) -> Installation:
        """Return the same installation, with nothing read yet."""
        return Installation(paths=self.paths, env=self.env, cwd=self.cwd, offline=self.offline)

    @cached_property
    def owner(self) -> int:
        """The user that the gateway runs as: this one, or for root the owner of the home folder."""
        us = os.geteuid()
        try:
            return self.paths.home.stat().st_uid if us == 0 else us
        except OSError:
            return us

    @cached_property
    def checked(self) -> Checked:
        """The settings file, checked. One that does not exist, unless it was named, is valid."""
        try:
            source = self.paths.config_file()
            text = read_text(source)
        except FileNotFoundError:
            return check("", source, self.env, self.paths)
        except SettingsError as unreadable:
            return Checked(None, unreadable.problems, (), {})
        return check(text, source, self.env, self.paths)

    @cached_property
    def has_settings_file(self) -> bool:
        """Whether there is a settings file."""
        names = [self.paths.chosen_config] if self.paths.chosen_config else self.paths.config_names()
        return any(os.path.lexists(name) for name in names)

    @cached_property
    def valid_settings(self) -> Settings | None:
        """The settings; None where they are not valid. A variable or file of a secret that is missing leaves that secret out."""
        found = self.checked
        wrong = [one for one in found.problems if not one.environment]
        return None if wrong or found.settings is None else found.settings.of_profile(self.paths.profile)

    @property
    def settings(self) -> Settings:
        """The settings. Raises NotChecked where they are not valid."""
        if self.valid_settings is None:
            raise NotChecked("the settings are not valid")
        return self.valid_settings

    @property
    def profiles(self) -> list[AgentProfile]:
        """The agents. Raises NotChecked."""
        return [self.settings.agent(agent) for agent in self.settings.agent_ids]

    @cached_property
    def holder(self) -> Holder | None:
        """The process that uses the state folder; None where none does. Its ``socket`` is empty for a conversation in a terminal."""
        return describe(self.paths.lock)

    @property
    def gateway_runs(self) -> bool:
        """Whether a gateway runs that can be asked: by itself, or for a conversation in a terminal."""
        return self.holder is not None and bool(self.holder.socket)

    @property
    def gateway_serves(self) -> bool:
        """Whether it serves the chat platforms and its port, which one for a conversation in a terminal does not."""
        return self.gateway_runs and self.holder is not None and not self.holder.conversation

    def local_time(self, moment: str) -> str:
        """Return an ISO 8601 timestamp as date and time in the owner's time zone; as it is where it cannot be read."""
        try:
            zone = owner_zone(self.settings.agent(self.settings.default_agent))
            return f"{datetime.fromisoformat(moment).astimezone(zone):%Y-%m-%d %H:%M}"
        except (ValueError, LookupError, NotChecked):
            return moment

    async def ask(self, call: str, **arguments: Any) -> Any:
        """Make a call to the running gateway. One that is starting is waited for. Raises HomebodyError."""
        began = asyncio.get_running_loop().time()
        while True:
            try:
                return await api_client.ask(self.paths.local, call, **arguments)
            except GatewayNotResponding:
                if asyncio.get_running_loop().time() - began > STARTING_SECONDS:
                    raise
            await asyncio.sleep(0.2)

    async def once(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """Return what ``make`` returns; it is called by the first check that needs it, and all others get the same."""
        if name not in self._asked:
            self._asked[name] = asyncio.ensure_future(make())
            self._asked[name].add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # also when nobody waits any more
        found: T = await asyncio.shield(self._asked[name])
        return found

    async def status(self) -> dict[str, Any] | None:
        """Return what the running gateway tells of itself; None where none runs. Raises HomebodyError."""
        if not self.gateway_runs:
            return None
        found: dict[str, Any] = await self.once("status", lambda: self.ask("status"))
        return found

    def refuse_root(self) -> None:
        """Raise NotChecked for root in the home of somebody else: what root opens there may leave files of root."""
        if os.geteuid() == 0 != self.owner:
            raise NotChecked("it belongs to another user; run the doctor as that user, without sudo")

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold the state for a moment, so that nobody else opens what is opened here. Raises NotChecked when somebody has it."""
        self.refuse_root()
        try:
            lock = await in_thread(StateLock.acquire, self.paths.lock)
        except AlreadyRunning:
            raise NotChecked("another Homebody process uses the state folder") from None
        try:
            yield
        finally:
            lock.release()
