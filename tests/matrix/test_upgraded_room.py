"""A room is upgraded on a real homeserver, encrypted and by invitation alone, and the agent follows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from channels.testing.harness import running
from tests.matrix.people import V3
from tests.matrix.stage import RealStage

if TYPE_CHECKING:
    from pathlib import Path

    from tests.matrix.middleman import Middleman
    from tests.matrix.synapse import Synapse


@pytest.mark.parametrize("encrypted", [False, True])
async def test_the_agent_follows_into_the_new_room(
    encrypted: bool, homeserver: Synapse, middleman: Middleman, tmp_path: Path
) -> None:
    stage = await RealStage.made(homeserver, middleman, tmp_path, encrypted=encrypted)
    anna, ben, former = stage.cast.anna, stage.cast.ben, stage.group
    try:
        async with asyncio.timeout(120), running(stage) as run:
            await stage.say_in_group("before", mention=True)
            await run.sink.until(lambda: "before" in run.sink.texts, "it arrived")
            where = f"{V3}/rooms/{quote(former)}/upgrade"
            fresh = (await asyncio.to_thread(anna.ask, "POST", where, {"new_version": "10"}))["replacement_room"]
            for person in (ben.user, stage.cast.bot):
                await asyncio.to_thread(anna.ask, "POST", f"{V3}/rooms/{quote(fresh)}/invite", {"user_id": person})
            ben.join(fresh)
            stage.group = fresh
            while not stage.is_in(fresh):  # noqa: ASYNC110 - the homeserver is asked
                await asyncio.sleep(0.1)
            await stage.say_in_group("now here", mention=True)
            await run.sink.until(lambda: "now here" in run.sink.texts, "it followed")
            [(before, after)] = set(run.sink.moves)
        assert (before.id, after.id) == (former, fresh)
        assert run.sink.messages[-1].conversation == after
    finally:
        await stage.close()
