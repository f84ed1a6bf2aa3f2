"""Questions in the terminal: the client is told that the turn waits, and the answer comes later, to where somebody reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.approvals.house import Farm
from tests.gateway.conftest import Talk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    return Farm(tmp_path)


def named(text: str) -> str:
    found = re.search(r"/approve (\S+) once", text)
    assert found is not None, text
    return found[1]


async def test_a_terminal_is_told_that_the_turn_waits_and_shows_the_answer_when_it_comes(farm: Farm) -> None:
    async with farm.house() as house:
        talk = Talk(house.terminal.attach("local"))
        facts = await talk.ask("plough field")
        name = named(facts["reply"])
        assert facts["waitsFor"] == [name]
        assert facts["exit"] == 0
        await talk.ask(f"/approve {name} once")
        await talk.until(lambda: any(text.startswith("so: ") for text in talk.replies()))
        await house.lanes.quiet()
        await talk.link.close()
    assert farm.tool.done == ["field"]


async def test_what_a_one_shot_command_asked_for_is_answered_where_the_owner_reads(farm: Farm) -> None:
    async with farm.house() as house:
        once = Talk(house.terminal.attach("agent-123"))
        name = named((await once.ask("plough field"))["reply"])
        await once.link.close()
        chat = Talk(house.terminal.attach("local"))
        await chat.ask(f"/approve {name} once")
        await chat.until(lambda: any(text.startswith("so: ") for text in chat.replies()))
        await house.lanes.quiet()
        await chat.link.close()
    assert farm.tool.done == ["field"]
