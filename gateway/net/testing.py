"""A network for tests: names from a table, and connections that are recorded and go nowhere, or to a peer on loopback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import httpcore2

from gateway.net.ip_addresses import IPAddress, parsed


@dataclass
class RecordedNetwork:
    """Implements ``Network``. Nothing leaves the machine.

    ``names`` maps a host to the addresses of each look-up in turn; the last one stays, and one that is missing does not exist. ``peers``
    maps ``(address, port)`` to a port on 127.0.0.1 that stands for it; connections elsewhere are refused. ``connects`` and ``lookups``
    record what was tried. ``own`` is the address of this machine in each family.
    """

    names: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    peers: Mapping[tuple[str, int], int] = field(default_factory=dict)
    own: Iterable[str] = ("192.168.1.5", "2a02:8100:1:2300::5")
    connects: list[tuple[str, int]] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)

    async def resolve(self, host: str) -> Sequence[str]:
        """Answer from the table."""
        if host not in self.names:
            raise OSError(f"{host} is not in the table")
        answers = self.names[host]
        self.lookups.append(host)
        return answers[min(self.lookups.count(host), len(answers)) - 1]

    def source_of(self, address: IPAddress) -> IPAddress | None:
        """Return the address of this machine in the same family."""
        ours = (parsed(one) for one in self.own)
        return next((one for one in ours if one is not None and one.version == address.version), None)

    async def connect(self, address: str, port: int, seconds: float | None) -> httpcore2.AsyncNetworkStream:
        """Record it, and connect to the peer that stands for the address, if there is one."""
        self.connects.append((address, port))
        if (address, port) not in self.peers:
            raise httpcore2.ConnectError("refused by the recorded network")
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self.peers[address, port], timeout=seconds)
