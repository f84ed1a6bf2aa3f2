"""Checks what can be reached over the network: the port, its token, and webhooks."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gateway.base.api_token import FILE_NAME, token_from_file
from gateway.base.client_tokens import ClientTokens
from gateway.base.errors import HomebodyError
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.doctor.ledger_checks import ledger_facts
from gateway.doctor.network_checks import inodes_of, sockets
from gateway.settings.http_settings import BIND_VARIABLE, GatewaySettings

OLD_TOKEN_DAYS: Final = 365
_COPIED: Final = "The longer a token is used, the more places it was copied to."
WIDE: Final = {4: 24, 6: 64}
"""A network of proxies with fewer bits than these is more than a home network."""


def _examine(installation: Installation) -> Iterator[Finding]:
    given = installation.settings.gateway
    gateway = given.under(installation.env)
    found = [*_bind(installation, gateway), *_proxies(gateway), *_origins(gateway)]
    yield from found or [ok("it listens on this machine only (127.0.0.1)")]


def _bind(installation: Installation, gateway: GatewaySettings) -> Iterator[Finding]:
    open_at = _open_sockets(installation)
    where = BIND_VARIABLE if installation.env.get(BIND_VARIABLE) else "gateway.bind"
    if gateway.bind == "lan" or open_at:
        at = f" ({', '.join(open_at)})" if open_at else ""
        inside = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
        contained = inside and where == BIND_VARIABLE
        away = "homebody config set gateway.bind loopback, and from elsewhere a proxy with TLS, or Tailscale (docs/webhooks.md)"
        published = "In a container this is needed; publish the port as 127.0.0.1:18790:18790, not to all addresses."
        yield Finding(
            level="note" if contained else "warning",
            what=f"the port {gateway.port} is open to every machine in your network{at}",
            where=where,
            why="Whoever reaches it can call your webhooks, and try tokens. Plain HTTP can be read on the way.",
            mend=published if contained else away,
        )


def _open_sockets(installation: Installation) -> list[str]:
    """Return the addresses beyond this machine on which the running gateway listens, as the kernel knows them."""
    holder = installation.holder
    if holder is None or not holder.pid:
        return []
    ours = inodes_of(str(holder.pid))
    listening = [address for inode, address in sockets().items() if inode in ours]
    shown = [address_of(one) for one in listening]
    return sorted({f"{host}:{port}" for host, port in shown if not host.is_loopback})


def address_of(hexadecimal: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Read an address of /proc/net/tcp: hexadecimal words in the byte order of the machine, then the port."""
    raw, _, port = hexadecimal.partition(":")
    words = [bytes.fromhex(raw[start : start + 8])[::-1] for start in range(0, len(raw), 8)]
    return ipaddress.ip_address(b"".join(words)), int(port, 16)


def _proxies(gateway: GatewaySettings) -> Iterator[Finding]:
    for text in gateway.trusted_proxies:
        network = ipaddress.ip_network(text)
        if network.prefixlen < WIDE[network.version]:
            yield Finding(
                level="warning",
                what=f"all of {text} counts as your proxy",
                where="gateway.trustedProxies",
                why="Any machine there can pretend that a call comes from somewhere else.",
                mend="Name the address of the proxy alone, such as 127.0.0.1.",
            )


def _origins(gateway: GatewaySettings) -> Iterator[Finding]:
    for origin in gateway.allowed_origins:
        if origin.startswith("http://") and "localhost" not in origin and "127.0.0.1" not in origin:
            why = "Whoever can change what that page holds on its way can call the API from your browser."
            yield Finding(
                level="warning",
                what=f"pages of {origin} may call the API",
                where="gateway.allowedOrigins",
                why=why,
                mend="Use https.",
            )


