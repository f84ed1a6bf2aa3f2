"""Checks connections that are not encrypted, to machines other than this one."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel

from agent.models.catalog.model_listing import standings
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.models.key_profiles import Profiles

_SEEN: Final = "Passwords, keys and messages can be read by whoever is on the way."
_OWN_NETWORK: Final = "Whoever is in your network can read them: a guest in the Wi-Fi, a camera, another program."
_NEAR: Final = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10"),
    )
)
"""Networks of homes, and of Tailscale, which encrypts by itself."""
_ADDRESS_KEYS: Final = ("base_url", "url", "ics", "api_root")


def plain_text(address: str) -> bool:
    """Whether an address is that of a connection without encryption to another machine."""
    parts = urlsplit(address)
    return parts.scheme in {"http", "ws"} and bool(parts.hostname) and not _is_here(parts.hostname or "")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_near(host: str) -> bool:
    """Whether a host is in the own network, by its address or name."""
    try:
        address = ipaddress.ip_address(host)
        return any(address in network for network in _NEAR if network.version == address.version)
    except ValueError:
        return "." not in host or host.endswith((".lan", ".local", ".home", ".home.arpa", ".internal", ".fritz.box"))


def _examine(installation: Installation) -> Iterator[Finding]:
    addresses = dict(_addresses(installation))
    found = [_of(address, where) for where, address in addresses.items() if plain_text(address)]
    for name, mailbox in installation.settings.mail.accounts.items():
        for kind, server in (("imap", mailbox.imap), ("smtp", mailbox.smtp)):
            if server is not None and server.security == "none" and not _is_here(server.host):
                mend = f"homebody config set mail.accounts.{name}.{kind}.security tls"
                what = f"mail and its password go to {server.host} without encryption"
                found.append(Finding(level="error", what=what, where=f"mail.accounts.{name}.{kind}", why=_SEEN, mend=mend))
    yield from found or [ok("all connections to other machines are encrypted")]


def _of(address: str, where: str) -> Finding:
    host = urlsplit(address).hostname or ""
    near = _is_near(host)
    return Finding(
        level="note" if near else "error",
        what=f"{host} is reached without encryption (http)",
        where=where,
        why=_OWN_NETWORK if near else _SEEN,
        mend="Use its https address, or reach it through a tunnel (SSH, WireGuard, Tailscale).",
    )


def _addresses(installation: Installation) -> Iterator[tuple[str, str]]:
    settings = installation.settings
    yield from _in_section(settings, "")
    key_source = Profiles(installation.paths, settings.auth).key_source(settings.default_agent)
    for standing in standings(settings.models, installation.env, key_source):
        if standing.key != "missing" and standing.address and standing.provider not in settings.models.providers:
            yield f"models: {standing.provider}", standing.address


def _in_section(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, BaseModel):
        if getattr(value, "enabled", True) is False:
            return
        for name, info in type(value).model_fields.items():
            here = f"{path}.{info.alias or name}".lstrip(".")
            child = getattr(value, name)
            if name in _ADDRESS_KEYS and child is not None:
                yield here, str(child)
            else:
                yield from _in_section(child, here)
    elif isinstance(value, dict):
        for key, child in value.items():
            yield from _in_section(child, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, child in enumerate(value):
            yield from _in_section(child, f"{path}[{place}]")


TRANSPORT = Check(name="encryption", examine=_examine)
