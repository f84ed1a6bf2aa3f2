"""ASGI middleware of the HTTP API, one class a concern. ``tcp_middleware`` and ``unix_middleware`` list them in order.

All checks apply on loopback too, and with the right token. A browser on this machine can be made to call loopback by any page
(Origin), under any name (Host: DNS rebinding), and a reverse proxy makes the whole internet look like loopback (forwarding headers).
"""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from starlette.middleware import Middleware

from gateway.api.answers import OPENAI, Refusal, defect
from gateway.settings.http_settings import GatewaySettings

if TYPE_CHECKING:
    import structlog
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Log = structlog.typing.FilteringBoundLogger
    Headers = list[tuple[bytes, bytes]]

LARGEST_HEAD: Final = 32 * 1024
LARGEST_BODY: Final = 1024 * 1024
LARGEST_LOCAL_BODY: Final = 8 * 1024 * 1024
"""On the unix socket; messages of the terminal are as large (``gateway.api.api_client.MESSAGE_BYTES``)."""
LARGEST_API_BODY: Final = 32 * 1024 * 1024
"""Below ``/v1/``, where requests hold pictures; their route reads few large ones at a time."""
LARGEST_HOOK_BODY: Final = 3 * 1024 * 1024
"""Below ``/hooks/``: platforms put many events into one call, up to this size. The owner's own hooks take less."""
HOOKS: Final = "/hooks/"
"""Platforms call below this path, under whatever name they were given; their channels trust nothing but signatures."""
CLUSTER: Final = "/cluster/"
"""Gateways of a cluster ask each other below this path, with a proof."""
PASSED_ON: Final = "/cluster/pass"
"""Before the path of a request that one of them passes on."""
FORWARDING = frozenset(
    b"forwarded via x-real-ip x-client-ip client-ip true-client-ip cf-connecting-ip fastly-client-ip fly-client-ip "
    b"x-cluster-client-ip x-original-forwarded-for x-original-host x-original-url x-rewrite-url x-envoy-external-address "
    b"x-proxyuser-ip x-azure-clientip x-appengine-user-ip".split()
)
FORWARDING_PREFIX = b"x-forwarded"
_SCHEME = b"bearer "
_PROXY: Final = (
    "Let the proxy that encrypts send X-Forwarded-Proto: https, as Caddy and Tailscale do; name it in gateway.trustedProxies."
)
OWN_PAGE: Final = ("/enter", "/page/", "/static/")
"""What the gateway's own page asks for: pages of the same host may, and none else."""


def tcp_middleware(
    settings: GatewaySettings,
    port: int,
    token: Token,
    log: Log,
    *,
    first: Sequence[Middleware] = (),
    last: Sequence[Middleware] = (),
) -> list[Middleware]:
    """Return the middleware of the TCP listener, outermost first. ``port`` is the one really listened on.

    ``first`` sees requests before the checks of browsers and proxies, ``last`` those that have passed all.
    """
    return [
        Middleware(RequestLimits, log),
        *first,
        Middleware(TrustedProxies, log, settings.trusted_proxies),
        Middleware(AllowedHosts, log, settings.allowed_hosts, port),
        Middleware(AllowedOrigins, log, settings.allowed_origins, own=OWN_PAGE),
        Middleware(BearerToken, token),
        *last,
    ]


def unix_middleware(log: Log, last: Sequence[Middleware] = ()) -> list[Middleware]:
    """Return the middleware of the unix socket, which only the owner can open."""
    return [Middleware(RequestLimits, log, LARGEST_LOCAL_BODY), Middleware(AlwaysOwner), *last]


