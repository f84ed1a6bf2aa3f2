"""What is refused before a request is looked at, also on loopback and also with the right token.

A browser on this machine can be made to call loopback by any page (Origin), under any name (Host: DNS rebinding), and a reverse
proxy makes the whole internet look like loopback (forwarding headers). So each of the three is checked first. Platforms call under
whatever name they were given, so below ``/hooks/`` the first two are not asked: what lies there trusts nothing but signatures.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    import structlog
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gateway.settings.http import GatewaySettings

LARGEST_HEAD = 32 * 1024
LARGEST_BODY = 1024 * 1024
HOOKS = "/hooks/"
FORWARDING = frozenset(
    b"forwarded via x-real-ip x-client-ip client-ip true-client-ip cf-connecting-ip fastly-client-ip fly-client-ip "
    b"x-cluster-client-ip x-original-forwarded-for x-original-host x-original-url x-rewrite-url x-envoy-external-address "
    b"x-proxyuser-ip x-azure-clientip x-appengine-user-ip".split()
)
FORWARDING_PREFIX = b"x-forwarded"
HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


FIRST_ERROR: Final = 400
"""From this status on, an answer ends its connection."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is not what was asked for. ``reason`` is a fixed word for programs, ``hint`` a step for people."""

    status: int
    reason: str
    error: str
    hint: str

    def body(self) -> bytes:
        """The same as JSON."""
        return json.dumps({"error": self.error, "reason": self.reason, "mend": self.hint}, ensure_ascii=False).encode()


class _BodyTooLarge(Exception):
    """Raised to whoever reads on beyond the largest body."""


class RequestGuard:
    """ASGI middleware in front of everything. ``port`` is the one really listened on."""

    def __init__(
        self, inner: ASGIApp, settings: GatewaySettings, port: int, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._inner = inner
        self._log = log
        self._proxies = [ipaddress.ip_network(network) for network in settings.trusted_proxies]
        self._origins = frozenset(origin.encode() for origin in settings.allowed_origins)
        self._hosts = frozenset(_spellings(settings.allowed_hosts, port))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        refusal = self.judge(scope)
        if refusal is not None:
            await self._refuse(refusal, scope, send)
            return
        began = False

        async def noting(message: Message) -> None:
            nonlocal began
            began = True
            if message["type"] == "http.response.start" and message["status"] >= FIRST_ERROR:
                kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() != b"connection"]
                message = {
                    **message,
                    "headers": [*kept, (b"connection", b"close")],
                }  # what is left of its body is not waited for
            await send(message)

        try:
            await self._inner(scope, _limited(receive), noting)
        except _BodyTooLarge:
            if began:
                raise
            await self._refuse(_too_large(), scope, send)

    def judge(self, scope: Scope) -> Refusal | None:
        """Say why a request is refused; None when it may pass."""
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        return (
            _framed_twice(headers)
            or _bulky(scope, headers)
            or self._forwarded(headers, scope.get("client"))
            or (None if scope["path"].startswith(HOOKS) else self._called_wrongly(headers))
            or _oversized(_values(headers, b"content-length"))
        )

    def _called_wrongly(self, headers: list[tuple[bytes, bytes]]) -> Refusal | None:
        return self._misaddressed(_values(headers, b"host")) or self._foreign(_values(headers, b"origin"))

    def _forwarded(self, headers: list[tuple[bytes, bytes]], client: tuple[str, int] | None) -> Refusal | None:
        found = next((name for name, _ in headers if name in FORWARDING or name.startswith(FORWARDING_PREFIX)), None)
        if found is None or self._is_proxy(client):
            return None
        error = f"the request came through a proxy ({found.decode('latin-1')}) that this gateway does not know"
        return Refusal(403, "untrusted-proxy", error, "Add the proxy's own address to gateway.trustedProxies, or ask directly.")

    def _is_proxy(self, client: tuple[str, int] | None) -> bool:
        if client is None:
            return False
        try:
            peer = ipaddress.ip_address(client[0].partition("%")[0])
        except ValueError:
            return False
        peer = getattr(peer, "ipv4_mapped", None) or peer
        return any(peer in network for network in self._proxies)

    def _misaddressed(self, hosts: list[bytes]) -> Refusal | None:
        if len(hosts) == 1 and hosts[0].lower() in self._hosts:
            return None
        error = f"this gateway is not addressed as {_shown(hosts)}"
        return Refusal(403, "unknown-host", error, "Ask for 127.0.0.1, or add the name to gateway.allowedHosts.")

    def _foreign(self, origins: list[bytes]) -> Refusal | None:
        if not origins or (len(origins) == 1 and origins[0].lower() in self._origins):
            return None
        error = f"pages of {_shown(origins)} may not call this gateway"
        return Refusal(403, "foreign-origin", error, "If they should, add that origin to gateway.allowedOrigins.")

    async def _refuse(self, refusal: Refusal, scope: Scope, send: Send) -> None:
        self._log.warning("request refused", reason=refusal.reason, error=refusal.error, path=scope["path"][:200])
        body = refusal.body()
        headers = [*HEADERS, (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _spellings(allowed: Iterable[str], port: int) -> Iterable[bytes]:
    for host in ("127.0.0.1", "localhost", "[::1]"):
        yield f"{host}:{port}".encode()
    for host in allowed:
        yield host.encode()
        if not host.rpartition("]")[2].count(":"):
            yield f"{host}:{port}".encode()


def _values(headers: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def _shown(values: list[bytes]) -> str:
    return ", ".join(repr(value[:100].decode("latin-1")) for value in values) or "nothing"


def _framed_twice(headers: list[tuple[bytes, bytes]]) -> Refusal | None:
    """Refuse a body whose end is said in two ways: a proxy may believe the other one, and take a part for the next request."""
    if not _values(headers, b"transfer-encoding") or not _values(headers, b"content-length"):
        return None
    error = "the request has both Content-Length and Transfer-Encoding"
    return Refusal(400, "framed-twice", error, "Send one of the two.")


def _bulky(scope: Scope, headers: list[tuple[bytes, bytes]]) -> Refusal | None:
    # The parser holds an unfinished head to the same size, but takes a larger one that arrives in one piece.
    size = len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) + sum(len(n) + len(v) for n, v in headers)
    if size <= LARGEST_HEAD:
        return None
    return Refusal(431, "head-too-large", f"the head is larger than {LARGEST_HEAD} bytes", "Send fewer or shorter headers.")


def _too_large() -> Refusal:
    return Refusal(413, "body-too-large", f"the body is larger than {LARGEST_BODY} bytes", "Send less at a time.")


def _oversized(lengths: list[bytes]) -> Refusal | None:
    sizes = [int(length) for length in lengths if length.isdigit()]
    return _too_large() if any(size > LARGEST_BODY for size in sizes) else None


def _limited(receive: Receive) -> Receive:
    """Count a body that did not say its length (chunked), and stop it at the cap."""
    taken = 0

    async def counting() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_BODY:
            raise _BodyTooLarge
        return message

    return counting
