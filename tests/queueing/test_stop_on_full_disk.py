"""``/stop`` on a disk that takes nothing: the turn ends at once, the person is told, and it stays ended once there is room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.transcript.history_view import STOPPED_SILENT
from gateway.base.errors import StorageFailed
from gateway.inbound.message_routing import NewMessage
from gateway.inbound.pipeline import to_arrival
from gateway.routing.routed_message import ReceivedMessage
from tests.full_disk import no_file_may_grow
from tests.patience import PATIENCE
from tests.peers.wire import NOON
from tests.queueing.conftest import Slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.app.gateway import Gateway
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]

pytestmark = pytest.mark.files


async def room_again(t: Town, house: Gateway) -> None:
    """Let the time pass after which the house tries to write again, and wait until it has."""
    await t.steps()
    t.clock.move(11)
    async with asyncio.timeout(PATIENCE):
        while house.pause.causes:  # noqa: ASYNC110 (nothing tells of its end)
            await asyncio.sleep(0.005)


async def test_stop_ends_the_turn_and_says_so_although_nothing_can_be_written(town: Make) -> None:
    t = town()
    wire, slow = t.wire(), Slow(t)
    async with t.house(wire) as house:
        await wire.say("long work")
        await slow.began.wait()
        with no_file_may_grow():
            stop = wire.message("/stop")
            with pytest.raises(StorageFailed):  # and the platform will offer it again
                await wire.deliver(stop)
            await wire.until(lambda: wire.said() == ["⏹️ Stopped."])
            await house.lanes.quiet()
            assert house.pause.causes
            with pytest.raises(StorageFailed):
                await wire.deliver(stop)
            assert wire.said() == ["⏹️ Stopped."], "offered again, it is the same wish"
        await room_again(t, house)
        await wire.say("and now?")
        await wire.until(lambda: "re: and now?" in wire.said())
        await wire.deliver(stop)
        await house.lanes.quiet()
        rows = await house.ledger.inbox.latest(("answered",))
    assert [text for text in wire.said() if not text.startswith(("💾", "⚠️"))] == ["⏹️ Stopped.", "re: and now?"]
    said = [message.text for message in t.model.requests[-1].messages][-3:]
    assert (said[0].splitlines()[-1], said[1]) == ("long work", STOPPED_SILENT)
    assert [row.reason for row in rows] == ["stopped by its owner", None, "urgent"]
    assert not slow.gate.is_set()


async def test_a_stop_that_was_stored_late_stops_nothing_that_was_begun_since(town: Make) -> None:
    t = town()
    wire, first = t.wire(), Slow(t)
    async with t.house(wire) as house:
        await wire.say("long work")
        await first.began.wait()
        stop = wire.message("/stop")
        with no_file_may_grow():
            with pytest.raises(StorageFailed):
                await wire.deliver(stop)
            await house.lanes.quiet()
        await room_again(t, house)
        second = Slow(t)
        await wire.say("other work")
        await second.began.wait()
        await wire.deliver(stop)
        second.gate.set()
        await wire.until(lambda: "re: other work" in wire.said())
    assert wire.said().count("⏹️ Stopped.") == 1


async def test_a_stranger_stops_nothing_on_a_full_disk(town: Make) -> None:
    t = town()
    wire, slow = t.wire(), Slow(t)
    async with t.house(wire) as house:
        await wire.say("long work")
        await slow.began.wait()
        with no_file_may_grow(), pytest.raises(StorageFailed):
            await wire.deliver(wire.message("/stop", by="mallory"))
        await t.steps()
        assert house.lanes.running()
        slow.gate.set()
        await wire.until(lambda: wire.said() == ["re: long work"])


async def test_a_stop_that_was_stored_is_answered_on_a_disk_that_filled_up_since(town: Make) -> None:
    t = town()
    wire, slow = t.wire(), Slow(t)
    async with t.house(wire) as house:
        await wire.say("long work")
        await slow.began.wait()
        stop = wire.message("/stop")
        (earlier,) = await house.inbox.read([1])
        new = NewMessage(message=ReceivedMessage(inbound=stop, actor=earlier.actor, route=earlier.route))
        (stored,) = (await house.ledger.inbox.accept("wire:default", [to_arrival(new, NOON)])).rows
        with no_file_may_grow():
            await house.inbox.hand_out(stored)
            await wire.until(lambda: wire.said() == ["⏹️ Stopped."])
            await house.lanes.quiet()
        await room_again(t, house)
        await house.lanes.quiet()
    assert "re: long work" not in wire.said()