class _Check(ABC):
    """Base of the checks: answers a request with its ``refusal``, and passes it on where there is none."""

    def __init__(self, app: ASGIApp, log: Log) -> None:
        self.app = app
        self._log = log

    @abstractmethod
    def refusal(self, scope: Scope) -> Refusal | None:
        """Say why a request is refused; None when it may pass."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send)
            return
        self._log.warning("request refused", reason=refusal.reason, error=refusal.detail, path=scope["path"][:200])
        await refusal.response(scope["path"])(scope, receive, send)


class RequestLimits(_Check):
    """Limits the size of heads and bodies (bytes), and refuses a body whose end is said in two ways."""

    def __init__(self, app: ASGIApp, log: Log, largest_body: int = LARGEST_BODY) -> None:
        super().__init__(app, log)
        self._largest = largest_body

    def refusal(self, scope: Scope) -> Refusal | None:
        """Judge by the head alone."""
        headers: Headers = scope["headers"]
        lengths = _values(headers, b"content-length")
        if lengths and _values(
            headers, b"transfer-encoding"
        ):  # a proxy may believe the other one, and split requests elsewhere
            error = "the request has both Content-Length and Transfer-Encoding"
            return Refusal(400, "framed-twice", error, "Send one of the two.")
        # The parser holds an unfinished head to the same size, but takes a larger one that arrives in one piece.
        size = len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) + sum(len(n) + len(v) for n, v in headers)
        if size > LARGEST_HEAD:
            error = f"the head is larger than {LARGEST_HEAD} bytes"
            return Refusal(431, "head-too-large", error, "Send fewer or shorter headers.")
        largest = self._most(scope)
        return self._too_large(largest) if any(length.isdigit() and int(length) > largest for length in lengths) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count a body that did not say its length (chunked), and stop it at the limit."""
        taken, largest = 0, self._most(scope)

        async def counting() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > largest:
                raise self._too_large(largest)
            return message

        await super().__call__(scope, counting, send)

    def _most(self, scope: Scope) -> int:
        path: str = scope["path"].removeprefix(PASSED_ON)
        if path.startswith(HOOKS):
            return max(self._largest, LARGEST_HOOK_BODY)
        if path != scope["path"] or path.startswith(CLUSTER):
            return LARGEST_API_BODY if path.startswith(OPENAI) else LARGEST_LOCAL_BODY
        return LARGEST_API_BODY if path.startswith(OPENAI) else self._largest

    @staticmethod
    def _too_large(largest: int) -> Refusal:
        return Refusal(413, "body-too-large", f"the body is larger than {largest} bytes", "Send less at a time.")


class TrustedProxies(_Check):
    """Refuses requests that a proxy forwarded, unless its address lies in one of ``networks``."""

    def __init__(self, app: ASGIApp, log: Log, networks: Iterable[str]) -> None:
        super().__init__(app, log)
        self._networks = [ipaddress.ip_network(network) for network in networks]

    def refusal(self, scope: Scope) -> Refusal | None:
        """Judge by the forwarding headers and the peer's address."""
        named = (name for name, _ in scope["headers"] if name in FORWARDING or name.startswith(FORWARDING_PREFIX))
        found = next(named, None)
        if found is None or self._trusted(scope.get("client")):
            return None
        error = f"the request came through a proxy ({found.decode('latin-1')}) that this gateway does not know"
        return Refusal(403, "untrusted-proxy", error, "Add the proxy's own address to gateway.trustedProxies, or ask directly.")

    def _trusted(self, client: tuple[str, int] | None) -> bool:
        if client is None:
            return False
        try:
            peer = ipaddress.ip_address(client[0].partition("%")[0])
        except ValueError:
            return False
        peer = getattr(peer, "ipv4_mapped", None) or peer
        return any(peer in network for network in self._networks)


class AllowedHosts(_Check):
    """Refuses requests to another name than those of loopback and ``hosts``; not below ``/hooks/``."""

    def __init__(self, app: ASGIApp, log: Log, hosts: Iterable[str], port: int) -> None:
        super().__init__(app, log)
        self._hosts = frozenset(_spellings(hosts, port))

    def refusal(self, scope: Scope) -> Refusal | None:
        """Judge by the Host header, of which there must be one."""
        hosts = _values(scope["headers"], b"host")
        if scope["path"].startswith(HOOKS) or (len(hosts) == 1 and hosts[0].lower() in self._hosts):
            return None
        error = f"this gateway is not addressed as {_shown(hosts)}"
        return Refusal(403, "unknown-host", error, "Ask for 127.0.0.1, or add the name to gateway.allowedHosts.")


