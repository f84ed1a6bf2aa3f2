"""The network below the guard: names, source addresses and TCP connections. Importing this module loads the HTTP library."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address, ip_address
from typing import Protocol

import httpcore2

from gateway.net.addresses import IPAddress


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
            found: list[str] | OSError
            try:
                found = [str(one[4][0]) for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
            except OSError as error:
                found = error
            except UnicodeError as error:
                found = OSError(str(error))
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, found)

        def tell(found: list[str] | OSError) -> None:
            if answer.done():
                return
            if isinstance(found, OSError):
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
