"""A turn that fails for want of a descriptor is done again once there are some; what was said stays stored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.descriptors import free_descriptors
from tests.queueing.test_stop_on_full_disk import room_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.models.protocol import Request
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]

pytestmark = pytest.mark.files


def need_a_descriptor() -> None:
    with free_descriptors(0):
        os.close(os.open(os.devnull, os.O_RDONLY))


async def test_a_turn_that_finds_no_descriptor_in_its_midst_goes_on_later(town: Make) -> None:
    t = town()
    wire, plain, asked = t.wire(), t.answer, list[Any]()

    def answer(request: Request) -> Any:
        asked.append(request)
        if len(asked) == 1:
            need_a_descriptor()
        return plain(request)

    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("hello")
        await house.lanes.quiet()
        assert "Too many open files" in house.pause.causes[0]
        await room_again(t, house)
        await wire.until(lambda: "re: hello" in wire.said())
    assert wire.said().count("re: hello") == 1


async def test_a_turn_that_finds_no_descriptor_to_begin_with_is_tried_again(town: Make) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        work, begun = house.lanes.work, list[Any]()

        async def short(ticket: Any) -> None:
            begun.append(ticket)
            if len(begun) == 1:
                need_a_descriptor()
            await work(ticket)

        house.lanes.work = short
        await wire.say("hello")
        await house.lanes.quiet()
        assert "Too many open files" in house.pause.causes[0]
        await room_again(t, house)
        await wire.until(lambda: "re: hello" in wire.said())
    assert wire.said().count("re: hello") == 1
