from __future__ import annotations

import asyncio
import json
import stat
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import structlog

from channels.errors import ChannelError, LinkLost, NotSent, NotStored, Uncertain
from channels.live import Delta, Done, Note, Rejected, Reply
from channels.messages import ChatAddress, Outbound
from channels.terminal.channel import TerminalChannel
from gateway.api import unix_socket
from gateway.api.api_client import MESSAGE_BYTES, ChatConnection, connection
from gateway.api.routes.chat_stream import ChatRoutes
from gateway.api.server import serve_unix
from gateway.base.clock import ManualClock
from gateway.base.errors import HomebodyError, StorageFailed, as_homebody_error
from gateway.cli.agent import answered
from tests.http.broken_server import broken
from tests.peers.door import BookDoor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HERE = ChatAddress(channel="terminal", kind="direct", id="local")


async def record(_: str) -> None:
    """Note nothing."""


class Served:
    """A terminal channel served at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.door = BookDoor()
        self.stopped = asyncio.Event()
        self.channel = TerminalChannel(clock=ManualClock(datetime(2026, 5, 1, tzinfo=UTC)), on_stop=self._stop)
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Serve until cancelled, the channel and its socket."""
        chat, log = ChatRoutes(self.channel), structlog.get_logger("gateway.api")
        running = asyncio.ensure_future(self.channel.run(self.door))
        try:
            await serve_unix(chat.routes(), self.path, log=log, started=self.listening.set, ending=chat.close)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _stop(self, _: ChatAddress) -> None:
        self.stopped.set()

    async def link(self, name: str = "local") -> ChatConnection:
        return await ChatConnection.open(self.path, name)


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Served]:
    served = Served(path)
    running = asyncio.ensure_future(served.run())
    await asyncio.wait([running, listening := asyncio.ensure_future(served.listening.wait())], return_when="FIRST_COMPLETED")
    assert listening.done(), running.result()
    try:
        yield served
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await served.channel.close()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "run" / "chat.sock") as served:
        yield served


async def test_a_message_and_its_answer_pass_the_socket(house: Served) -> None:
    link = await house.link()
    await link.say("grüß dich 👋", key="m1", hints={"session": "main"})
    assert house.door.texts == ["grüß dich 👋"]
    assert house.door.messages[0].hints == {"session": "main"}
    frames = link.frames()
    await house.channel.draft(HERE, "t1", "hel")
    assert await anext(frames) == Delta("hel", fresh=True)
    sending = asyncio.ensure_future(house.channel.send(Outbound(key="k", conversation=HERE, text="hello"), record))
    assert await anext(frames) == Reply("hello", "k")
    await sending
    house.channel.show(HERE, Done("t1", "m1", {"chunks": 1}))
    assert await anext(frames) == Done("t1", "m1", {"chunks": 1})
    await link.close()


async def test_a_message_that_the_storage_does_not_take_is_a_storage_error_for_a_program(
    house: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_: object) -> None:
        raise StorageFailed("the ledger could not be used: database or disk is full", hint="Free some space.")

    monkeypatch.setattr(house.door, "accept", full)
    link = await house.link()
    with pytest.raises(NotStored, match="disk is full") as caught:
        await link.say("hello", key="m1")
    known = as_homebody_error(caught.value)
    assert (type(known), known and known.hint) == (StorageFailed, "Free some space.")
    house.channel.show(HERE, Rejected("m2", "it could not be stored", "Free some space.", 6))
    with pytest.raises(StorageFailed):
        await answered(link, "m2")
    await link.close()


async def test_stop_arrives(house: Served) -> None:
    link = await house.link()
    await link.stop()
    assert house.stopped.is_set()
    await link.close()


async def test_the_socket_is_private(house: Served) -> None:
    assert stat.S_IMODE(house.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(house.path.parent.stat().st_mode) == 0o700


async def test_a_loose_directory_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    (tmp_path / "run").chmod(0o755)
    async with serving(tmp_path / "run" / "chat.sock") as house:
        assert stat.S_IMODE(house.path.parent.stat().st_mode) == 0o700


async def test_a_directory_shared_by_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o1777)
    with pytest.raises(HomebodyError, match="shared by all users"):
        await Served(tmp_path / "run" / "chat.sock").run()
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o1777


async def test_a_file_in_the_sockets_place_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "chat.sock").write_text("precious")
    with pytest.raises(HomebodyError, match="cannot serve the terminal"):
        await Served(tmp_path / "chat.sock").run()
    assert (tmp_path / "chat.sock").read_text() == "precious"


