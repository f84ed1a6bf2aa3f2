"""The connections to Telegram: what may have left is known, none is lost by whatever is cancelled, and no error holds the token."""

from __future__ import annotations

import asyncio
import io
import json
import random
import traceback
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import pytest
from aiohttp.client_reqrep import ConnectionKey, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from telegram import Bot, InputFile
from telegram.error import NetworkError
from yarl import URL

from channels.errors import ChannelBroken, Uncertain
from channels.messages import OutboundFile
from channels.telegram.bot import describe_error
from channels.telegram.proxy import proxy_of
from channels.telegram.settings import TelegramSettings
from channels.telegram.transport import BLOCK, InBetween, NotWritten, PatientTransport, Seconds, Transport, words_of
from tests.channels.telegram_line import ANNA, PRIVATE, Line, opened
from tests.patience import PATIENCE
from tests.peers import telegram_files
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

LONG = Seconds(connect=PATIENCE, read=PATIENCE, write=PATIENCE)
CONTEXT = httpx.create_ssl_context()
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}'


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with opened() as line:
        yield line


@pytest.fixture
def peer(line: Line) -> TelegramPeer:
    return line.peer


class Server:
    """A port whose connections are served by a function, and counted."""

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._serve = serve
        self.accepted = 0
        self.root = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self.one, "127.0.0.1", 0)
        self.root = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)


async def whole(reader: asyncio.StreamReader) -> bytes:
    """Read a whole request."""
    head = await reader.readuntil(b"\r\n\r\n")
    size = next((int(one.split(b":")[1]) for one in head.lower().split(b"\r\n") if one.startswith(b"content-length:")), 0)
    return head + await reader.readexactly(size)


@asynccontextmanager
async def transport(kind: type[Transport] = Transport, proxy: str | None = None, **more: Any) -> AsyncIterator[Transport]:
    seconds = Seconds(**{"connect": PATIENCE, "read": PATIENCE, "write": PATIENCE} | more.pop("seconds", {}))
    made = kind(CONTEXT, proxy, seconds, **more)
    try:
        yield made
    finally:
        await made.shutdown()


def upload(made: Transport, root: str, content: io.BytesIO | bytes, name: str = "x.bin", **more: Any) -> Awaitable[Any]:
    """Send a file."""
    file = InputFile(io.BytesIO(content) if isinstance(content, bytes) else content, filename=name, read_file_handle=False)
    return Bot(TOKEN, base_url=f"{root}/bot", request=made).send_document(1, file, **more)


async def failure(asked: Awaitable[Any]) -> NetworkError:
    """Return the error of a request, in which no token may stand."""
    with pytest.raises(NetworkError) as caught:
        await asked
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    return caught.value


def url_of(root: str) -> str:
    return f"{root}/bot{TOKEN}/sendMessage"


# -- what may have left ----------------------------------------------------------------------------------------------


async def test_a_request_to_a_port_where_nobody_listens_did_not_leave() -> None:
    async with Server(lambda *_: asyncio.sleep(0)).open() as server:
        root = server.root
    async with transport() as made:
        error = await failure(made.do_request(url_of(root), "POST"))
    assert isinstance(error, NotWritten)
    assert str(error).startswith("no connection to 127.0.0.1")


async def test_a_request_over_tls_to_a_server_without_it_did_not_leave() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with Server(plain).open() as server, transport() as made:
        error = await failure(made.do_request(url_of(server.root.replace("http:", "https:")), "POST"))
    assert isinstance(error, NotWritten)


