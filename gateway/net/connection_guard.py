"""The connection guard: judges every address of a host before connecting, and connects to a judged one. Loads the HTTP library.

It is the network backend of each connection, so there is no way around it: whatever the layers above pass, a name is looked up once,
here, and the connection goes to an address that this look-up gave. TLS still checks the certificate against the name.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, ip_address
from typing import Final, Protocol, TypeAlias

import httpcore2

from agent.errors import FetchFailed, FetchRefused
from gateway.net.ip_addresses import IPAddress, own_host_refusal, parsed, refusal, same_site
from gateway.net.targets import Target

Judge: TypeAlias = Callable[[IPAddress], str | None]
"""Says what kind of address it is that may not be connected to; None for one that may."""
CONNECT_SECONDS: Final = 8.0
TRIED: Final = 3
"""How many of a host's addresses are tried."""


class Network(Protocol):
    """What the guard needs of a network."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Return all addresses of a name, the preferred one first. Raises OSError where there is none."""
        ...

    def source_of(self, address: IPAddress) -> IPAddress | None:
        """Return the address of this machine from which a connection would start; None if it is not known. Sends nothing."""
        ...

    async def connect(self, address: str, port: int, seconds: float | None) -> httpcore2.AsyncNetworkStream:
        """Connect to an address. Raises httpcore2's errors."""
        ...


class SystemNetwork:
    """The operating system's network."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Ask the system's resolver, in a thread of its own: one that hangs keeps neither the executor nor the end of the process."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def ask() -> None:
            found: list[str] | Exception
            try:
                found = [str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
            except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
                found = error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(tell, found)

        def tell(found: list[str] | Exception) -> None:
            if answer.done():
                return
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
        return await answer

    def source_of(self, address: IPAddress) -> IPAddress | None:
        """Ask the routing table, by an unconnected datagram socket."""
        family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((str(address), 9))
                return ip_address(str(probe.getsockname()[0]).partition("%")[0])
        except OSError:
            return None

    async def connect(self, address: str, port: int, seconds: float | None) -> httpcore2.AsyncNetworkStream:
        """Connect."""
        return await httpcore2.AnyIOBackend().connect_tcp(address, port, timeout=seconds)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to the host of one target, and to nothing else.

    ``judge`` replaces the judgement of addresses: tests switch it off, to see that requests get through without it.
    """

    def __init__(self, network: Network, target: Target, *, judge: Judge | None = None) -> None:
        self._network = network
        self._target = target
        self._judge = judge or (own_host_refusal if target.own else self._public)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the library's signature)
        local_address: str | None = None,  # noqa: ARG002 (likewise)
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002 (likewise)
    ) -> httpcore2.AsyncNetworkStream:
        """Look the host up, judge every answer, and connect to the first that answers."""
        if (host, port) != (self._target.host, self._target.port):
            raise FetchRefused(f"a connection to {host}:{port} instead of {self._target.place}")
        addresses = await self._judged()
        failure: Exception | None = None
        for address in addresses[:TRIED]:
            try:
                return await self._network.connect(str(address), port, min(timeout or CONNECT_SECONDS, CONNECT_SECONDS))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise FetchFailed(f"{self._target.place} cannot be connected to: {failure or 'no address'}")

    async def connect_unix_socket(
        self,
        path: str,  # noqa: ARG002 (the library's signature)
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 (likewise)
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002 (likewise)
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a web address names no socket of this machine."""
        raise FetchRefused("no connection is made to a socket of this machine")

    async def _judged(self) -> Sequence[IPAddress]:
        """Return the host's addresses. One that is refused refuses all: a name that points to both worlds is an attack or an accident."""
        target = self._target
        found = [target.address] if target.address is not None else await self._looked_up()
        for address in found:
            kind = "an address in an unusual form" if address is None else self._judge(address)
            if kind:
                raise FetchRefused(
                    f"{target.host} is not on the public internet ({address or 'unreadable'}: {kind})"
                    if not target.own
                    else f"{target.host} cannot be allowed ({address or 'unreadable'}: {kind})",
                    hint="" if target.own else "only the owner can allow a host of the own network: tools.web.fetch.allowHosts",
                )
        return list(dict.fromkeys(address for address in found if address is not None))

    async def _looked_up(self) -> Sequence[IPAddress | None]:
        try:
            answers = await self._network.resolve(self._target.host)
        except (OSError, UnicodeError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise FetchFailed(f"there is no host {self._target.host}: {reason}") from error
        if not answers:
            raise FetchFailed(f"there is no host {self._target.host}")
        return [parsed(answer) for answer in answers]

    def _public(self, address: IPAddress) -> str | None:
        kind = refusal(address)
        if kind is None and same_site(self._network.source_of(address), address):
            kind = "this machine or its own network"
        return kind
