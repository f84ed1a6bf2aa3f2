"""Checks the gateway's port, and whether the names of the servers that it needs can be looked up."""

from __future__ import annotations

import errno
import http.client
import ipaddress
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from agent.models.catalog.model_listing import standings
from gateway.base.errors import HomebodyError
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.finding import Check, Finding, ok
from gateway.models.key_profiles import Profiles
from gateway.settings.http_settings import PORT_VARIABLE

SLOW_SECONDS: Final = 3.0
_SECONDS: Final = 5.0
_UNKNOWN: Final = "cannot be looked up"
_PLATFORMS: Final = {"telegram": "api.telegram.org", "discord": "discord.com", "slack": "slack.com"}


def _examine_port(installation: Installation) -> Iterator[Finding]:
    try:
        gateway = installation.settings.gateway.under(installation.env)
    except HomebodyError as error:
        yield Finding(level="error", what=str(error), why="The gateway does not start.", mend=error.hint)
        return
    holder = installation.holder
    if installation.gateway_serves and holder is not None and holder.http_port:
        yield _answers(holder.http_port)
    elif installation.gateway_serves:
        mend = "homebody logs --level warning --since 1h"
        yield Finding(
            level="warning", what="the running gateway does not listen on a port", why="Webhooks do not arrive.", mend=mend
        )
    elif gateway.port and (taken := _taken(gateway.port, "0.0.0.0" if gateway.bind == "lan" else "127.0.0.1")):  # noqa: S104 - it is bound for a moment
        free = gateway.port + 1
        shared = installation.settings.cluster.enabled
        change = f"export {PORT_VARIABLE}={free}" if shared else f"homebody config set gateway.port {free}"
        mend = f"Stop that program, or take another port{' where this gateway starts' if shared else ''}: {change}"
        why = "The gateway does not start."
        yield Finding(level="error", what=f"port {gateway.port} is taken{taken}", where="gateway.port", why=why, mend=mend)
    else:
        yield ok(f"port {gateway.port} is free" if gateway.port else "any free port is used")


def _answers(port: int) -> Finding:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("GET", "/healthz")
        said = json.loads(connection.getresponse().read(10_000))
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = "Webhooks do not arrive."
        what = f"the gateway does not answer on its port {port}: {error}"
        return Finding(level="error", what=what, why=why, mend="Restart the gateway.")
    finally:
        connection.close()
    if said != {"alive": True}:
        return Finding(level="error", what=f"another program answers on port {port}", mend="Restart the gateway.")
    return ok(f"the gateway answers on port {port}")


def _taken(port: int, address: str) -> str:
    """Return who has a port, beginning with " by"; "" for a free one, and a text without a name where that cannot be known."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError as error:
            if error.errno == errno.EACCES:
                return ": ports below 1024 are for root"
            return f" by {_holder_of(port) or 'another program'}" if error.errno == errno.EADDRINUSE else f": {error.strerror}"
    return ""


def listening(table: str) -> dict[str, str]:
    """Return the listening sockets in the text of /proc/net/tcp or tcp6: address as the kernel writes it (hex), by inode."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {row[9]: row[1] for row in rows if len(row) > 9 and row[3] == "0A"}  # noqa: PLR2004 - the columns of that file


def sockets() -> dict[str, str]:
    """Return the listening sockets of this machine by inode; none where the system does not tell."""
    found: dict[str, str] = {}
    for name in ("tcp", "tcp6"):
        try:
            found |= listening(Path("/proc/net", name).read_text(encoding="ascii"))
        except OSError:
            continue
    return found


def inodes_of(process: str) -> set[str]:
    """Return the inodes of a process's sockets; none for one that is not ours."""
    found: set[str] = set()
    folder = f"/proc/{process}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names alone, thousands of them
    except OSError:
        return found
    for name in names:
        with suppress(OSError):  # it was closed meanwhile
            link = os.readlink(f"{folder}/{name}")  # noqa: PTH115 - the same
            found |= {link[8:-1]} if link.startswith("socket:[") else set()
    return found


