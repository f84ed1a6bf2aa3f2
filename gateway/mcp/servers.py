"""The servers of the settings: their connections, their pins, and what is asked of them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.timing import Clock
from gateway.base.errors import StorageFailed, UsageError
from gateway.mcp.connection import Connection
from gateway.mcp.errors import McpError, ServerFailed
from gateway.mcp.offer import Offer, ToolOffer
from gateway.mcp.pins import FOLDER, Pin, PinStore
from gateway.settings.mcp_settings import McpServer, McpSettings, plain

if TYPE_CHECKING:
    from gateway.mcp.confinement import Confinement
    from gateway.mcp.mcp_session import Address
    from gateway.mcp.stdio import Program

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/current-system/sw/bin"
"""Where programs are searched, unless ``env`` of the server says otherwise."""
STEP_SECONDS: Final = 30.0
"""How long connecting to a server over HTTP, or sending to it, may take."""

log = logging.getLogger(__name__)


@dataclass
class Server:
    """One server: its settings, its connection, and what was approved of it."""

    name: str
    settings: McpServer
    connection: Connection
    pin: Pin | None = None

    def facts(self) -> dict[str, Any]:
        """Return its state, how many of its tools can be used, what waits to be approved, and what went wrong last."""
        connection, pin = self.connection, self.pin
        state = "running" if connection.running else "failing" if connection.failures else "stopped" if pin else "not pinned"
        return {
            "state": state,
            "tools": len(self.tools),
            "difference": pin.difference.in_words if pin is not None else "",
            "error": connection.last_error if connection.failures else "",
        }

    @property
    def tools(self) -> tuple[ToolOffer, ...]:
        """The approved tools that the settings allow, sorted by name."""
        if self.pin is None:
            return ()
        allow, deny = self.settings.allow, self.settings.deny
        return tuple(
            tool
            for tool in self.pin.approved.tools
            if any(fnmatchcase(tool.name, one) for one in allow) and not any(fnmatchcase(tool.name, one) for one in deny)
        )


class McpServers:
    """All servers of the settings that are enabled. ``tell`` says a line to the owner; ``now`` is the time for pins.

    ``version`` changes with what agents can be told of the servers.
    """

    def __init__(self, settings: McpSettings, state: Path, clock: Clock, tell: Callable[[str], None]) -> None:
        self._state = state
        self._clock = clock
        self._tell = tell
        self._pins = PinStore(state)
        self._confinement: Confinement | None = None
        self._servers: dict[str, Server] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()
        self.version = 0
        self.adopt(settings)

    def __iter__(self) -> Any:
        """Iterate over the servers, by name."""
        return iter([self._servers[name] for name in sorted(self._servers)])

    def adopt(self, settings: McpSettings) -> None:
        """Go by other settings: connections of servers that changed are closed, in the background."""
        wanted = {name: one for name, one in settings.servers.items() if one.enabled}
        for name, server in list(self._servers.items()):
            if wanted.get(name) != server.settings:
                del self._servers[name]
                task = asyncio.get_running_loop().create_task(server.connection.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        for name, one in wanted.items():
            if name not in self._servers:
                self._servers[name] = self._made(name, one)
        self.version += 1

    def get(self, name: str) -> Server:
        """Return a server. Raises UsageError where there is none, or it is off."""
        if name not in self._servers:
            known = ", ".join(sorted(self._servers)) or "none"
            raise UsageError(f"there is no MCP server {name!r} that is enabled", hint=f"There is: {known}. `homebody mcp list`")
        return self._servers[name]

    def of(self, agent: str, default: str) -> list[Server]:
        """Return the servers that an agent may use, by name."""
        return [server for server in self if server.settings.serves(agent, default)]

    async def pin_new(self) -> None:
        """Ask servers that were never pinned what they offer, all at once. What fails is logged."""

        async def ask(server: Server) -> None:
            try:
                await server.connection.relist()
            except McpError as error:
                log.warning("%s", error)

        await asyncio.gather(*(ask(server) for server in self if server.pin is None))

    async def test(self, name: str) -> Server:
        """Connect to a server at once, whatever failed before, and ask what it offers. Raises UsageError, McpError."""
        server = self.get(name)
        await server.connection.restart()
        await server.connection.relist()
        return server

    def approve(self, name: str, digest: str = "") -> tuple[Server, str]:
        """Approve what a server offered last, and return it with what changed. ``digest``: the beginning of that offer's digest.

        Raises:
            UsageError: there is no such server, nothing waits to be approved, or what waits is something else.
        """
        server = self.get(name)
        pin = server.pin
        if pin is None or pin.waiting is None:
            raise UsageError(
                f"nothing of the MCP server {name} waits to be approved",
                hint=f"homebody mcp test {name} asks it what it offers",
            )
        if not pin.waiting.digest.startswith(digest.casefold()):
            raise UsageError(
                f"the MCP server {name} offers something else by now", hint=f"Look again: homebody mcp show {name}"
            )
        difference = pin.difference.in_words
        server.pin = self._pins.approve(name, server.settings, pin.waiting, self._clock.now(), legacy=pin.legacy)
        self.version += 1
        return server, difference

    def forget(self, name: str) -> bool:
        """Delete the pin of a server that was removed, and say whether there was one."""
        return self._pins.forget(name)

    async def close(self) -> None:
        """Close all connections; takes a few seconds at most."""
        await asyncio.gather(*(server.connection.close() for server in self._servers.values()), *self._closing)

    def _made(self, name: str, settings: McpServer) -> Server:
        pin = self._pins.get(name, settings)
        connection = Connection(
            name,
            place=partial(self._place, name, settings),
            clock=self._clock,
            offered=partial(self._offered, name),
            start_seconds=settings.start_timeout_sec,
            idle_seconds=settings.idle_minutes * 60,
            legacy=pin is not None and pin.legacy,
        )
        return Server(name, settings, connection, pin)

    def _place(self, name: str, settings: McpServer) -> Program | Address:
        """Return what to connect to. Blocking; loads the MCP library."""
        from gateway.mcp.mcp_session import Address
        from gateway.mcp.stdio import Program

        if settings.url is not None:
            headers: Mapping[str, str] = {key: plain(value) for key, value in settings.headers.items()}
            if settings.bearer_token is not None:
                headers = {**headers, "Authorization": f"Bearer {settings.bearer_token.get_secret_value()}"}
            return Address(url=settings.url, headers=headers, seconds=STEP_SECONDS)
        folder = self._state / FOLDER / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        cwd = Path(settings.cwd).expanduser() if settings.cwd is not None else folder
        if not cwd.is_dir():
            raise ServerFailed(
                f"the MCP server {name} cannot start in {cwd}: there is no such folder", hint=f"Set mcp.servers.{name}.cwd"
            )
        command = os.path.expanduser(settings.command or "")  # noqa: PTH111 -- a name without a folder stays one
        argv, env = (command, *settings.args), environment(settings, folder)
        plan = self._confined(name, settings, argv, env, cwd) if settings.sandbox == "bwrap" else ""
        return Program(argv=argv, env=env, cwd=str(cwd), plan=plan)

    def _confined(self, name: str, settings: McpServer, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> str:
        """Return the plan that confines a program. Raises ServerFailed."""
        from gateway.mcp.confinement import Confinement

        if self._confinement is None:
            self._confinement = Confinement(self._state.parent)
        return self._confinement.plan(name, settings, argv, env, cwd)

    async def _offered(self, name: str, offer: Offer, legacy: bool) -> None:
        """Compare what a server offers with its pin. The first offer is pinned; the owner is asked about what is new or changed."""
        server = self._servers.get(name)
        if server is None:
            return
        former = server.pin
        try:
            if server.pin is None:
                server.pin = await asyncio.to_thread(
                    self._pins.approve, name, server.settings, offer, self._clock.now(), legacy=legacy
                )
                log.info("the MCP server %s offers %d tools, which are pinned", name, len(offer.tools))
            else:
                server.pin = await asyncio.to_thread(self._pins.record_offer, name, server.pin, offer)
        except StorageFailed as error:
            raise ServerFailed(f"what the MCP server {name} offers cannot be recorded: {error}", hint=error.hint) from error
        if server.pin is not former:
            self.version += 1
        self._ask(name, server.pin)

    def _ask(self, name: str, pin: Pin) -> None:
        """Ask the owner about what waits, once for each offer."""
        waiting = pin.waiting
        if waiting is None or waiting.digest in self._told:
            return
        self._told.add(waiting.digest)
        self._tell(
            f"🔐 The MCP server {name} offers something else than you approved ({shortened(pin.difference.in_words)}). What is new or "
            f"changed cannot be used until you approve it. Look at it: /mcp {name} or `homebody mcp show {name}`. "
            f"Approve it: /mcp approve {name} {waiting.digest[:8]}"
        )


def shortened(text: str, most: int = 600) -> str:
    """Return a text of limited length."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def environment(server: McpServer, home: Path) -> dict[str, str]:
    """Return the whole environment of a server's program."""
    usual = {"PATH": PATH, "HOME": str(Path.home()), "LANG": "C.UTF-8", "TMPDIR": str(home)}
    return {**usual, **{name: plain(value) for name, value in server.env.items()}}


def when(pin: Pin) -> datetime:
    """Return when a pin was made."""
    return datetime.fromisoformat(pin.at)
