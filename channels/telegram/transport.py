"""Carries the client library's requests over aiohttp. Importing this module loads both libraries.

What the library brings for it, httpx, takes several times as much CPU time as the rest of a request. A sender is told two things here:
whether a request that failed may have left as a whole (``NotWritten``), and what is wrong with the connection. No error holds an
address, because addresses carry the token.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import aiohttp
from aiohttp.payload import Payload
from telegram.error import NetworkError, TelegramError
from telegram.request import BaseRequest, RequestData

from channels.common.json_answers import in_between, is_page
from channels.telegram.proxy import SOCKS, socks_connector, socks_failures
from channels.waits import seconds_to_wait

if TYPE_CHECKING:
    import ssl

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import StreamWriter

BLOCK: Final = 64 * 1024
UPLOAD_SECONDS: Final = 20.0
"""How long the server may take for one block of a file, where the caller names no time."""
_NAME_SERVICE = ("Name or service not known", "name resolution", "nodename nor servname", "No address associated")


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long a connection may take to be made, the server may be silent, and one block may take to leave."""

    connect: float
    read: float
    write: float


UNTOLD_WAIT: Final = 5.0
"""Seconds to wait after "too many requests" where the answer does not say how long."""
_TOO_MANY: Final = 429


class NotWritten(NetworkError):
    """A request did not leave as a whole, so that it has no effect."""


class InBetween(NetworkError):
    """Something between here and the server refused a request: the server itself has said nothing."""


