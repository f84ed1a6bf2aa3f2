"""An HTTP client that reaches one configured host and nothing else, for SDKs that bring requests of their own. Loads the HTTP library.

Every connection goes through the connection guard, so a redirect, or an address in an answer, leads nowhere else.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpcore2
import httpx2

from agent.errors import FetchFailed
from gateway.net.connection_guard import GuardedBackend, Network, SystemNetwork
from gateway.net.targets import Target, place_in, target_of

_CONNECTIONS: Final = 10
_KEPT_SECONDS: Final = 30.0
_EVENTS: Final = "text/event-stream"


def guarded_client(
    url: str,
    *,
    headers: Mapping[str, str],
    largest: int,
    seconds: float,
    network: Network | None = None,
    tls: ssl.SSLContext | None = None,
) -> httpx2.AsyncClient:
    """Make a client for the host and port of ``url``, which the owner configured, wherever it is.

    An answer that is no stream of events may have ``largest`` bytes. ``seconds`` is how long one step may take: a stream may be silent
    for longer. Proxies of the environment are not used.

    Raises:
        FetchRefused: ``url`` is no web address.
    """
    target = target_of(url, frozenset({place_in(url)}))
    transport = _GuardedTransport(target, network or SystemNetwork(), tls or httpcore2.default_ssl_context(), largest)
    return httpx2.AsyncClient(
        transport=transport,
        headers=dict(headers),
        timeout=httpx2.Timeout(seconds, read=None),
        trust_env=False,
        follow_redirects=False,
    )


class _GuardedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, target: Target, network: Network, tls: ssl.SSLContext, largest: int) -> None:
        self._target = target
        self._largest = largest
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            network_backend=GuardedBackend(network, target),
            max_connections=_CONNECTIONS,
            keepalive_expiry=_KEPT_SECONDS,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the target. Raises the library's own errors, as its clients expect."""
        scheme = request.url.scheme
        port = request.url.port or {"http": 80, "https": 443}.get(scheme, 0)
        if (scheme, request.url.host, port) != (self._target.scheme, self._target.host, self._target.port):
            raise httpx2.ConnectError(
                f"requests go to {self._target.place} alone, and this one is for {request.url.host}:{port}"
            )
        sent = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=scheme.encode(), host=self._target.host.encode(), port=port, target=request.url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            answer = await self._pool.handle_async_request(sent)
        except (FetchFailed, httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise _translated(error) from error
        kind = next((value for name, value in answer.headers if name.lower() == b"content-type"), b"")
        endless = kind.decode("latin-1").lower().startswith(_EVENTS)
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer, None if endless else self._largest),
            extensions={name: value for name, value in answer.extensions.items() if name != "network_stream"},
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, which fails when it is larger than it may be."""

    def __init__(self, answer: httpcore2.Response, largest: int | None) -> None:
        self._answer = answer
        self._largest = largest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        try:
            async for block in self._answer.aiter_stream():
                read += len(block)
                if self._largest is not None and read > self._largest:
                    raise httpx2.ReadError(f"an answer has more than {self._largest:,} bytes")
                yield block
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise _translated(error) from error

    async def aclose(self) -> None:
        await self._answer.aclose()


def _translated(error: Exception) -> httpx2.TransportError:
    """Return an error of the layer below as one of the client's."""
    text = str(error) or type(error).__name__
    if isinstance(error, httpcore2.TimeoutException):
        return httpx2.ReadTimeout(text)
    if isinstance(error, FetchFailed | httpcore2.ConnectError):
        return httpx2.ConnectError(text)
    return httpx2.ReadError(text)
