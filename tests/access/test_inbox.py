"""The way in: what is durable when, who is let through, and what the house is handed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.messages import ChatAddress, Cursor, Inbound, Sender
from channels.platform import Policy
from gateway.base.clock import ManualClock
from gateway.inbound.pipeline import Inbox
from gateway.ledger.rows import InboxRow
from gateway.ledger.sqlite import SqliteLedger
from gateway.routing.access import Access, Actor
from gateway.routing.routed_message import decode_message, encode_message
from gateway.routing.router import ChatMigrations, Route, Router
from gateway.settings.root import Settings, SettingsStore
from memory.audience import Audience
from tests.queueing.conftest import never_bounced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from channels.protocol import InboundSink
    from gateway.routing.routed_message import RoutedMessage

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Scene:
    """An inbox whose house writes down what it is given. ``/stop`` and ``/status`` are urgent; ``/status`` has a defect."""

    ledger: SqliteLedger
    arrived: list[RoutedMessage] = field(default_factory=list)
    urgent: list[str] = field(default_factory=list)
    ready: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        policies = {
            ("telegram", "default"): Policy(allow_from=("42", "43")),
            ("terminal", "default"): Policy(local=True),
        }
        access = Access(self.ledger.pairing, lambda: policies, {})
        router = Router(agents=("main", "work"), default_agent="main")
        self.inbox = Inbox(
            self.ledger,
            access,
            router,
            agents=dict.fromkeys(("main", "work")),
            settings=SettingsStore(Settings()),
            clock=ManualClock(NOON),
            migrations=ChatMigrations(),
            urgent=self,
            enqueue=self.arrived.append,
            channel=lambda _place: None,
            ready=lambda channel, account: self.ready.append((channel, account)),
            alive=lambda _channel, _account: None,
            bounced=never_bounced,
        )
        door: InboundSink = self.inbox.sink("telegram")
        self.door = door

    async def run(self, message: RoutedMessage) -> bool:
        if message.inbound.text == "/status":
            raise RuntimeError("a defect")
        if message.inbound.text != "/stop":
            return False
        self.urgent.append(message.actor.role)
        return True

    async def stop_unstored(self, _inbound: Inbound, _route: Route) -> None:
        pytest.fail("the ledger takes everything here")

    @property
    def texts(self) -> list[str]:
        return [one.inbound.text for one in self.arrived]


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    ledger = await SqliteLedger.open(folder / "ledger.sqlite", ManualClock(NOON))
    try:
        yield Scene(ledger)
    finally:
        await ledger.close()


def message(number: int, text: str = "", sender: str = "42") -> Inbound:
    return Inbound(
        conversation=ChatAddress(channel="telegram", kind="direct", id=sender),
        sender=Sender(id=sender, name="Sam"),
        text=text or f"message {number}",
        at=NOON,
        key=f"u:{number}",
        alias=f"m:{sender}:{number}",
        message_id=str(number),
    )


async def test_a_message_is_handed_out_once_and_routed(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([message(1), message(2, sender="43")], Cursor(name="offset", value="3"))
        await s.door.accept([message(1), message(2, sender="43")], Cursor(name="offset", value="3"))
        assert s.texts == ["message 1", "message 2"]
        assert [one.route.session for one in s.arrived] == ["agent:main:main", "agent:main:telegram:dm:43"]
        assert [one.row.session for one in s.arrived] == ["agent:main:main", "agent:main:telegram:dm:43"]
        assert [one.actor.role for one in s.arrived] == ["owner", "peer"]
        assert await s.door.cursor("offset") == "3"


@pytest.mark.sec(31)
async def test_a_stranger_moves_the_cursor_and_leaves_one_request(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        for number in range(20):
            await s.door.accept([message(number, "let me in", sender="66")], Cursor(name="offset", value=str(number + 1)))
        assert s.arrived == []
        assert await s.ledger.inbox.waiting() == []
        assert await s.door.cursor("offset") == "20"
        assert len(await s.ledger.pairing.pending()) == 1
        assert len(await s.ledger.outbox.latest(["ready"])) == 1


async def test_a_strangers_urgent_command_is_not_heard(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([message(1, "/stop", sender="66")])
        assert s.urgent == []


async def test_what_waits_is_handed_out_again_after_a_restart_in_order(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([message(number) for number in range(250)])
        turn = await s.ledger.turns.claim("agent:main:main", "main", [s.arrived[0].row.id])
        await s.ledger.turns.finish(turn.id, "done")
        before = [one.inbound for one in s.arrived[1:]]
    async with scene(tmp_path) as s:
        assert await s.inbox.replay() == 249
        assert [one.inbound for one in s.arrived] == before


async def test_an_urgent_command_is_dealt_with_once_and_ended(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([message(1, "/stop"), message(2)])
        await s.door.accept([message(1, "/stop")])
        assert s.urgent == ["owner"]
        assert s.texts == ["message 2"]
        assert len(await s.ledger.inbox.waiting()) == 1


async def test_a_defect_in_an_urgent_command_loses_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([message(1, "/status")])
        assert s.texts == ["/status"]


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 8, 16, 64, 256])
async def test_a_cancelled_channel_loses_nothing_that_was_stored(tmp_path: Path, steps: int) -> None:
    async with scene(tmp_path) as s:
        before = asyncio.all_tasks()
        taking = asyncio.create_task(s.door.accept([message(1)], Cursor(name="offset", value="2")))
        for _ in range(steps):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await asyncio.gather(*(asyncio.all_tasks() - before))
        stored = len(await s.ledger.inbox.waiting())
        assert len(s.arrived) == stored
        assert await s.door.cursor("offset") == ("2" if stored else None)


async def test_a_local_client_is_told_of_a_hint_that_cannot_be_followed(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        place = ChatAddress(channel="terminal", kind="direct", id="local")
        wrong = replace(message(1), conversation=place, hints={"agent": "nobody"})
        await s.inbox.sink("terminal").accept([wrong])
        assert s.arrived == []
        (told,) = await s.ledger.outbox.latest(["ready"])
        assert "there is no agent 'nobody'" in told.text
        assert await s.ledger.inbox.waiting() == []


async def test_hints_from_a_platform_are_dropped(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([replace(message(1), hints={"model": "dear", "agent": "work"})])
        (one,) = s.arrived
        assert dict(one.inbound.hints) == {}
        assert one.route.agent == "main"


async def test_a_message_of_another_channel_than_the_sinks_is_a_defect(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        with pytest.raises(ValueError, match="terminal"):
            await s.inbox.sink("terminal").accept([message(1)])


async def test_ready_is_passed_on_with_the_account(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        s.door.ready()
        assert s.ready == [("telegram", "default")]


async def test_a_row_of_a_later_version_is_given_up_and_does_not_block(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([message(1), message(2)])
    db = apsw.Connection(str(tmp_path / "ledger.sqlite"))
    db.execute("UPDATE inbox SET payload = '{\"v\":2}' WHERE skey = 'm:42:1'")
    assert db.changes() == 1
    db.close()
    async with scene(tmp_path) as s:
        await s.inbox.replay()
        assert s.texts == ["message 2"]
        assert [row.alias for row in await s.ledger.inbox.waiting()] == ["m:42:2"]


async def test_broken_text_is_mended_on_the_way_in(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.door.accept([message(1, "a\ud800b\ud83d\ude00\x00c")])
        assert s.texts == ["a\ufffdb😀\x00c"]


async def test_many_channels_at_once_keep_each_their_order(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await asyncio.gather(*(s.door.accept([message(number)]) for number in range(300)))
        assert s.texts == [f"message {number}" for number in range(300)]


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


INBOUND = st.builds(
    Inbound,
    conversation=st.builds(
        ChatAddress,
        channel=st.just("slack"),
        account=st.just("two"),
        kind=st.sampled_from(["direct", "group"]),
        id=st.text("abc", min_size=1),
        thread=st.none() | st.text("abc:.", min_size=1, max_size=5),
        space=st.none() | st.just("T1"),
    ),
    sender=st.builds(Sender, id=st.text("abc", min_size=1), name=TEXT),
    text=TEXT,
    at=st.integers(-12, 14).map(lambda hours: NOON.astimezone(timezone(timedelta(hours=hours)))),
    key=TEXT,
    alias=TEXT,
    message_id=TEXT,
    reply_to=st.none() | TEXT,
    mentioned=st.booleans(),
    hints=st.dictionaries(TEXT, TEXT, max_size=2),
)
ROUTE = st.none() | st.just(Route(agent="work", session="agent:work:x", audience=Audience("group", "g-1")))


@given(inbound=INBOUND, route=ROUTE)
def test_a_row_reads_back_as_it_was_written(inbound: Inbound, route: Route | None) -> None:
    actor = Actor(role="peer", person="ann", sender="U1")
    row = InboxRow(
        id=1,
        account="slack:two",
        alias="a",
        conversation="c",
        session=None,
        sender="U1",
        payload=encode_message(inbound, actor, route),
        received_at=NOON,
    )
    assert decode_message(row) == (inbound, actor, route)
    assert row.payload.isascii()