class Transport(BaseRequest):
    """An HTTP client of the Bot API. It is opened by its first request, in the event loop that then runs.

    ``proxy`` is an address (http, https or socks5). Redirects are answers like any other, and nothing is repeated.
    """

    __slots__ = ("_closed", "_context", "_failures", "_proxy", "_seconds", "_session")

    def __init__(self, context: ssl.SSLContext, proxy: str | None, seconds: Seconds) -> None:
        self._context = context
        self._proxy = proxy
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._failures: tuple[type[Exception], ...] = (aiohttp.ClientError, OSError)

    @property
    def read_timeout(self) -> float:
        """Seconds of silence after which a request fails, unless it names others."""
        return self._seconds.read

    async def initialize(self) -> None:
        """Do nothing: the first request opens the client."""

    async def shutdown(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the answer, with a time to wait that the library can read, wherever the server asks to wait."""
        answer: Any = BaseRequest.parse_json_payload(payload)
        if not isinstance(answer, dict):
            raise TelegramError("Invalid server response")
        parameters = answer.get("parameters")
        told = parameters if isinstance(parameters, dict) else {}
        if answer.get("error_code") == _TOO_MANY or told.get("retry_after"):
            answer["parameters"] = told | {"retry_after": seconds_to_wait(told.get("retry_after")) or UNTOLD_WAIT}
        return answer

    async def do_request(  # noqa: PLR0917 - as the library calls it
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        write_timeout: Any = BaseRequest.DEFAULT_NONE,
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,  # noqa: ARG002 - no request waits for a connection here
    ) -> tuple[int, bytes]:
        """Make a request, and return the status and the content of the answer.

        Raises:
            NotWritten: it did not leave.
            InBetween: something before the server refused it.
            NetworkError: it may have left, and there is no whole answer.
        """
        unset, usual = BaseRequest.DEFAULT_NONE, self._seconds
        body = body_of(request_data)
        if write_timeout is unset:
            write_timeout = UPLOAD_SECONDS if body.uploads else usual.write
        body.seconds = write_timeout
        timeout = aiohttp.ClientTimeout(
            total=None,
            sock_connect=usual.connect if connect_timeout is unset else connect_timeout,
            sock_read=usual.read if read_timeout is unset else read_timeout,
        )
        try:
            async with self._opened().request(method, url, data=body, timeout=timeout, allow_redirects=False) as answer:
                status, content = answer.status, await answer.read()
        except self._failures as error:
            kind = NetworkError if body.left else NotWritten
            raise kind(body.unreadable or words_of(error, urlsplit(url).hostname or "")) from None
        if is_page(status) and not _is_own(content):
            raise InBetween(in_between(urlsplit(url).hostname or "", status))
        return status, content

    @asynccontextmanager
    async def stream(self, url: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Ask for a file, as it is stored. Raises ``NetworkError``."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._seconds.connect, sock_read=self._seconds.read)
        headers = {"Accept-Encoding": "identity"}
        try:
            async with self._opened().get(
                url, headers=headers, timeout=timeout, allow_redirects=False, auto_decompress=False
            ) as answer:
                yield answer
        except self._failures as error:
            raise NetworkError(words_of(error, urlsplit(url).hostname or "")) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the connections to Telegram were closed")
        if self._session is None:
            lasting: dict[str, Any] = {"ssl": self._context, "limit": 0, "keepalive_timeout": KEPT_SECONDS}
            socks = self._proxy is not None and self._proxy.startswith(SOCKS)
            if socks:
                self._failures += socks_failures()
            self._session = aiohttp.ClientSession(
                connector=socks_connector(str(self._proxy), lasting) if socks else aiohttp.TCPConnector(**lasting),
                headers={"User-Agent": self.USER_AGENT},
                cookie_jar=aiohttp.DummyCookieJar(),
                proxy=None if socks else self._proxy,
            )
        return self._session


KEPT_SECONDS: Final = 5.0
"""How long an unused connection is kept. One that the server closes in the moment in which it is used leaves a message in doubt."""


class PatientTransport(Transport):
    """A transport with a limit of requests at once, which wait in the order of asking, and none of which is cancelled once begun.

    To cancel a request ends its connection, and a new one takes several round trips. A typing sign is cancelled whenever an answer is
    ready: the caller stops waiting, and the request ends by itself. One that still waits for its turn is not made.
    """

    __slots__ = ("_begun", "_places")

    def __init__(self, context: ssl.SSLContext, proxy: str | None, seconds: Seconds, *, at_once: int) -> None:
        super().__init__(context, proxy, seconds)
        self._places = asyncio.Semaphore(at_once)
        self._begun: set[asyncio.Task[tuple[int, bytes] | Exception]] = set()

    async def do_request(self, url: str, method: str, *args: Any, **options: Any) -> tuple[int, bytes]:
        """See ``Transport.do_request``."""
        await self._places.acquire()
        task = asyncio.ensure_future(self._outcome(url, method, *args, **options))
        self._begun.add(task)
        task.add_done_callback(self._ended)
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def shutdown(self) -> None:
        """Close the connections; a request that is still under way is broken off."""
        for task in self._begun:
            task.cancel()
        await asyncio.gather(*self._begun, return_exceptions=True)
        await super().shutdown()

    def _ended(self, task: asyncio.Task[tuple[int, bytes] | Exception]) -> None:
        self._begun.discard(task)
        self._places.release()

    async def _outcome(self, url: str, method: str, *args: Any, **options: Any) -> tuple[int, bytes] | Exception:
        """Return the answer or the error, so that an error nobody awaits is not reported as lost."""
        try:
            return await super().do_request(url, method, *args, **options)
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
            return error


class Body(Payload):
    """What a request carries, in pieces: bytes, and files, which are read while they are sent.

    ``left`` is whether all of it may have left. It becomes true when the last piece is handed to the connection, and false again if the
    connection was closed before: what was not written is missing, and a server does nothing about a part. ``unreadable`` says why a
    file could not be read; ``seconds`` is how long a block may take to leave.
    """

    def __init__(self, pieces: Sequence[bytes | IO[bytes]], content_type: str) -> None:
        super().__init__(pieces, content_type=content_type)
        self.seconds: float | None = None
        self.left = False
        self.unreadable = ""
        self.uploads = len(pieces) > 1
        self._pieces = [(piece, len(piece) if isinstance(piece, bytes) else _length(piece)) for piece in pieces]
        self._size = sum(length for _, length in self._pieces)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the pieces that are in memory, for the library's error texts."""
        return b"".join(piece for piece, _ in self._pieces if isinstance(piece, bytes)).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all pieces.

        Raises:
            TimeoutError: a block did not leave in time.
            OSError: the connection was closed, or a file cannot be read.
            EOFError: a file became shorter.
        """
        stream = cast("StreamWriter", writer)
        for number, (piece, length) in enumerate(self._pieces, 1):
            last = number == len(self._pieces)
            if isinstance(piece, bytes):
                await self._hand_over(stream, piece, last=last)
                continue
            for start in range(0, length, BLOCK):
                block = await self._read(piece, min(BLOCK, length - start))
                await self._hand_over(stream, block, last=False)

    async def _read(self, file: IO[bytes], size: int) -> bytes:
        try:
            block = await asyncio.to_thread(file.read, size)
        except OSError as error:
            self.unreadable = f"the file cannot be read: {error.strerror or error}"
            raise
        if len(block) < size:
            self.unreadable = "the file became shorter while it was sent"
            raise EOFError
        return block

    async def _hand_over(self, stream: StreamWriter, block: bytes, *, last: bool) -> None:
        self.left = last
        try:
            await stream.write(block, drain=False)
        except aiohttp.ClientConnectionResetError:  # it was closed before
            self.left = False
            raise
        async with asyncio.timeout(self.seconds):
            await stream.drain()


def _is_own(content: bytes) -> bool:
    """Return whether an answer is one of a Bot API server."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "ok" in found


def _length(piece: IO[bytes]) -> int:
    at = piece.tell()
    end = piece.seek(0, os.SEEK_END)
    piece.seek(at)
    return end - at


def body_of(data: RequestData | None) -> Body:
    """Return what a request carries: a form, in parts where it has files."""
    if data is None or not data.contains_files:
        text = "" if data is None else data.url_encoded_parameters()
        return Body([text.encode()], "application/x-www-form-urlencoded")
    boundary = secrets.token_hex(16)
    fields = (_head(boundary, name) + value.encode() + b"\r\n" for name, value in data.json_parameters.items())
    pieces: list[bytes | IO[bytes]] = [b"".join(fields)]
    for name, (filename, content, media_type) in data.multipart_data.items():
        head = _head(boundary, name, f'; filename="{_quoted(filename)}"\r\nContent-Type: {media_type}')
        pieces += [head, content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return Body(pieces, f"multipart/form-data; boundary={boundary}")


def _head(boundary: str, name: str, more: str = "") -> bytes:
    return f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(name)}"{more}\r\n\r\n'.encode()


def _quoted(name: str) -> str:
    """Return a name as HTML writes it into a form (https://html.spec.whatwg.org/#multipart-form-data)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def words_of(error: BaseException, host: str) -> str:  # noqa: C901, PLR0911 - one case a kind of error
    """Return what is wrong with the connection to a server."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy does not let us through to {host} ({error.status} {error.message})"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy does not let us through to {host} ({_reason(error)})"
        case aiohttp.ClientConnectorError() if any(sign in str(error) for sign in _NAME_SERVICE):
            return f"{host} cannot be found: this machine is offline, or its name service does not answer"
        case aiohttp.ClientConnectorError():
            return f"no connection to {host} ({_reason(error)})"
        case Exception() if type(error).__module__.startswith("aiohttp_socks"):
            return f"the proxy does not let us through to {host} ({str(error)[:200] or type(error).__name__})"
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {host} in time: this machine is offline, or something blocks the way"
        case aiohttp.ServerTimeoutError():
            return f"{host} did not answer in time"
        case TimeoutError():
            return f"{host} did not take the request in time"
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | ConnectionError():
            return f"the line to {host} was cut before an answer came"
        case aiohttp.ClientResponseError():
            return f"{host} did not answer in HTTP ({error.message})"
    return f"no answer of {host} ({type(error).__name__})"


def _reason(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    return error.os_error.strerror or str(error.os_error) or "refused"