def _examine_token(installation: Installation) -> Iterator[Finding]:
    if installation.settings.gateway.auth.token is not None:
        yield ok("the token of the API is set in the settings, and is long enough")
        return
    file = installation.paths.state / FILE_NAME
    if not file.exists() and not file.is_symlink():
        yield ok("the token of the API is made at the first start of the gateway")
        return
    try:
        token_from_file(file)
    except HomebodyError as error:
        why = "It opens the API to whoever has it. The gateway does not start with it."
        yield Finding(level="error", what=error.message, where=str(file), why=why, mend=error.hint)
        return
    days = (time.time() - file.stat().st_mtime) / 86_400
    if days > OLD_TOKEN_DAYS:
        mend = f"rm {file}, restart the gateway, and give the new one to the programs that use it"
        yield Finding(
            level="note", what=f"the token of the API is {days / 365:.0f} years old", where=str(file), why=_COPIED, mend=mend
        )
    else:
        yield ok("the token of the API is strong, and only you can read it")


def _examine_api(installation: Installation) -> Iterator[Finding]:
    gateway = installation.settings.gateway.under(installation.env)
    reachable = gateway.bind == "lan" or bool(gateway.allowed_hosts)
    tokens = ClientTokens(installation.paths.state).all()
    owners = [one.name for one in tokens if one.role == "owner"]
    found = []
    if owners and not gateway.openai.enabled:
        what = f"tokens of programs that are you are kept, though the API is off: {', '.join(owners)}"
        found.append(
            Finding(level="note", what=what, why="They work as soon as it is on.", mend="homebody api tokens revoke NAME")
        )
    elif owners:
        what = f"these programs speak to your agent as you: {', '.join(owners)}"
        why = "Whoever has such a token reads your notes, and asks for commands. Over plain HTTP it can be read on the way."
        mend = "homebody api tokens list; for each program that need not be you, a token of a guest"
        found.append(Finding(level="warning" if reachable else "note", what=what, why=why, mend=mend))
    old = [one.name for one in tokens if _days_since(one.created_at) > OLD_TOKEN_DAYS]
    if old:
        mend = "homebody api tokens rotate NAME"
        found.append(Finding(level="note", what=f"tokens are older than a year: {', '.join(old)}", why=_COPIED, mend=mend))
    if gateway.metrics.enabled and gateway.metrics.access == "loopback":
        why = "They tell how much you write and what it costs, and no words."
        mend = "homebody config set gateway.metrics.access token"
        found.append(Finding(level="note", what="every program on this machine may read the measurements", why=why, mend=mend))
    yield from found or [ok("no other program speaks to your agents as you")]


def _days_since(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds() / 86_400


async def _examine_hooks(installation: Installation) -> list[Finding]:
    gateway = installation.settings.gateway.under(installation.env)
    reachable = gateway.bind == "lan" or bool(gateway.allowed_hosts)
    found = []
    for hook in (await ledger_facts(installation)).hooks:
        if hook["credential"] == "token" and hook["state"] == "active":
            what = f"calls of the webhook {hook['name']} are not signed: it is opened by a token"
            why = "Whoever sees one call on its way can make others; a signature is good for one text, for a short time."
            mend = f"If its sender can sign (GitHub, Stripe and the like): homebody hooks remove {hook['name']}, then add it with --signed"
            found.append(Finding(level="warning" if reachable else "note", what=what, why=why, mend=mend))
        if hook["kind"] == "prompt" and hook["session"] == "main" and hook["state"] == "active":
            what = f"calls of the webhook {hook['name']} enter your main conversation"
            why = "What they hold is fenced as untrusted, and stands in your own history from then on."
            found.append(
                Finding(level="note", what=what, why=why, mend=f"homebody hooks change {hook['name']} --session isolated")
            )
    return found or [ok("no webhook is open without a signature")]


LISTENERS = Check(name="listeners", examine=_examine)
TOKEN = Check(name="token", examine=_examine_token)
API = Check(name="api", examine=_examine_api)
WEBHOOKS = Check(name="webhooks", examine=_examine_hooks)
