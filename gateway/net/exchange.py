"""One HTTP request to one judged target, with a limit on everything that the other side may send. Loads the HTTP library."""

from __future__ import annotations

import mimetypes
import ssl
import zlib
from email.message import Message
from typing import Final

import httpcore2
from msgspec.structs import replace

from agent.errors import FetchFailed
from agent.tools.web.fetch_protocol import Fetched, FetchRequest
from gateway.net.connection_guard import GuardedBackend, Judge, Network
from gateway.net.targets import Target

USER_AGENT: Final = "Mozilla/5.0 (compatible; Homebody/0.1; a personal agent)"
STEP_SECONDS: Final = 15.0
"""How long a single read or write may take."""
MAX_RATIO: Final = 100
"""A body that reaches its limit and was packed more than this many times smaller is a decompression bomb."""
MAX_ETAG: Final = 1000
MAX_CHALLENGE: Final = 1000
_PACKED: Final = {"gzip": 31, "x-gzip": 31, "deflate": 47}
"""Content encodings that are asked for, with the window bits that zlib wants; 47 reads gzip and zlib alike."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ERRORS: Final = 400
_KNOWN_ENCODINGS: Final = frozenset({"gzip", "x-gzip", "deflate", "compress", "br", "zstd", "dcb", "dcz", "exi"})
_KNOWN_TYPES: Final = frozenset(mimetypes.types_map.values())
"""A server's own words are no part of an error: a model would read them as ours."""
_NO_BODY: Final = frozenset({204, 304})


async def exchange(
    request: FetchRequest, target: Target, *, network: Network, tls: ssl.SSLContext, judge: Judge | None = None
) -> tuple[Fetched, str]:
    """Ask a target; return the answer, and where it redirects to or "". The connection is made for this request and closed with it.

    Raises:
        FetchRefused: it resolves to an address that may not be connected to.
        FetchFailed: no valid answer came, or it is of a type or size that is refused.
    """
    backend = GuardedBackend(network, target, judge=judge)
    origin = httpcore2.Origin(target.scheme.encode(), target.host.encode(), target.port)
    url = httpcore2.URL(scheme=origin.scheme, host=origin.host, port=target.port, target=target.path.encode())
    step = request.step_seconds or STEP_SECONDS
    timeouts = {"connect": min(step, STEP_SECONDS), "read": step, "write": step}
    sent = httpcore2.Request(
        request.method, url, headers=_headers(request, target), content=request.body or None, extensions={"timeout": timeouts}
    )
    connection = httpcore2.AsyncHTTPConnection(origin, ssl_context=tls, network_backend=backend)
    try:
        return await _read(await connection.handle_async_request(sent), request, target)
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise FetchFailed(f"{target.place}: {_error_in_words(error)}") from error
    finally:
        await connection.aclose()


def _headers(request: FetchRequest, target: Target) -> list[tuple[bytes, bytes]]:
    listed = [
        ("Host", target.authority),
        ("User-Agent", USER_AGENT),
        ("Accept", request.accept),
        ("Accept-Encoding", "gzip, deflate"),
        ("Connection", "close"),
        *request.headers,
    ]
    if request.body:
        listed.append(("Content-Length", str(len(request.body))))
    return [(name.encode("ascii"), value.encode("utf-8")) for name, value in listed]


def _all(response: httpcore2.Response, wanted: bytes) -> list[str]:
    return [value.decode("utf-8", "replace").strip() for name, value in response.headers if name.lower() == wanted]


async def _read(response: httpcore2.Response, request: FetchRequest, target: Target) -> tuple[Fetched, str]:
    headers = {name.decode("latin-1").lower(): value.decode("utf-8", "replace") for name, value in reversed(response.headers)}
    media_type, charset = _type(headers.get("content-type", ""))
    wait = headers.get("retry-after", "").strip()
    answer = Fetched(
        url=str(target),
        status=response.status,
        media_type=media_type,
        charset=charset,
        wait=int(wait[:6]) if wait.isdecimal() else None,
        etag=headers.get("etag", "").strip()[:MAX_ETAG],
        challenge=", ".join(_all(response, b"www-authenticate"))[:MAX_CHALLENGE],
    )
    if answer.status in _REDIRECTS and (location := headers.get("location")):
        return answer, location  # its body is not read
    if answer.status in _NO_BODY:
        return answer, ""
    limit = request.limit_of(media_type)
    if limit <= 0 and answer.status < _ERRORS:
        raise FetchFailed(f"it is of the type {media_type if media_type in _KNOWN_TYPES else 'unknown'}, which is not read")
    body, cut = await _body(response, Unpacker.of(headers.get("content-encoding", ""), max(limit, 0)))
    return replace(answer, body=body, cut=cut), ""