async def test_a_path_that_is_too_long_is_served_from_a_short_one_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "r"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime) if len(str(runtime)) < 50 else "")
    path = tmp_path / ("d" * 90) / "chat.sock"
    async with serving(path) as house:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        link = await house.link()
        await link.say("hello", key="m1")
        assert house.door.texts == ["hello"]
        real = unix_socket.locate(path)
        assert len(str(real)) <= unix_socket.LONGEST
        assert stat.S_IMODE(real.parent.stat().st_mode) == 0o700
        await link.close()
    assert not real.exists()
    assert not path.is_symlink()
    real.parent.rmdir()


async def test_a_socket_left_by_a_killed_gateway_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run" / "chat.sock"
    unix_socket.bind(path).close()
    assert path.is_socket()
    with pytest.raises(LinkLost, match="no gateway answers") as caught:
        await ChatConnection.open(path)
    assert caught.value.hint == "homebody start"
    running = asyncio.ensure_future((house := Served(path)).run())
    while True:
        try:
            link = await house.link()
        except LinkLost:
            await asyncio.sleep(0.005)
        else:
            break
    await link.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_stopping_gateway_ends_the_frames_with_a_clear_error(tmp_path: Path) -> None:
    async with serving(tmp_path / "chat.sock") as house:
        link = await house.link()
    with pytest.raises(LinkLost, match="the gateway is stopping") as caught:
        await anext(link.frames())
    assert "homebody start" in caught.value.hint
    with pytest.raises(LinkLost):
        await link.say("anybody?", key="m1")
    await link.close()


async def test_a_reply_to_a_client_that_left_waits_for_the_next(house: Served) -> None:
    link = await house.link()
    assert house.channel.attached(HERE)
    await link.close()
    while house.channel.attached(HERE):  # noqa: ASYNC110 - the server notices in its own time
        await asyncio.sleep(0.005)
    with pytest.raises(NotSent):
        await house.channel.send(Outbound(key="k", conversation=HERE, text="hello"), record)
    readied = house.door.readied
    await (await house.link()).close()
    assert house.door.readied == readied + 1


async def test_a_refused_message_tells_why_and_the_line_goes_on(house: Served) -> None:
    link = await house.link()
    house.door.refuse = ChannelError("the disk is full", hint="make room")
    with pytest.raises(ChannelError, match="the disk is full") as caught:
        await link.say("hello", key="m1")
    assert caught.value.hint == "make room"
    house.door.refuse = None
    await link.say("hello", key="m1")
    assert house.door.texts == ["hello"]
    await link.close()


async def test_five_megabytes_are_taken_and_nine_are_refused(house: Served) -> None:
    link = await house.link()
    await link.say("x" * 5_000_000, key="m1")
    assert len(house.door.texts[0]) == 5_000_000
    with pytest.raises(ChannelError, match="8 MiB is the limit") as caught:
        await link.say("x" * 9_000_000, key="m2")
    assert "file" in caught.value.hint
    await link.say("still here", key="m3")
    await link.close()


async def test_a_name_that_is_none_is_refused_over_the_socket(house: Served) -> None:
    with pytest.raises(ChannelError, match="is not a valid name"):
        await house.link("a:b")


