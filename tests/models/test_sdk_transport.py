"""What carries the SDKs' requests does it as the SDKs' own client does: the same bytes leave, and the same errors come back."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anthropic
import httpx2
import openai
import pytest

from agent.models.adapters.sdk_transport import SDKTransport, client_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SDKS = {"anthropic": anthropic, "openai": openai}
FINE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """A server that keeps what it is sent, and answers each request with ``answer``, or does as ``behaves`` says."""

    def __init__(self, answer: bytes = FINE, behaves: Behaviour | None = None) -> None:
        self.answer = answer
        self.behaves = behaves
        self.connections = 0
        self.left = asyncio.Event()
        """Set when the other end of a connection has closed it."""
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        async with server:
            yield self
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.behaves is not None:
                await self.behaves(reader, writer)
                return
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().strip().split("\r\n")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                headers["host"] = headers["host"].partition(":")[0]
                self.asked.append((first, headers, body))
                writer.write(self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


@pytest.fixture(params=["theirs", "ours"])
def transport(request: pytest.FixtureRequest) -> httpx2.AsyncBaseTransport:
    context = httpx2.create_ssl_context()
    return httpx2.AsyncHTTPTransport(verify=context) if request.param == "theirs" else SDKTransport(context)


async def posted(transport: httpx2.AsyncBaseTransport, url: str, body: bytes = b"{}", **seconds: float) -> httpx2.Response:
    async with httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(5, **{"read": 0.2, **seconds})) as client:
        return await client.post(url, content=body)


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("user", ["", "me:p%40ss@"])
async def test_the_same_request_leaves_as_from_the_sdks_own_client(name: str, user: str) -> None:
    sdk: Any = SDKS[name]
    kind = sdk.AsyncAnthropic if name == "anthropic" else sdk.AsyncOpenAI
    async with Server().running() as server:
        base = server.url.replace("//", f"//{user}") + "/v1%2Fown"
        for http_client in (None, client_for(sdk)):
            options = {"max_retries": 0, "default_headers": {"X-Team": "Kitchen"}, "http_client": http_client}
            async with kind(api_key="k", base_url=base, **options) as client:
                await client.post("/messages?beta=a%20b", content=b'{"a": 1}', cast_to=object)
                await client.get("/models/a%2Fb", cast_to=object)
    theirs, ours = server.asked[:2], server.asked[2:]
    assert ours == theirs
    assert [body for _, _, body in ours] == [b'{"a": 1}', b""]


async def ends_at_once(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n{}")


async def answers_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n{}")
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


async def breaks_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n{}")
    writer.write(FINE.replace(b"length: 2", b"length: 9"))
    await writer.drain()


async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n{}")
    writer.write(FINE.replace(b"length: 2", b"length: 9"))
    await writer.drain()
    writer.transport.abort()


async def is_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def falls_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n{}")
    writer.write(FINE.replace(b"length: 2", b"length: 9"))
    await reader.read()


@pytest.mark.parametrize(
    ("behaves", "error"),
    [
        (ends_at_once, httpx2.RemoteProtocolError),
        (answers_nonsense, httpx2.RemoteProtocolError),
        (breaks_off, httpx2.RemoteProtocolError),
        (resets, httpx2.NetworkError | httpx2.RemoteProtocolError),
        (is_silent, httpx2.ReadTimeout),
        (falls_silent, httpx2.ReadTimeout),
    ],
)
async def test_a_failure_has_the_name_that_the_sdks_know(
    transport: httpx2.AsyncBaseTransport, behaves: Behaviour, error: type[Exception]
) -> None:
    async with Server(behaves=behaves).running() as server:
        with pytest.raises(httpx2.TransportError) as raised:
            await posted(transport, server.url)
    assert isinstance(raised.value, error)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:9", httpx2.ConnectError),
        ("ftp://127.0.0.1/a", httpx2.UnsupportedProtocol),
    ],
)
async def test_what_cannot_be_reached_has_the_name_that_the_sdks_know(
    transport: httpx2.AsyncBaseTransport, url: str, error: type[Exception]
) -> None:
    with pytest.raises(httpx2.TransportError) as raised:
        await posted(transport, url)
    assert isinstance(raised.value, error)


async def knows_no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def test_a_server_without_tls_has_the_name_that_the_sdks_know(transport: httpx2.AsyncBaseTransport) -> None:
    async with Server(behaves=knows_no_tls).running() as server:
        with pytest.raises(httpx2.ConnectError):
            await posted(transport, server.url.replace("http:", "https:"))


async def test_a_server_that_does_not_finish_connecting_is_given_up(transport: httpx2.AsyncBaseTransport) -> None:
    async with Server(behaves=is_silent).running() as server:
        with pytest.raises(httpx2.ConnectTimeout):
            await posted(transport, server.url.replace("http:", "https:"), connect=0.2)


async def test_long_headers_are_read(transport: httpx2.AsyncBaseTransport) -> None:
    long = FINE.replace(b"\r\n\r\n", b"\r\nx-policy: " + b"a" * 30_000 + b"\r\n\r\n")
    async with Server(long).running() as server:
        assert len((await posted(transport, server.url)).headers["x-policy"]) == 30_000


async def test_a_connection_is_used_again_once_an_answer_was_read_whole(transport: httpx2.AsyncBaseTransport) -> None:
    async with Server().running() as server, httpx2.AsyncClient(transport=transport) as client:
        for _ in range(3):
            assert (await client.post(server.url, content=b"{}")).json() == {}
        assert server.connections == 1


async def test_a_connection_on_which_an_answer_was_left_is_closed(transport: httpx2.AsyncBaseTransport) -> None:
    begun = FINE.replace(b"length: 2", b"length: 9")
    async with Server(begun).running() as server, httpx2.AsyncClient(transport=transport) as client:
        async with client.stream("POST", server.url, content=b"{}") as answer:
            assert answer.status_code == 200
        await asyncio.wait_for(server.left.wait(), 5)


async def test_a_large_body_arrives_whole(transport: httpx2.AsyncBaseTransport) -> None:
    body = bytes(range(256)) * 20_000
    async with Server().running() as server:
        await posted(transport, server.url, body)
    assert server.asked[0][2] == body


async def test_what_a_server_compresses_is_read(transport: httpx2.AsyncBaseTransport) -> None:
    packed = gzip.compress(b'{"a": "b"}')
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    async with Server(head + packed).running() as server:
        assert (await posted(transport, server.url)).json() == {"a": "b"}


async def test_no_redirect_is_followed_below_the_sdks(transport: httpx2.AsyncBaseTransport) -> None:
    elsewhere = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"
    async with Server(elsewhere).running() as server:
        assert (await posted(transport, server.url)).status_code == 307
        assert len(server.asked) == 1


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "http_proxy", "ALL_PROXY"])
def test_where_there_are_proxies_the_sdks_use_their_own_client(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:3128")
    assert client_for(anthropic) is None
    assert client_for(openai) is None
