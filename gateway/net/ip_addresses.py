"""Decides which IP addresses may be connected to: public unicast only.

The lists are our own, after IANA's registries of special-purpose addresses. Python's ``ipaddress`` is used to parse, never to judge: its
tables are as old as the interpreter, and 3.11 calls 5f00::/16 and 3fff::/20 global.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address

GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""The only part of IPv6 from which public addresses are given out (RFC 4291, 2.5.4). What lies outside is refused by that alone:
loopback, mapped IPv4, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48), unique-local, link-local, multicast, 5f00::/16."""

IPV4_REFUSED: Final = {
    IPv4Network(block): name
    for block, name in {
        "0.0.0.0/8": "this network",
        "10.0.0.0/8": "private use",
        "100.64.0.0/10": "shared address space of providers",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "the platform service of a cloud",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private use",
        "192.0.0.0/24": "IETF protocol assignments",
        "192.0.2.0/24": "documentation",
        "192.88.99.0/24": "6to4 relay anycast",
        "192.168.0.0/16": "private use",
        "198.18.0.0/15": "benchmarking",
        "198.51.100.0/24": "documentation",
        "203.0.113.0/24": "documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
}
"""Blocks by name: IANA's IPv4 registry of special-purpose addresses, multicast, and one public address of Azure's own services."""

IPV6_REFUSED: Final = {
    IPv6Network(block): name
    for block, name in {
        "2001::/23": "IETF protocol assignments",  # Teredo, benchmarking, ORCHID and others lie within
        "2001:db8::/32": "documentation",
        "2002::/16": "6to4",
        "3ffe::/16": "the former 6bone",
        "3fff::/20": "documentation",
    }.items()
}
"""Blocks of ``GLOBAL_UNICAST`` by name that are not public hosts: IANA's IPv6 registry of special-purpose addresses, and the 6bone."""

NEVER: Final[dict[IPv4Network | IPv6Network, str]] = {
    IPv4Network("0.0.0.0/8"): "this network",
    IPv4Network("169.254.0.0/16"): "link-local",
    IPv4Network("168.63.129.16/32"): "the platform service of a cloud",
    IPv4Network("224.0.0.0/3"): "multicast or reserved",
    IPv6Network("::/128"): "unspecified",
    IPv6Network("fd00:ec2::254/128"): "the metadata service of a cloud",
    IPv6Network("fe80::/10"): "link-local",
    IPv6Network("ff00::/8"): "multicast",
}
"""What is refused even where the owner allowed the host: addresses of metadata services, and those that are no single host."""

_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
"""The upper half of an interface id behind which an IPv4 address stands (RFC 5214)."""
SITE_BITS: Final = 56
"""A home is usually given a /56 (RFC 6177); addresses that share it with this machine are taken for its own network."""


def parsed(text: str) -> IPAddress | None:
    """Read an address in its usual form; None for anything else, such as an address with a zone."""
    try:
        return IPv6Address(text) if ":" in text and "%" not in text else IPv4Address(text)
    except ValueError:
        return None


def refusal(address: IPAddress) -> str | None:
    """Say what kind of address it is where it is not public unicast; None when it is."""
    if isinstance(address, IPv4Address):
        return next((name for block, name in IPV4_REFUSED.items() if address in block), None)
    if address.ipv4_mapped is not None:
        return "an IPv4 address written as IPv6"
    if address not in GLOBAL_UNICAST:
        return "not a public IPv6 address"
    if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
        return "an IPv4 address in an ISATAP tunnel"
    return next((name for block, name in IPV6_REFUSED.items() if address in block), None)


def own_host_refusal(address: IPAddress) -> str | None:
    """The same for a host that the owner allowed: private addresses and loopback pass."""
    plain = address.ipv4_mapped if isinstance(address, IPv6Address) and address.ipv4_mapped else address
    return next((name for block, name in NEVER.items() if plain.version == block.version and plain in block), None)


def same_site(ours: IPAddress | None, theirs: IPAddress) -> bool:
    """Whether an address belongs to this machine or to the network of its home. Devices at home have public IPv6 addresses, too.

    ``ours`` is the address from which a connection to ``theirs`` would start; None if it is not known.
    """
    if ours is None or ours.version != theirs.version:
        return False
    if isinstance(ours, IPv4Address):
        return ours == theirs
    return int(ours) >> (128 - SITE_BITS) == int(theirs) >> (128 - SITE_BITS)
