"""The connections to Telegram: none is lost by whatever is cancelled, and a pool that has lost some is made anew."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import httpcore
import httpx
import pytest
from telegram import Bot
from telegram.error import NetworkError

from channels.errors import Uncertain
from channels.telegram.bot import CONNECTIONS, UNWRITTEN, BotRequests, told
from tests.channels.telegram_line import ANNA, PRIVATE, Line, opened
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

OPTIONS: dict[str, Any] = {"connect_timeout": 30, "read_timeout": 30, "write_timeout": 30}


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with opened() as line:
        yield line


@pytest.fixture
def peer(line: Line) -> TelegramPeer:
    return line.peer


def pool_of(requests: BotRequests) -> Any:
    """The library's pool: what it believes to be under way is what it may have lost."""
    return requests._client._transport._pool  # type: ignore[attr-defined]


def nothing(_: int) -> None:
    pass


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
async def test_calls_that_are_cancelled_at_any_moment_cost_no_connection(peer: TelegramPeer, at_once: int) -> None:
    renewals: list[int] = []
    requests = BotRequests(4, renewals.append, **OPTIONS)
    url = f"{peer.root}/bot{TOKEN}/getMe"
    await cancelled_at_random(lambda: requests.do_request(url, "POST"), rounds=60, at_once=at_once, seed=at_once)
    answers = await asyncio.gather(*(requests.do_request(url, "POST") for _ in range(12)))
    assert [status for status, _ in answers] == [200] * 12
    pool = pool_of(requests)
    assert "Requests: 0 active, 0 queued" in repr(pool)
    assert all(one.is_idle() for one in pool.connections), pool.connections
    assert renewals == []
    await requests.shutdown()


async def test_what_waits_for_its_turn_and_is_cancelled_is_never_sent(peer: TelegramPeer) -> None:
    peer.fault("getMe", "delay", seconds=0.5)
    requests = BotRequests(1, nothing, **OPTIONS)
    first = asyncio.ensure_future(requests.do_request(f"{peer.root}/bot{TOKEN}/getMe", "POST"))
    second = asyncio.ensure_future(requests.do_request(f"{peer.root}/bot{TOKEN}/logOut", "POST"))
    await peer.until(lambda: peer.count("getMe") == 1)
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (await requests.do_request(f"{peer.root}/bot{TOKEN}/getMe", "POST"))[0] == 200
    assert peer.count("logOut") == 0
    await requests.shutdown()


async def test_a_pool_that_lost_its_connections_is_made_anew_and_the_message_is_sent(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "hi")
    await line.send("before")
    actions = line.channel.actions
    assert actions is not None
    requests = actions.connection.requests[1]
    assert isinstance(requests, BotRequests)
    pool = pool_of(requests)
    await pool.aclose()
    origin = httpcore.Origin(b"http", b"127.0.0.1", peer.port)
    pool._connections[:] = [pool.create_connection(origin) for _ in range(CONNECTIONS)]
    await line.send("after")
    assert [text for who, text in peer.transcript(ANNA) if who == "bot"] == ["before", "after"]
    assert any("reopened" in event for event in line.log.events)
    assert line.channel.remarks() == ["The connections to Telegram were stuck and were reopened, 1 times since the start."]


async def test_a_typing_sign_that_is_cancelled_leaves_the_line_whole(peer: TelegramPeer, line: Line) -> None:
    await peer.say(ANNA, "hi")
    await line.send("before")
    await cancelled_at_random(lambda: line.channel.typing(PRIVATE), rounds=60, at_once=20, seed=7)
    await line.send("after")
    assert [text for who, text in peer.transcript(ANNA) if who == "bot"] == ["before", "after"]


async def cut_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def test_nothing_is_in_doubt_where_nobody_listens(line: Line) -> None:
    server = await asyncio.start_server(cut_at_once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    requests = BotRequests(2, nothing, **OPTIONS)
    with pytest.raises(NetworkError, match=UNWRITTEN):
        await requests.do_request(f"http://127.0.0.1:{port}/", "POST")
    await requests.shutdown()


@pytest.mark.parametrize(("kind", "wanted"), [("drop_before", Uncertain), ("drop_after", Uncertain), ("status", Uncertain)])
async def test_what_was_written_and_cut_is_in_doubt(peer: TelegramPeer, line: Line, kind: str, wanted: type[Exception]) -> None:
    await peer.say(ANNA, "hi")
    peer.fault("sendMessage", kind, code=502)
    with pytest.raises(wanted):
        await line.send("hello")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (httpx.ConnectError("[Errno -2] Name or service not known"), "127.0.0.1 cannot be found: this machine is offline"),
        (httpx.ConnectError("All connection attempts failed"), "no connection to 127.0.0.1 (All connection attempts failed)"),
        (httpx.ConnectTimeout(""), "no connection to 127.0.0.1 in time: this machine is offline"),
        (httpx.ReadTimeout(""), "127.0.0.1 did not answer in time"),
        (httpx.ReadError(""), "the line to 127.0.0.1 was cut before an answer came"),
        (httpx.RemoteProtocolError("Server disconnected"), "the line to 127.0.0.1 was cut before an answer came"),
        (None, "Bad Gateway (502)"),
    ],
)
def test_what_is_wrong_with_the_line_is_told_in_plain_words(cause: Exception | None, words: str) -> None:
    bot = Bot(TOKEN, base_url="http://127.0.0.1:8081/bot")
    error = NetworkError(f"Bad Gateway (502). Parsing the server response b'<html>{TOKEN}</html>' failed")
    error.__cause__ = cause
    assert told(error, bot).startswith(words)
    assert "httpx" not in told(error, bot)
    assert TOKEN not in told(error, bot)


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([], False),
        ([("http11.send_request_headers.started", None), ("http11.send_request_headers.failed", OSError())], False),
        ([("http11.send_request_body.started", None), ("http11.send_request_body.failed", httpx.WriteError("cut"))], False),
        ([("http11.send_request_body.started", None), ("http11.send_request_body.failed", httpx.WriteTimeout("slow"))], True),
        ([("http11.send_request_body.started", None), ("http11.send_request_body.complete", None)], True),
    ],
)
async def test_a_request_left_only_when_all_of_it_may_have(events: list[tuple[str, Exception | None]], left: bool) -> None:
    from channels.telegram.bot import may_have_left, traced

    request = httpx.Request("POST", "http://127.0.0.1/")
    await traced(request)
    for event, error in events:
        await request.extensions["trace"](event, {"exception": error})
    assert may_have_left(httpx.ReadError("cut", request=request)) is left
    assert may_have_left(httpx.ReadError("cut"))