async def _body(response: httpcore2.Response, unpacker: Unpacker) -> tuple[bytes, str]:
    """Read up to the limit. What came before a connection broke off is kept, and the reason returned."""
    try:
        async for block in response.aiter_stream():
            if not unpacker.feed(block):
                return unpacker.body, f"only the first {unpacker.limit:,} bytes were read"
    except (httpcore2.RemoteProtocolError, httpcore2.ReadError) as error:
        if not unpacker.body:
            raise
        return unpacker.body, f"the connection broke off after {len(unpacker.body):,} bytes ({_error_in_words(error)})"
    except zlib.error as error:
        raise FetchFailed("what it sent cannot be unpacked") from error
    return unpacker.body, "" if unpacker.whole else f"what is packed ended too soon, after {len(unpacker.body):,} bytes"


class Unpacker:
    """Collects a body and undoes its content encoding, never producing more than ``limit`` bytes."""

    def __init__(self, window: int | None, limit: int) -> None:
        self.limit = limit
        self._unzip = zlib.decompressobj(window) if window is not None else None
        self._body = bytearray()
        self._came = 0

    @classmethod
    def of(cls, encoding: str, limit: int) -> Unpacker:
        """Make one for a ``Content-Encoding`` header. Raises FetchFailed for an encoding that was not asked for, or several."""
        named = [one for one in encoding.lower().replace(" ", "").split(",") if one not in {"", "identity"}]
        if len(named) > 1 or any(one not in _PACKED for one in named):
            known = ", ".join(one for one in named if one in _KNOWN_ENCODINGS)
            raise FetchFailed(f"it is packed as {known or 'something unknown'}, which was not asked for")
        return cls(_PACKED[named[0]] if named else None, limit)

    @property
    def body(self) -> bytes:
        """What has been unpacked so far."""
        return bytes(self._body)

    @property
    def whole(self) -> bool:
        """Whether what was packed has come to its own end."""
        return self._unzip is None or self._unzip.eof or not self._came

    def feed(self, block: bytes) -> bool:
        """Take a block; False where the limit is passed. Raises FetchFailed for a decompression bomb, and zlib's error."""
        self._came += len(block)
        room = self.limit + 1 - len(self._body)
        if self._unzip is None:
            self._body += block[:room]
        else:
            try:
                self._body += self._unzip.decompress(block, room)
            except zlib.error:
                if self._body or self._came != len(block):
                    raise
                self._unzip = zlib.decompressobj(-15)  # "deflate" without a header, as some servers send it
                self._body += self._unzip.decompress(block, room)
        if len(self._body) <= self.limit:
            return True
        del self._body[self.limit :]
        if self._unzip is not None and len(self._body) > MAX_RATIO * (self._came - len(self._unzip.unconsumed_tail)):
            raise FetchFailed(f"it unpacks to more than {MAX_RATIO} times its size: a decompression bomb")
        return False


def _type(header: str) -> tuple[str, str]:
    """Return the media type and the charset of a ``Content-Type`` header, in small letters."""
    if not header:
        return "", ""
    message = Message()
    message["Content-Type"] = header.replace("\r", " ").replace("\n", " ")
    return message.get_content_type().lower() if "/" in header else "", str(message.get_param("charset") or "").lower()


def _error_in_words(error: Exception) -> str:
    if isinstance(error, httpcore2.LocalProtocolError):
        return "the request cannot be sent: one of its headers is not valid"  # the library's message holds the header
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return f"the certificate or the TLS connection is not valid: {error}"
    if isinstance(error, httpcore2.RemoteProtocolError):
        return "what it sent is not valid HTTP, or ended too soon"
    return str(error) or {"ReadTimeout": "no answer in time"}.get(type(error).__name__, type(error).__name__)
