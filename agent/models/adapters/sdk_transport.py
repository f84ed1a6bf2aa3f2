"""Carries the model SDKs' requests over aiohttp. Importing this module loads both.

The SDKs' own HTTP client takes them here instead of to httpcore and AnyIO, which cost three times as much CPU time. The SDKs load aiohttp
themselves where it is there, as it always is.
"""

from __future__ import annotations

import io
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final
from urllib.request import getproxies

import aiohttp
import httpx2

if TYPE_CHECKING:
    import ssl

_KEPT_SECONDS: Final = 5.0
"""How long an unused connection is kept, as by the SDKs."""
_MOST_CONNECTIONS: Final = 1000
_LONGEST_HEADER: Final = 2**16
_ONE_PIECE: Final = 2**20
"""Bytes that are sent without a pause for other work."""
_PROXIED: Final = frozenset({"http", "https", "all"})
_FAILURES: Final = (aiohttp.ClientError, OSError)


def client_for(sdk: Any) -> httpx2.AsyncClient | None:
    """Return an HTTP client to make a client of ``sdk`` with (the module ``anthropic`` or ``openai``). Blocks, to read certificates.

    None where the environment names proxies: the SDK's own client knows all kinds of them, and for which hosts they are not meant.
    """
    if _PROXIED & getproxies().keys():
        return None
    client: httpx2.AsyncClient = sdk.DefaultAsyncHttpxClient(transport=SDKTransport(httpx2.create_ssl_context()))
    return client


class SDKTransport(httpx2.AsyncBaseTransport):
    """Makes requests as they are, and answers as they come. It is opened by its first request, in the event loop that then runs."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make a request, and return the answer once its head is there. Raises ``httpx2.TransportError``."""
        seconds = request.extensions.get("timeout", {})
        connect = seconds.get("connect")  # with looking up the name, which is no part of ``sock_connect``
        timeout = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect, sock_read=seconds.get("read"))
        url, body = request.url, await request.aread()
        try:
            answer = await self._opened().request(
                request.method,
                str(url.copy_with(username=None, password=None) if url.userinfo else url),  # they are in a header by now
                data=io.BytesIO(body) if len(body) > _ONE_PIECE else body or None,
                headers=[(name.decode(), value.decode()) for name, value in request.headers.raw],
                timeout=timeout,
                allow_redirects=False,
            )
        except _FAILURES as error:
            raise _translated(error) from error
        extensions = {"http_version": b"HTTP/1.1", "reason_phrase": (answer.reason or "").encode()}
        return httpx2.Response(answer.status, headers=answer.raw_headers, stream=_Body(answer), extensions=extensions)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._context, limit=_MOST_CONNECTIONS, keepalive_timeout=_KEPT_SECONDS, socket_factory=_lasting_socket
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,  # the SDKs' client does that, and keeps cookies
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            )
        return self._session


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, in the pieces in which it arrives."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.content.iter_any():
                yield piece
        except _FAILURES as error:
            raise _translated(error) from error

    async def aclose(self) -> None:
        """End the answer; a connection on which more of it would come is closed."""
        self._answer.close()


def _lasting_socket(address: Any) -> socket.socket:
    """Return a socket that finds out, within a few minutes, that the other end is gone."""
    family, kind, protocol, *_ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _translated(error: Exception) -> httpx2.TransportError:
    """Return the error of the SDKs' client that says the same."""
    text = str(error) or type(error).__name__
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return httpx2.UnsupportedProtocol(text)
    if isinstance(error, TimeoutError):
        timed_out = httpx2.ConnectTimeout if isinstance(error, aiohttp.ConnectionTimeoutError) else httpx2.ReadTimeout
        return timed_out(text)
    if isinstance(error, aiohttp.ClientConnectorError):
        return httpx2.ConnectError(text)
    if isinstance(error, OSError):
        return httpx2.ReadError(text)
    return httpx2.RemoteProtocolError(text)
