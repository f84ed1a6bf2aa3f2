"""The page's channel keeps the rules of all channels, and what it is sent."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import ChannelError, NotFetched
from channels.live import Activity, Done, Rejected
from channels.messages import Button, ChatAddress, Outbound
from channels.testing import CHECKS, EXTRAS, MAY_LACK, FastClock, RecordingSink
from channels.web.channel import LONGEST, WebChannel, place_of, session_of
from channels.web.conversation_log import LARGEST, ConversationLog
from channels.web.stored_files import StoredFiles, plain_name, plain_type
from gateway.base.clock import SystemClock
from tests.patience import PATIENCE
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SESSION = "agent:main:main"
HERE = place_of(SESSION)


async def record(_: str) -> None:
    """Note nothing."""


async def stop(_: ChatAddress) -> None:
    """Stop nothing."""


@pytest.fixture
def told() -> list[tuple[str, Any]]:
    return []


@pytest.fixture
def channel(tmp_path: Path, told: list[tuple[str, Any]]) -> WebChannel:
    return WebChannel(
        clock=FastClock(), folder=tmp_path / "web", tell=lambda kind, data: told.append((kind, data)), on_stop=stop
    )


@asynccontextmanager
async def running(channel: WebChannel) -> AsyncIterator[RecordingSink]:
    sink = RecordingSink()
    task = asyncio.ensure_future(channel.run(sink))
    await sink.is_ready.wait()
    try:
        yield sink
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("key", [SESSION, "agent:work:travel", "agent:main:telegram:group:-100:topic:7", "agent:a:x:thread:7"])
def test_an_address_and_a_session_are_the_same(key: str) -> None:
    place = place_of(key)
    assert session_of(place) == key
    assert ChatAddress.parse(place.address) == place


async def test_what_is_said_is_stored_once_with_its_session_and_kept(channel: WebChannel) -> None:
    async with running(channel) as sink:
        for _ in range(2):
            await channel.say(SESSION, "grüß dich \ud83d\udc4b \ud800", key="k1")
    [message] = sink.messages
    assert (message.text, message.hints, message.sender.id) == ("grüß dich 👋 �", {"session": SESSION}, "owner")
    [line] = await channel.said(SESSION)
    assert (line["who"], line["text"], line["uid"]) == ("user", "grüß dich 👋 �", channel.uid_of("k1"))


async def test_a_message_is_before_its_answer_however_long_storing_it_takes(tmp_path: Path) -> None:
    told: list[tuple[str, Any]] = []
    channel = WebChannel(clock=SystemClock(), folder=tmp_path, tell=lambda *one: told.append(one), on_stop=stop)
    answered = asyncio.Event()

    class SlowSink(RecordingSink):
        async def accept(self, *given: Any) -> None:
            await super().accept(*given)
            await answered.wait()

    task = asyncio.ensure_future(channel.run(SlowSink()))
    saying = asyncio.ensure_future(channel.say(SESSION, "hello", key="k1"))
    while channel.waiting(SESSION) != {channel.uid_of("k1")}:  # noqa: ASYNC110  (nobody announces it)
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await channel.send(Outbound(key="a", conversation=HERE, text="hi"), record)
    answered.set()
    kept = await saying
    assert await channel.say(SESSION, "hello", key="k1") == kept, "also when the page asks again"
    asked = [data["line"] for kind, data in told if kind == "chat.said" and data["line"]["who"] == "user"]
    assert asked == [kept, kept]
    lines = sorted(await channel.said(SESSION), key=lambda one: one["at"])
    assert [line["text"] for line in lines] == ["hello", "hi"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_message_waits_until_it_is_done_with(channel: WebChannel) -> None:
    async with running(channel) as sink:
        for key in ("k1", "k2", "k3"):
            await channel.say(SESSION, "hello", key=key)
        channel.show(HERE, Done("t1", "k1", {}))
        channel.show(HERE, Rejected("k2", "it was stopped"))
        await channel.say(SESSION, "hello", key="k1")
        assert channel.waiting(SESSION) == {channel.uid_of("k3")}
        sink.refuse = OSError("full")
        with pytest.raises(ChannelError):
            await channel.say(SESSION, "hello", key="k4")
        assert channel.waiting(SESSION) == {channel.uid_of("k3")}


def test_nothing_is_shown_of_a_command_that_has_ended(channel: WebChannel) -> None:
    channel.show(HERE, Activity("writing notes", "started"))
    assert channel.progress(SESSION) is not None
    channel.show(HERE, Done("", "k1", {}))
    assert channel.progress(SESSION) is None
    channel.turn_began(HERE, "t1", ["k3"])
    channel.show(HERE, Rejected("k2", "it was stopped"))
    assert channel.progress(SESSION) is not None, "the turn goes on"


async def test_what_could_not_be_stored_is_told_and_not_kept(channel: WebChannel) -> None:
    async with running(channel) as sink:
        sink.refuse = OSError("full")
        with pytest.raises(ChannelError, match="full"):
            await channel.say(SESSION, "hello", key="k1")
        assert await channel.said(SESSION) == []
        for wrong in ("", " \n", "x" * (LONGEST + 1)):
            with pytest.raises(ChannelError):
                await channel.say(SESSION, wrong, key="k2")
        with pytest.raises(ChannelError, match="not there"):
            await channel.say(SESSION, "look", key="k3", files=["../../etc/passwd"])


async def test_a_message_is_kept_once_though_nobody_looks_also_over_a_restart(channel: WebChannel, tmp_path: Path) -> None:
    message = Outbound(key="out.1", conversation=HERE, text="hello", buttons=(Button(label="Yes", value="/approve a once"),))
    await channel.send(message, record)
    await channel.send(message, record)
    again = WebChannel(clock=FastClock(), folder=tmp_path / "web", tell=lambda *_: None, on_stop=stop)
    assert (await again.send(message, record)).platform_id == "out.1"
    assert [line["text"] for line in await again.said(SESSION)] == ["hello"]


async def test_a_button_is_pressed_only_if_it_was_sent(channel: WebChannel) -> None:
    async with running(channel) as sink:
        await channel.send(
            Outbound(key="q", conversation=HERE, text="May I?", buttons=(Button(label="Yes", value="/approve a once"),)), record
        )
        for target, value in (("q", "/approve a always"), ("other", "/approve a once"), ("q", "")):
            with pytest.raises(ChannelError, match="no such button"):
                await channel.press(SESSION, target, value, key="p1")
        await channel.press(SESSION, "q", "/approve a once", key="p2")
        [message] = sink.messages
        assert (message.event, message.target, message.text) == ("button", "q", "/approve a once")


async def test_a_draft_tells_what_is_new_of_it(channel: WebChannel, told: list[tuple[str, Any]]) -> None:
    channel.turn_began(HERE, "t1", ["k1"])
    for text in ("Un", "Under", "Under", "Over"):
        await channel.draft(HERE, "t1", text)
    drafts = [(data["at"], data["text"]) for kind, data in told if kind == "chat.draft"]
    assert drafts == [(0, "Un"), (2, "der"), (0, "Over")]
    channel.show(HERE, Activity("read a", "started"))
    assert channel.progress(SESSION) == {
        "turn": "t1",
        "draft": "Over",
        "activities": [{"text": "read a", "state": "started"}],
    }
    channel.draft_ended(HERE, "t1")
    channel.show(HERE, Done("t1", "k1", {}))
    assert channel.progress(SESSION) is None
    assert told[-1] == ("chat.done", {"session": SESSION, "uid": channel.uid_of("k1"), "stopped": False})


def test_a_line_that_was_cut_off_takes_no_other_along(tmp_path: Path) -> None:
    log = ConversationLog(tmp_path, SESSION)
    log.add({"key": "a"})
    [file] = tmp_path.iterdir()
    with file.open("ab") as raw:
        raw.write(b'{"key": "b", "te')
    again = ConversationLog(tmp_path, SESSION)
    again.add({"key": "c"})
    assert [line["key"] for line in ConversationLog(tmp_path, SESSION).lines()] == ["a", "c"]


def test_of_a_large_log_the_newer_half_stays(tmp_path: Path) -> None:
    log = ConversationLog(tmp_path, SESSION)
    for number in range(6):
        log.add({"key": str(number), "text": "x" * (LARGEST // 4)})
    kept = [line["key"] for line in ConversationLog(tmp_path, SESSION).lines()]
    assert kept[-1] == "5"
    assert 0 < len(kept) < 6
    assert log.holds("5")


def test_an_upload_comes_in_pieces_which_may_be_repeated(tmp_path: Path) -> None:
    files = StoredFiles(tmp_path)
    made = files.begin("../../<b>\u202e.txt", "text/html; charset=x")
    files.append(made, 0, b"abc")
    files.append(made, 0, b"abc")
    found = files.append(made, 3, b"def")
    assert (found.name, found.type, found.size) == ("<b>.txt", "text/html", 6)
    assert files.path(made).read_bytes() == b"abcdef"
    with pytest.raises(ChannelError, match="missing"):
        files.append(made, 99, b"x")
    for wrong in ("", "..", "../" + made, made + "\n", "A" * 32, "0" * 32, made + ".json", "\x00" * 32):
        assert files.get(wrong) is None
        with pytest.raises(ChannelError):
            files.append(wrong, 0, b"x")
        with pytest.raises(NotFetched):
            files.fetch(wrong, tmp_path / "out", 10)
    with pytest.raises(NotFetched):
        files.fetch(made, tmp_path / "out", 5)
    files.fetch(made, tmp_path / "out", 6)
    assert (tmp_path / "out").read_bytes() == b"abcdef"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a/b\\c.txt", "c.txt"),
        ("..", "file"),
        ("", "file"),
        ("x\x00\n.txt", "x.txt"),
        ("n" * 999, "n" * 200),
        (" .hidden ", "hidden"),
    ],
)
def test_a_name_of_a_file_is_plain(given: str, name: str) -> None:
    assert plain_name(given) == name


def test_a_type_that_is_none_is_that_of_any_bytes() -> None:
    assert plain_type("image/png") == "image/png"
    assert plain_type("text/html\r\nx: y") == "application/octet-stream"


class FailingLog(ConversationLog):
    """A log on a disk that fails: before a line is written, after it, or as long as it is away."""

    failing = ""
    away = False

    def holds(self, key: str) -> bool:
        if FailingLog.away:
            raise OSError(28, "No space left on device")
        return super().holds(key)

    def add(self, line: Any) -> Any:
        failing = ""
        if line["who"] == "agent":
            failing, FailingLog.failing = FailingLog.failing, ""
        if FailingLog.away or failing == "cut before":
            raise OSError(28, "No space left on device")
        kept = super().add(line)
        if failing == "cut after":
            raise OSError(5, "Input/output error")
        return kept


class PagePeer:
    """The person at the page. It shows what the channel keeps; a disk that fails is what can go wrong with it."""

    lacks = frozenset(rule.__name__ for rule in EXTRAS) - {
        "sends_a_file_whole",
        "sends_a_doubtful_file_once",
        "shows_buttons_and_tells_of_a_press",
        "fetches_a_file_whole",
        "leaves_nothing_of_a_file_it_cannot_have",
    } | {
        "knows_a_refusal",
        "obeys_a_rate_limit",
        "gives_up_on_a_wrong_password",
        "catches_up_after_a_restart",
        "goes_on_after_an_outage",
    }
    limit = LONGEST
    patience = PATIENCE
    events = ()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told: list[str] = []
        self._count = 0
        self._last = ""
        self._in_order = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        FailingLog.failing, FailingLog.away = "", False

    def channel(self) -> WebChannel:
        self._channel = WebChannel(
            clock=FastClock(),
            folder=self._folder,
            tell=lambda kind, _: self._told.append(kind),
            on_stop=stop,
            log=FailingLog,
        )
        return self._channel

    def intruder(self) -> WebChannel:
        return self.channel()

    async def say(self, text: str) -> None:
        self._count, self._last = self._count + 1, text
        self._begin(text)

    async def repeat(self) -> None:
        self._begin(self._last)

    def _begin(self, text: str, *files: str) -> None:
        task = asyncio.ensure_future(self._send(f"message-{self._count}", text, files))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, key: str, text: str, files: tuple[str, ...]) -> None:
        """Send as the page does: one after another, and again under the same name until it was stored."""
        async with self._in_order:
            while True:
                try:
                    await self._channel.say(SESSION, text, key=key, files=files)
                except (ChannelError, OSError):
                    await asyncio.sleep(0.01)
                else:
                    return

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        self._count += 1
        made = self._channel.files.begin(name, media_type)
        self._channel.files.append(made, 0, content)
        self._begin("", made)

    async def disconnect(self) -> None:
        """There is no connection."""

    async def happen(self, event: str) -> None:
        """There are no events."""

    async def garble(self) -> None:
        for text, files in (("", ()), ("x" * (LONGEST + 1), ()), ("y", ("../x",)), ("z", ("",))):
            with contextlib.suppress(ChannelError):
                await self._channel.say(SESSION, text, key="garbage", files=files)
        with contextlib.suppress(ChannelError):
            await self._channel.press(SESSION, "none", "/approve x once", key="garbage")

    async def go_away(self) -> None:
        FailingLog.away = True

    async def come_back(self) -> None:
        FailingLog.away = False

    def trouble(self, kind: str) -> None:
        FailingLog.failing = kind

    def _lines(self) -> list[dict[str, Any]]:
        return [line for line in ConversationLog(self._folder, SESSION).lines() if line["who"] == "agent"]

    def heard(self) -> list[str]:
        return [line["text"] for line in self._lines() if line["text"]]

    def typed(self) -> int:
        return self._told.count("chat.typing")

    def length(self, text: str) -> int:
        return len(text)

    def files(self) -> list[tuple[str, bytes]]:
        found = [file for line in self._lines() for file in line.get("files", ())]
        return [(file["name"], self._channel.files.path(file["id"]).read_bytes()) for file in found]

    def buttons(self) -> list[str]:
        return [one["label"] for one in self._lines()[-1].get("buttons", ())]

    async def press(self, label: str) -> None:
        self._count += 1
        line = self._lines()[-1]
        value = next(one["value"] for one in line["buttons"] if one["label"] == label)
        await self._channel.press(SESSION, line["key"], value, key=f"press-{self._count}")


@parametrize_some(11, "rule", [rule for rule in CHECKS if rule.__name__ not in PagePeer.lacks], ids=lambda rule: rule.__name__)
async def test_the_channel_of_the_page_keeps_the_rule(rule: Any, tmp_path: Path) -> None:
    assert PagePeer.lacks <= set(MAY_LACK)
    await rule(PagePeer(tmp_path / "web"))
