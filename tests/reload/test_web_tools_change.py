"""The web tools follow the settings while the house runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reload.place import ask, until

if TYPE_CHECKING:
    from pathlib import Path

from tests.reload.place import Place


async def test_a_search_service_is_offered_from_the_next_turn_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    model = place.models["scripted/one"]
    async with place.open() as house:
        await ask(house, "one")
        place.write({"tools": {"web": {"search": {"baseUrl": "http://searx.lan:8080"}, "fetch": {"enabled": False}}}})
        assert (await house.reload.now())["complaint"] is None
        await until(lambda: not house.agent_supervisor.changing)
        await ask(house, "two")
    offered = [{tool.name for tool in request.tools if tool.name.startswith("web_")} for request in model.requests]
    assert offered == [{"web_fetch"}, {"web_search"}]