class AllowedOrigins(_Check):
    """Refuses requests of web pages, except those of ``origins``; not below ``/hooks/``.

    Below the paths of ``own`` pages of the gateway itself are let through, and no others, whatever ``origins`` says.
    """

    def __init__(self, app: ASGIApp, log: Log, origins: Iterable[str], own: tuple[str, ...] = ()) -> None:
        super().__init__(app, log)
        self._origins = frozenset(origin.encode() for origin in origins)
        self._own = own

    def refusal(self, scope: Scope) -> Refusal | None:
        """Judge by the Origin header, and below ``own`` by what the browser says of where a request comes from."""
        origins = _values(scope["headers"], b"origin")
        if self._own and scope["path"].startswith(self._own):
            if self._is_own(scope, origins):
                return None
            hosts = _values(scope["headers"], b"host")
            own = origins and hosts and origins[0].lower() == b"https://" + hosts[0].lower()
            return self._foreign(_shown(origins) if origins else "another site", _PROXY if own else "")
        known = len(origins) == 1 and origins[0].lower() in self._origins
        if scope["path"].startswith(HOOKS) or not origins or known:
            return None
        return self._foreign(_shown(origins))

    @staticmethod
    def _foreign(whose: str, hint: str = "") -> Refusal:
        error = f"pages of {whose} may not call this gateway"
        return Refusal(403, "foreign-origin", error, hint or "If they should, add that origin to gateway.allowedOrigins.")

    @staticmethod
    def _is_own(scope: Scope, origins: list[bytes]) -> bool:
        """Return whether the gateway's own page asks, or a person who typed the address. The host was checked before."""
        sites = _values(scope["headers"], b"sec-fetch-site")
        if scope["method"] in {"GET", "HEAD"} and scope["path"] == "/enter":  # a link in a chat leads there, too
            return not origins
        if sites and sites[0] not in {b"same-origin", b"none"}:
            return False
        if not origins:
            return scope["method"] in {"GET", "HEAD"}
        hosts = _values(scope["headers"], b"host")
        scheme = b"https://" if is_encrypted(scope) else b"http://"
        return len(origins) == len(hosts) == 1 and origins[0].lower() == scheme + hosts[0].lower()


def is_encrypted(scope: Scope) -> bool:
    """Return whether a browser reaches the gateway over TLS, as a proxy says that was found to be a known one."""
    return _values(scope["headers"], b"x-forwarded-proto")[-1:] == [b"https"]


class Token(Protocol):
    """The gateway's token."""

    async def holds(self, offered: bytes) -> bool:
        """Return whether ``offered`` is the token that holds now."""
        ...


class BearerToken:
    """Notes in ``scope["owner"]`` whether the request carries the token. Routes decide what others may know.

    ``scope["bearer"]`` is what the request carries, for routes that have tokens of their own; empty for none, and for more than one.
    """

    def __init__(self, app: ASGIApp, token: Token) -> None:
        self.app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Compare with the token that holds at this moment."""
        offered = _values(scope["headers"], b"authorization")
        named = len(offered) == 1 and offered[0][: len(_SCHEME)].lower() == _SCHEME
        scope["bearer"] = offered[0][len(_SCHEME) :].strip() if named else b""
        scope["owner"] = bool(scope["bearer"]) and await self._token.holds(scope["bearer"])
        await self.app(scope, receive, send)


class AlwaysOwner:
    """Notes in ``scope["owner"]`` that the request is the owner's."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on."""
        scope["owner"] = True
        await self.app(scope, receive, send)


def _spellings(allowed: Iterable[str], port: int) -> Iterable[bytes]:
    for host in ("127.0.0.1", "localhost", "[::1]"):
        yield f"{host}:{port}".encode()
    for host in allowed:
        yield host.encode()
        if not host.rpartition("]")[2].count(":"):
            yield f"{host}:{port}".encode()


def _values(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def _shown(values: list[bytes]) -> str:
    return ", ".join(repr(value[:100].decode("latin-1")) for value in values) or "nothing"


class AnswerDefects:
    """The outermost of all: an exception that nobody expected is answered as JSON, and goes on to the server, which logs it.

    Below it, starlette's router finds the ``app`` without which it would answer in plain text.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        scope["app"] = self
        try:
            await self._app(scope, receive, watched)
        except Exception:  # whatever it is: it is raised again
            if scope["type"] == "http" and not begun:
                await defect(scope["path"])(scope, receive, send)
            raise
