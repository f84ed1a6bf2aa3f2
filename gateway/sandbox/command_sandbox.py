"""The sandbox of a gateway: which means confines whose commands, by the settings and by what works on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from agent.tool_settings import ExecSettings
from agent.tools.protocol import Origin
from gateway.base.paths import Paths
from gateway.sandbox import command
from gateway.sandbox.limits import limits_of, rlimits
from gateway.sandbox.protocol import SHORTAGES, CannotConfine, Confined, Limits, Request, Rung, Standing, Tried
from gateway.settings.root import AgentProfile, Settings

if TYPE_CHECKING:
    from gateway.sandbox import places
    from gateway.sandbox.bubblewrap import Bubblewrap
    from gateway.sandbox.landlock import Landlock

log = logging.getLogger(__name__)

Choice = str


class CommandSandbox:
    """Implements `Sandbox` (protocol.py) for all agents of one installation. ``settings`` returns those in force."""

    def __init__(self, paths: Paths, settings: Callable[[], Settings]) -> None:
        self._paths = paths
        self._settings = settings
        self._trying = asyncio.Lock()
        self._tried: dict[str, Tried] = {}
        self._bubblewrap: Bubblewrap | None = None
        self._landlock: Landlock | None = None
        self._tmp: dict[str, str] = {}

    async def standing(self, agent: str, *, main: bool = True) -> Standing:
        """Say how that agent's commands are confined now. With rung "off" every command has to be asked for."""
        choice = self._choice(self._settings().agent(agent), main=main)
        tried: dict[str, Tried] = {}
        if choice in ("auto", "bwrap"):
            tried["bwrap"] = await self._try("bwrap", self._try_bubblewrap)
        if choice == "landlock" or (choice == "auto" and not tried["bwrap"].works):
            tried["landlock"] = await self._try("landlock", self._try_landlock)
        return _judge(choice, tried)

    def known_standing(self, agent: str, *, main: bool = True) -> Standing | None:
        """Say what `standing` would, without waiting for a trial; None when that has not ended, or there is no such agent."""
        if agent not in self._settings().agent_ids:
            return None
        choice = self._choice(self._settings().agent(agent), main=main)
        needed = {"auto": ("bwrap",), "bwrap": ("bwrap",), "landlock": ("landlock",), "off": ()}[choice]
        if any(name not in self._tried for name in needed):
            return None
        if choice == "auto" and not self._tried["bwrap"].works and "landlock" not in self._tried:
            return None
        return _judge(choice, self._tried)

    def confined(self, agent: str, origin: Origin) -> bool:
        """Return whether an agent's commands are known to be confined in turns of this origin."""
        standing = self.known_standing(agent, main=origin == "owner")
        return standing is not None and standing.rung != "off"

    async def tried(self, agent: str, origin: Origin) -> None:
        """Wait until it is known how an agent's commands are confined in turns of this origin."""
        if agent in self._settings().agent_ids:
            await self.standing(agent, main=origin == "owner")

    async def confine(self, request: Request) -> Confined:
        """Say how to start one command. Raises CannotConfine where that is not possible as the settings ask."""
        return await self._confined(request)

    async def _confined(self, request: Request, more: tuple[str, ...] = ()) -> Confined:
        standing = await self.standing(request.agent, main=request.main)
        if not standing.usable:
            raise CannotConfine(standing.reason, where="tools.exec.sandbox", hint=standing.hint)
        profile = self._settings().agent(request.agent)
        limits = request.limits or limits_of(profile.exec.limits)
        if standing.rung == "off":
            return self._unconfined(request, limits)
        given = self._places(profile)
        given = replace(given, readable=(*given.readable, *more, *request.readable))
        if standing.rung == "bwrap" and self._bubblewrap is not None:
            return self._bubblewrap.confine(request, given, limits)
        assert self._landlock is not None
        present = await asyncio.to_thread(_threads)
        return self._landlock.confine(
            request, given, limits, tmp=self._tmp_of(request.agent), processes=present + limits.processes
        )

    async def explain(self, agent: str) -> dict[str, Any]:
        """Describe what a command of that agent can see, write, reach and use, as JSON values, for each origin of a turn."""
        from gateway.sandbox import explain

        profile = self._settings().agent(agent)
        owner, others = await self.standing(agent), await self.standing(agent, main=False)
        given = self._places(profile)
        return explain.explanation(profile, owner=owner, others=others, given=given, refused=self._refused(profile))

    async def check(self, agent: str) -> dict[str, Any]:
        """Run the canaries as commands of that agent, and unconfined beside it: what each of them saw, as JSON values."""
        from gateway.sandbox.check import check

        standing = await self.standing(agent)
        own = self._settings().agent(agent)
        confined: dict[str, str] = {}
        problem = standing.reason if standing.rung == "off" else ""
        if not problem:
            found = await check(partial(self._trial, own), closed=self._closed())
            confined, problem = found.seen, found.error
        bare = await check(None, closed=self._closed())
        names = list(confined or bare.seen)
        return {
            "agent": agent,
            "rung": standing.rung,
            "holds": standing.rung != "off" and not problem and not any(confined.values()),
            "problem": problem,
            "hint": standing.hint,
            "canaries": {name: {"confined": confined.get(name), "unconfined": bare.seen.get(name, "")} for name in names},
        }

    async def _trial(self, own: AgentProfile, request: Request) -> Confined:
        """Confine a request of the check as one of that agent, whose Python may be read besides."""
        from gateway.sandbox.check import interpreter

        return await self._confined(replace(request, agent=own.id), more=interpreter()[1])

    async def close(self) -> None:
        """Remove the folders for temporary files."""
        for folder in self._tmp.values():
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        self._tmp.clear()

    def _choice(self, profile: AgentProfile, *, main: bool) -> Choice:
        """What the settings ask for. ``sandbox.mode`` speaks where ``tools.exec.sandbox`` leaves it open."""
        asked, mode = profile.exec.sandbox, profile.settings.sandbox.mode
        unconfined = mode == "off" or (mode == "non-main" and main)
        return "off" if asked == "auto" and unconfined else asked

    async def _try(self, name: str, trial: Callable[[], Awaitable[Tried]]) -> Tried:
        """Return what came of trying it. That is kept, unless the system was short of something."""
        async with self._trying:
            if name in self._tried:
                return self._tried[name]
            try:
                tried = await trial()
            except (OSError, subprocess.SubprocessError) as error:  # a program that cannot be run, or one that hangs
                lasting = not isinstance(error, OSError) or error.errno not in SHORTAGES
                tried = Tried(works=False, reason=f"trying it failed: {error}", lasting=lasting)
            if tried.lasting:
                self._tried[name] = tried
            log.info("commands: %s %s", name, "works" if tried.works else f"cannot be used: {tried.reason}")
            return tried

    async def _try_bubblewrap(self) -> Tried:
        from gateway.sandbox.probe import try_bubblewrap

        self._bubblewrap, tried = await try_bubblewrap(self._closed())
        return tried

    async def _try_landlock(self) -> Tried:
        from gateway.sandbox.probe import try_landlock

        tmp = await asyncio.to_thread(tempfile.mkdtemp, prefix="homebody-try-")
        try:
            self._landlock, tried = await try_landlock(tmp, self._closed())
        finally:
            await asyncio.to_thread(shutil.rmtree, tmp, ignore_errors=True)
        return tried

    def _closed(self) -> list[str]:
        """The folders of this installation that the trial command must not see."""
        settings = self._settings()
        return [str(Path.home()), str(self._paths.home), *(str(settings.agent(name).workspace) for name in settings.agent_ids)]

    def _places(self, profile: AgentProfile) -> places.Places:
        from gateway.sandbox import places

        refused = self._refused(profile)
        return places.Places(
            readable=tuple(path for path in _wanted(profile.exec) if path not in refused), hidden=self._hidden(profile)
        )

    def _refused(self, profile: AgentProfile) -> dict[str, str]:
        """Those of the wanted folders that are not given, with the reason."""
        from gateway.sandbox import places

        hidden = (*self._hidden(profile), str(profile.workspace))
        why = {path: places.why_not_readable(path, hidden, str(Path.home())) for path in _wanted(profile.exec)}
        return {path: reason for path, reason in why.items() if reason}

    def _hidden(self, profile: AgentProfile) -> tuple[str, ...]:
        """What must stay unseen wherever it lies: state, settings, and the other agents' workspaces unless they hold this one."""
        settings, own = self._settings(), os.path.realpath(profile.workspace)
        others = (str(settings.agent(name).workspace) for name in settings.agent_ids if name != profile.id)
        apart = (other for other in others if not command.below(own, os.path.realpath(other)))
        return (str(self._paths.home), str(self._paths.config_file()), *apart)

    def _unconfined(self, request: Request, limits: Limits) -> Confined:
        """A command that sees everything that the gateway's user does, but for the gateway's environment."""
        env = command.environment(
            request, home=str(Path.home()), tmp=tempfile.gettempdir(), path=os.environ.get("PATH", command.PATH)
        )
        folder = self._tmp_of(request.agent) if request.access == "none" else command.folder(request)
        return Confined(rung="off", argv=command.command_line(request), env=env, cwd=folder, rlimits=rlimits(limits))

    def _tmp_of(self, agent: str) -> str:
        folder = self._tmp.get(agent)
        if folder is None or not os.path.isdir(folder):
            folder = self._tmp[agent] = os.path.realpath(tempfile.mkdtemp(prefix="homebody-tmp-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)  # where `close` is not reached
        return folder


def _judge(choice: Choice, trials: Mapping[str, Tried]) -> Standing:
    if choice == "off":
        return Standing(rung="off", reason="the settings switch it off (tools.exec.sandbox, sandbox.mode)")
    if choice in ("bwrap", "landlock"):
        tried = trials[choice]
        rung: Rung = "bwrap" if choice == "bwrap" else "landlock"
        return Standing(rung=rung if tried.works else "off", reason=tried.reason, hint=tried.hint, usable=tried.works)
    best = trials["bwrap"]
    if best.works:
        return Standing(rung="bwrap", reason=best.reason, hint=best.hint)
    second = trials["landlock"]
    reasons = [best.reason, *(() if second.works else (second.reason,))]
    return Standing(rung="landlock" if second.works else "off", reason="; ".join(reasons), hint=best.hint)


def _wanted(said: ExecSettings) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.expanduser(path) for path in (*said.read_paths, *said.path_prepend)))


def _threads() -> int:
    """Count the threads of this user, which is what the kernel's limit on processes counts."""
    found = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                found += len(os.listdir(f"/proc/{name}/task"))
    return found