def _holder_of(port: int) -> str:
    wanted = {inode for inode, address in sockets().items() if int(address.rpartition(":")[2], 16) == port}
    try:
        processes = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names alone
    except OSError:
        return ""
    for process in processes:
        if wanted & inodes_of(process):
            try:
                return f"{Path('/proc', process, 'comm').read_text().strip()} (process {process})"
            except OSError:
                return f"process {process}"
    return ""


def needed_hosts(installation: Installation) -> dict[str, str]:
    """Return the servers that the settings need, each with what for. Hosts that are addresses are left out."""
    settings, env = installation.settings, installation.env
    key_source = Profiles(installation.paths, settings.auth).key_source(settings.default_agent)
    addresses: dict[str, str] = {}
    for standing in standings(settings.models, env, key_source):
        if standing.key not in {"missing", "none needed"} or standing.provider in settings.models.providers:
            addresses[standing.address] = f"models of {standing.label}"
    for name, host in _PLATFORMS.items():
        section = settings.channels.section(name)
        root = getattr(section, "api_root", None)
        if section is not None and section.names():
            addresses[str(root) if root else f"https://{host}"] = name.capitalize()
    for name, mailbox in settings.mail.accounts.items():
        servers = [server.host for server in (mailbox.imap, mailbox.smtp) if server is not None]
        addresses |= {f"//{host}": f"mail of {name}" for host in servers}
    for name, account in settings.calendar.accounts.items():
        addresses[account.url or account.ics or ""] = f"calendar {name}"
    for name, server in settings.mcp.servers.items():
        if server.enabled and server.url:
            addresses[server.url] = f"MCP server {name}"
    return dict(_names(addresses))


def _names(addresses: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for address, purpose in addresses.items():
        host = urlsplit(address).hostname or ""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            if host and host != "localhost":
                yield host, purpose


async def _examine_dns(installation: Installation) -> list[Finding]:
    hosts = needed_hosts(installation)
    found = [finding for host, purpose in hosts.items() for finding in await in_thread(_resolved, host, purpose)]
    unknown = [one for one in found if _UNKNOWN in one.what]
    if len(unknown) == len(hosts) > 1:
        mend = "Check the network cable or Wi-Fi and the router, then: cat /etc/resolv.conf"
        why = "Without names nothing on the internet can be reached."
        return [Finding(level="error", what="no name can be looked up (DNS)", why=why, mend=mend)]
    return found or [ok(f"{len(hosts)} names can be looked up" if hosts else "no server on the internet is needed")]


def _resolved(host: str, purpose: str) -> list[Finding]:
    began = os.times().elapsed
    try:
        addresses = {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)}
    except OSError as error:
        what = f"{host} ({purpose}) {_UNKNOWN}: {error.strerror or error}"
        mend = f"Check the network and the name: getent hosts {host}"
        return [Finding(level="error", what=what, why="It cannot be reached.", mend=mend)]
    took = os.times().elapsed - began
    if blocked := [one for one in addresses if _is_blocked(one)]:
        what = f"{host} ({purpose}) is answered with {blocked[0]}"
        why = "A filter in your network (Pi-hole, AdGuard, the router) blocks it, so it cannot be reached."
        return [Finding(level="error", what=what, why=why, mend="Allow this name in the filter.")]
    if took > SLOW_SECONDS:
        what = f"looking up {host} took {took:.0f} seconds"
        why = "One of the name servers does not answer; each connection waits for it."
        return [Finding(level="warning", what=what, why=why, mend="Remove it: cat /etc/resolv.conf")]
    return []


def _is_blocked(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return found.is_unspecified or found.is_loopback


PORT = Check(name="port", examine=_examine_port, quick=True)
DNS = Check(name="dns", examine=_examine_dns, seconds=30.0, online=True)