@pytest.mark.parametrize(
    "rubbish",
    [b"hello\n\n", b"[1]\n\n", b'{"attach": "local"}\n{"say": 3}\n', b"\xff\xfe\n\n", b"x" * 40_000],
    ids=["text", "array", "lines", "bytes", "endless"],
)
async def test_rubbish_ends_its_own_connection_only(house: Served, rubbish: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(house.path)
    writer.write(rubbish)
    answer = json.loads((await reader.read()).splitlines()[-1])
    assert "error" in answer
    assert answer["mend"]
    writer.close()
    link = await house.link()
    await link.say("fine", key="m1")
    assert house.door.texts == ["fine"]
    await link.close()


@pytest.mark.parametrize(
    "rubbish",
    [
        b"hello",
        b"[1]",
        b"3",
        b"{}",
        b'{"text": "a", "key": "b", "hints": 3}',
        b"\xff\xfe",
        b"[" * 200_000,
        b"x" * (MESSAGE_BYTES + 2),
    ],
    ids=["text", "array", "number", "empty", "hints", "bytes", "nested", "endless"],
)
async def test_a_body_that_is_no_message_is_refused_and_its_stream_goes_on(house: Served, rubbish: bytes) -> None:
    name = "a" * 16
    async with connection(house.path) as client:
        async with client.stream("GET", "/chat/events", params={"connection": name}) as stream:
            refused = await client.post(f"/chat/{name}/messages", content=rubbish)
            assert refused.is_client_error
            assert refused.json()["error"]
            assert refused.json()["mend"]
            assert house.door.texts == []
            house.channel.show(HERE, Note("still here"))
            assert b"still here" in await anext(stream.aiter_raw())
        gone = await client.post(f"/chat/{'b' * 16}/stop")
        assert (gone.status_code, gone.json()["reason"]) == (410, "gone")
    link = await house.link()
    await link.say("fine", key="m1")
    assert house.door.texts == ["fine"]
    await link.close()


async def test_a_lone_surrogate_does_not_break_the_line(house: Served) -> None:
    link = await house.link()
    await link.say("a\ud800b", key="m1")
    house.channel.show(HERE, Note("c\udfffd"))
    assert await anext(link.frames()) == Note("c?d")
    assert house.door.texts == ["a?b"]
    await link.close()


async def test_a_connections_name_is_taken_once(house: Served) -> None:
    async with connection(house.path) as client, client.stream("GET", "/chat/events", params={"connection": "a" * 16}):
        for name in ("a" * 16, "", "a/b", "short"):
            refused = await client.get("/chat/events", params={"connection": name})
            assert (refused.status_code, refused.json()["reason"]) == (400, "bad-connection")


async def test_a_conversation_from_before_the_api_is_told_what_to_do(house: Served) -> None:
    reader, writer = await asyncio.open_unix_connection(house.path)
    writer.write(b'{"attach": "local"}\n')
    told = json.loads(await reader.readline())
    writer.close()
    assert "newer than this command" in told["error"]
    assert told["mend"]


async def test_a_gateway_from_before_the_api_is_told_as_another_version(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"error": "Expecting value", "mend": "send lines of JSON"}\n{"closing": "Expecting value"}\n')
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / "chat.sock"):
        with pytest.raises(ChannelError, match="of another version") as caught:
            await ChatConnection.open(tmp_path / "chat.sock")
    assert "homebody restart" in caught.value.hint
    assert not isinstance(caught.value, LinkLost)  # waiting for it would be in vain


async def test_a_gateway_that_breaks_over_a_conversation_is_not_told_as_another_version(tmp_path: Path) -> None:
    async with await asyncio.start_unix_server(broken, tmp_path / "chat.sock"):
        with pytest.raises(ChannelError, match="could not answer this") as caught:
            await ChatConnection.open(tmp_path / "chat.sock")
    assert "homebody logs" in caught.value.hint


async def test_a_reply_that_was_yielded_is_confirmed_though_the_conversation_ends_at_once(house: Served) -> None:
    link = await house.link()
    sending = asyncio.ensure_future(house.channel.send(Outbound(key="k", conversation=HERE, text="hello"), record))
    frames = link.frames()
    assert await anext(frames) == Reply("hello", "k")
    await link.close()
    assert (await sending).platform_id == "k"


async def test_a_reply_that_was_not_yielded_is_not_confirmed(house: Served) -> None:
    link = await house.link()
    sending = asyncio.ensure_future(house.channel.send(Outbound(key="k", conversation=HERE, text="hello"), record))
    await link.say("something else", key="m1")
    await link.close()
    with pytest.raises((NotSent, Uncertain)):
        await sending


async def test_a_client_that_does_not_read_holds_nobody_up(house: Served) -> None:
    async with connection(house.path) as client, client.stream("GET", "/chat/events", params={"connection": "a" * 16}):
        for number in range(400):
            house.channel.show(HERE, Note(f"{number} " + "x" * 10_000))
        link = await house.link()
        frames = link.frames()
        sending = asyncio.ensure_future(house.channel.send(Outbound(key="k", conversation=HERE, text="hello"), record))
        assert await anext(frames) == Reply("hello", "k")
        await sending
        await link.close()


async def test_a_reply_of_many_megabytes_arrives_whole(house: Served) -> None:
    link = await house.link()
    text = "grüß\u2028dich\n" * 500_000
    sending = asyncio.ensure_future(house.channel.send(Outbound(key="k", conversation=HERE, text=text), record))
    assert await anext(link.frames()) == Reply(text, "k")
    await sending
    await link.close()