async def test_a_request_whose_connection_is_cut_before_an_answer_is_in_doubt() -> None:
    async def cut(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await whole(reader)

    async with Server(cut).open() as server, transport() as made:
        error = await failure(made.do_request(url_of(server.root), "POST"))
        assert server.accepted == 1, "a request with an effect is never repeated by the client"
    assert not isinstance(error, NotWritten)
    assert str(error) == "the line to 127.0.0.1 was cut before an answer came"


async def test_an_upload_that_is_cut_in_its_middle_did_not_leave() -> None:
    async def cut(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(100_000)

    async with Server(cut).open() as server, transport() as made:
        error = await failure(upload(made, server.root, bytes(30_000_000)))
    assert isinstance(error, NotWritten)


async def test_an_upload_that_is_cut_after_its_end_is_in_doubt() -> None:
    async def cut(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await whole(reader)

    async with Server(cut).open() as server, transport() as made:
        error = await failure(upload(made, server.root, bytes(3_000_000)))
    assert not isinstance(error, NotWritten)


async def test_an_upload_that_the_server_does_not_take_ends_in_time_and_did_not_leave() -> None:
    async with Server(lambda *_: asyncio.sleep(PATIENCE)).open() as server, transport() as made:
        error = await failure(upload(made, server.root, bytes(30_000_000), write_timeout=0.2))
    assert isinstance(error, NotWritten)
    assert str(error) == "127.0.0.1 did not take the request in time"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"])
async def test_a_server_that_falls_silent_leaves_the_request_in_doubt(answer: bytes) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await whole(reader)
        writer.write(answer)
        await asyncio.sleep(PATIENCE)

    async with Server(silent).open() as server, transport(seconds={"read": 0.2}) as made:
        error = await failure(made.do_request(url_of(server.root), "POST"))
    assert not isinstance(error, NotWritten)
    assert str(error) == "127.0.0.1 did not answer in time"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{", b"hello\r\n\r\n"])
async def test_an_answer_that_is_cut_or_no_http_leaves_the_request_in_doubt(answer: bytes) -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await whole(reader)
        writer.write(answer)
        writer.write_eof()
        await reader.read()

    async with Server(odd).open() as server, transport() as made:
        error = await failure(made.do_request(url_of(server.root), "POST"))
    assert not isinstance(error, NotWritten)
    assert "127.0.0.1" in str(error)


async def test_a_file_that_becomes_shorter_while_it_is_sent_is_not_sent() -> None:
    class Shrinking(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(size)[:10]

    async def take(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await whole(reader)

    async with Server(take).open() as server, transport() as made:
        error = await failure(upload(made, server.root, Shrinking(bytes(BLOCK * 3))))
    assert isinstance(error, NotWritten)
    assert str(error) == "the file became shorter while it was sent"


@pytest.mark.parametrize(("kind", "wanted"), [("drop_before", Uncertain), ("drop_after", Uncertain), ("status", Uncertain)])
async def test_what_was_written_and_cut_is_in_doubt(peer: TelegramPeer, line: Line, kind: str, wanted: type[Exception]) -> None:
    await peer.say(ANNA, "hi")
    peer.fault("sendMessage", kind, code=502)
    with pytest.raises(wanted):
        await line.send("hello")


# -- answers ---------------------------------------------------------------------------------------------------------


async def test_a_redirect_is_not_followed() -> None:
    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await whole(reader)
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        assert await reader.read(1) == b""

    async with Server(elsewhere).open() as server, transport() as made:
        with pytest.raises(InBetween, match="302"):
            await made.do_request(url_of(server.root), "POST")


async def test_an_answer_that_comes_before_the_upload_ends_is_read() -> None:
    async def too_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!")
        await asyncio.sleep(PATIENCE)

    async with Server(too_large).open() as server, transport() as made:
        error = await failure(upload(made, server.root, bytes(30_000_000)))
    assert str(error).startswith("Request Entity Too Large (413)")


async def test_a_refusal_is_an_answer_with_its_content(peer: TelegramPeer) -> None:
    peer.fault("getMe", "retry_after", seconds=7)
    async with transport() as made:
        status, content = await made.do_request(f"{peer.root}/bot{TOKEN}/getMe", "POST")
    assert (status, json.loads(content)["parameters"]) == (429, {"retry_after": 7})


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a.txt", "a.txt"),
        ("r\u00e9sum\u00e9 \u65e5\u672c.pdf", "r\u00e9sum\u00e9 \u65e5\u672c.pdf"),
        ('a "b".txt', "a %22b%22.txt"),
    ],
)
async def test_a_file_arrives_byte_for_byte_under_its_name(
    line: Line, tmp_path: Path, size: int, name: str, shown: str
) -> None:
    content = random.Random(size).randbytes(size)
    path = tmp_path / "file"
    path.write_bytes(content)
    await line.peer.say(ANNA, "hi")
    await line.send("see", enclosure=OutboundFile(path=path, name=name, media_type="text/plain"))
    [(_, received, bytes_received)] = line.peer.chats.received
    assert (received, bytes_received) == (shown, content)


async def test_a_name_cannot_add_a_line_to_what_is_sent() -> None:
    heard: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await whole(reader))
        writer.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")

    async with Server(take).open() as server, transport() as made:
        await failure(upload(made, server.root, b"x", 'a"\r\nX-Evil: 1\r\n\r\n.txt'))
    assert b"\r\nX-Evil" not in heard[0]


# -- connections -----------------------------------------------------------------------------------------------------


async def cancelled_at_random(ask: Callable[[], Any], rounds: int, at_once: int, seed: int) -> None:
    """Make calls, and cancel half of them after a few steps of the loop."""
    drawn = random.Random(seed)
    for _ in range(rounds):
        tasks = [asyncio.ensure_future(ask()) for _ in range(at_once)]
        for _ in range(drawn.randrange(60)):
            await asyncio.sleep(0)
        for task in drawn.sample(tasks, at_once // 2):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("at_once", [3, 8, 20])
async def test_calls_that_are_cancelled_at_any_moment_cost_no_connection(at_once: int) -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await whole(reader)
            writer.write(OK)

    async with Server(answering).open() as server, transport(PatientTransport, at_once=4) as made:
        url = url_of(server.root)
        await cancelled_at_random(lambda: made.do_request(url, "POST"), rounds=60, at_once=at_once, seed=at_once)
        answers = await asyncio.gather(*(made.do_request(url, "POST") for _ in range(12)))
        assert [status for status, _ in answers] == [200] * 12
        assert server.accepted <= 4


async def test_requests_at_once_are_limited_and_the_others_wait_in_the_order_of_asking(peer: TelegramPeer) -> None:
    peer.fault("getMe", "delay", times=3, seconds=0.2)
    ended: list[int] = []
    async with transport(PatientTransport, at_once=1) as made:

        async def ask(number: int) -> None:
            await made.do_request(f"{peer.root}/bot{TOKEN}/getMe", "POST")
            ended.append(number)

        asked = [asyncio.ensure_future(ask(number)) for number in range(3)]
        await peer.until(lambda: peer.count("getMe") == 1)
        await asyncio.gather(*asked)
    assert ended == [0, 1, 2]


async def test_what_waits_for_its_turn_and_is_cancelled_is_never_sent(peer: TelegramPeer) -> None:
    peer.fault("getMe", "delay", seconds=0.5)
    async with transport(PatientTransport, at_once=1) as made:
        first = asyncio.ensure_future(made.do_request(f"{peer.root}/bot{TOKEN}/getMe", "POST"))
        second = asyncio.ensure_future(made.do_request(f"{peer.root}/bot{TOKEN}/logOut", "POST"))
        await peer.until(lambda: peer.count("getMe") == 1)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert (await made.do_request(f"{peer.root}/bot{TOKEN}/getMe", "POST"))[0] == 200
    assert peer.count("logOut") == 0


async def test_a_poll_that_is_cancelled_ends_its_connection() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def waiting(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await whole(reader)
        asked.set()
        await reader.read()
        ended.set()

    async with Server(waiting).open() as server, transport() as made:
        poll = asyncio.ensure_future(made.do_request(url_of(server.root), "POST"))
        await asked.wait()
        poll.cancel()
        await asyncio.wait_for(ended.wait(), PATIENCE)


async def test_a_request_that_is_under_way_when_the_connections_are_closed_is_broken_off() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def waiting(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await whole(reader)
        asked.set()
        await reader.read()
        ended.set()

    async with Server(waiting).open() as server:
        async with transport(PatientTransport, at_once=2) as made:
            request = asyncio.ensure_future(made.do_request(url_of(server.root), "POST"))
            await asked.wait()
        await asyncio.gather(request, return_exceptions=True)
        assert request.cancelled()
        await asyncio.wait_for(ended.wait(), PATIENCE)
        with pytest.raises(RuntimeError, match="were closed"):
            await made.do_request(url_of(server.root), "POST")


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced_and_the_message_is_sent(
    peer: TelegramPeer, line: Line
) -> None:
    await peer.say(ANNA, "hi")
    await line.send("before")
    await peer.go_away()
    await peer.come_back()
    await line.send("after")
    assert [text for who, text in peer.transcript(ANNA) if who == "bot"] == ["before", "after"]


async def test_a_typing_sign_that_is_cancelled_leaves_the_line_whole(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "hi")
    await line.send("before")
    await cancelled_at_random(lambda: line.channel.typing(PRIVATE), rounds=60, at_once=20, seed=7)
    await line.send("after")
    assert [text for who, text in peer.transcript(ANNA) if who == "bot"] == ["before", "after"]


# -- proxies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "root", "proxy"),
    [
        ({}, "https://api.telegram.org", None),
        ({"HTTPS_PROXY": "http://p:3128"}, "https://api.telegram.org", "http://p:3128"),
        ({"HTTPS_PROXY": "p:3128"}, "https://api.telegram.org", "http://p:3128"),
        ({"HTTP_PROXY": "http://p:3128"}, "https://api.telegram.org", None),
        ({"ALL_PROXY": "http://p:3128"}, "https://api.telegram.org", "http://p:3128"),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "telegram.org"}, "https://api.telegram.org", None),
        ({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "*"}, "https://api.telegram.org", None),
        ({"HTTP_PROXY": "http://p:3128", "NO_PROXY": "127.0.0.1"}, "http://127.0.0.1:8081", None),
        ({"HTTP_PROXY": "http://p:3128"}, "http://127.0.0.1:8081", "http://p:3128"),
    ],
)
def test_the_proxy_of_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], root: str, proxy: str | None
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(root) == proxy


def test_a_proxy_of_another_kind_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks4://me:hidden@p:1080")
    with pytest.raises(ChannelBroken, match="socks4") as caught:
        proxy_of("https://api.telegram.org")
    assert "hidden" not in str(caught.value) + caught.value.hint
    assert "NO_PROXY=api.telegram.org" in caught.value.hint


def test_a_proxy_of_the_settings_is_used_even_where_the_environment_excepts_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    assert proxy_of("https://api.telegram.org", "http://me:word@p:3128") == "http://me:word@p:3128"
    assert proxy_of("https://api.telegram.org", "socks5h://p:1080") == "socks5://p:1080"


async def test_a_request_goes_through_the_proxy() -> None:
    heard: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await whole(reader))
        writer.write(OK)

    async with Server(proxy).open() as server, transport(proxy=server.root.replace("//", "//me:word@")) as made:
        assert await made.do_request("http://far.example/botX/getMe", "POST") == (200, b'{"ok":true}')
    assert heard[0].startswith(b"POST http://far.example/botX/getMe HTTP/1.1\r\n")
    assert b"\r\nproxy-authorization: basic " in heard[0].lower()


async def test_what_a_proxy_refuses_did_not_leave() -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await whole(reader)
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    async with Server(refusing).open() as server, transport(proxy=server.root) as made:
        error = await failure(made.do_request(url_of("https://far.example"), "POST"))
    assert isinstance(error, NotWritten)
    assert str(error).startswith("the proxy does not let us through to far.example (407")


class Socks:
    """A SOCKS5 proxy with a password (RFC 1928, 1929), which connects to one port whatever the name."""

    def __init__(self, to: int, *, refusing: bool = False) -> None:
        self._to = to
        self._refusing = refusing
        self.asked: list[tuple[str, int]] = []
        self.words: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        assert 2 in await reader.readexactly(methods)
        writer.write(b"\x05\x02")
        _, length = await reader.readexactly(2)
        name = await reader.readexactly(length)
        word = await reader.readexactly((await reader.readexactly(1))[0])
        self.words.append(f"{name.decode()}:{word.decode()}")
        writer.write(b"\x01\x00")
        _, connect, _, kind, length = await reader.readexactly(5)
        assert (connect, kind) == (1, 3), "the name is looked up by the proxy"
        host = await reader.readexactly(length)
        self.asked.append((host.decode(), int.from_bytes(await reader.readexactly(2), "big")))
        writer.write(b"\x05" + (b"\x05" if self._refusing else b"\x00") + b"\x00\x01" + bytes(6))
        if self._refusing:
            await writer.drain()
            return
        back, onward = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.gather(passed_on(reader, onward), passed_on(back, writer))
        finally:
            onward.close()


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(65_536):
        writer.write(block)
        await writer.drain()
    writer.close()


async def test_every_call_and_download_goes_through_a_socks_proxy(peer: TelegramPeer, tmp_path: Path) -> None:
    socks = Socks(peer.port)
    async with Server(socks).open() as server:
        proxy = server.root.replace("http://", "socks5://me:hidden@")
        line = Line(peer, proxy=proxy, apiRoot="http://telegram.example")
        async with line.listening():
            await peer.say(ANNA, photo=telegram_files.put(peer.chats, "photo", b"\xff\xd8\xffpicture", "a.jpg", "image/jpeg"))
            [heard] = await line.heard()
            await line.channel.fetch(heard.attachments[0], tmp_path / "a.jpg", 1000)
            await line.send("through the proxy")
        await line.channel.close()
    assert (tmp_path / "a.jpg").read_bytes() == b"\xff\xd8\xffpicture"
    assert peer.transcript(ANNA)[-1] == ("bot", "through the proxy")
    assert set(socks.asked) == {("telegram.example", 80)}
    assert set(socks.words) == {"me:hidden"}
    assert "hidden" not in "".join(line.log.events) + repr(TelegramSettings.model_validate({"proxy": proxy}))


async def test_what_a_socks_proxy_refuses_did_not_leave() -> None:
    async with (
        Server(Socks(0, refusing=True)).open() as server,
        transport(proxy=server.root.replace("http://", "socks5://me:word@")) as made,
    ):
        error = await failure(made.do_request(url_of("https://far.example"), "POST"))
    assert isinstance(error, NotWritten)
    assert str(error).startswith("the proxy does not let us through to far.example (")
    assert "word" not in str(error)


# -- words -----------------------------------------------------------------------------------------------------------


KEY = ConnectionKey("127.0.0.1", 8081, False, True, None, None, None)  # noqa: FBT003 - as the library makes it
ASKED = RequestInfo(URL(f"http://127.0.0.1/bot{TOKEN}/x"), "POST", CIMultiDictProxy(CIMultiDict()), URL("http://127.0.0.1/"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "Name or service not known")),
            "127.0.0.1 cannot be found: this machine is offline",
        ),
        (
            aiohttp.ClientConnectorError(KEY, OSError(111, "All connection attempts failed")),
            "no connection to 127.0.0.1 (All connection attempts failed)",
        ),
        (
            aiohttp.ConnectionTimeoutError(f"Connection timeout to host http://127.0.0.1/bot{TOKEN}"),
            "no connection to 127.0.0.1 in time: this machine is offline",
        ),
        (aiohttp.SocketTimeoutError("Timeout on reading data"), "127.0.0.1 did not answer in time"),
        (aiohttp.ClientOSError(104, "reset"), "the line to 127.0.0.1 was cut before an answer came"),
        (aiohttp.ServerDisconnectedError(), "the line to 127.0.0.1 was cut before an answer came"),
        (aiohttp.ClientPayloadError("not enough data"), "the line to 127.0.0.1 was cut before an answer came"),
        (
            aiohttp.ClientResponseError(ASKED, (), message="Bad status line"),
            "127.0.0.1 did not answer in HTTP (Bad status line)",
        ),
        (aiohttp.InvalidURL(f"http://127.0.0.1/bot{TOKEN}"), "no answer of 127.0.0.1 (InvalidURL)"),
    ],
)
def test_what_is_wrong_with_the_line_is_told_in_plain_words(error: Exception, words: str) -> None:
    assert words_of(error, "127.0.0.1").startswith(words)
    assert TOKEN not in words_of(error, "127.0.0.1")


def test_a_page_in_place_of_an_answer_is_told_without_its_content() -> None:
    bot = Bot(TOKEN, base_url="http://127.0.0.1:8081/bot", request=Transport(CONTEXT, None, LONG))
    error = NetworkError(f"Bad Gateway (502). Parsing the server response b'<html>{TOKEN}</html>' failed")
    assert describe_error(error, bot) == "Bad Gateway (502)"
    assert TOKEN not in describe_error(NetworkError(f"Unauthorized: {TOKEN}"), bot)
