"""A channel that could not be made when the house was opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.base.clock import SystemClock
from tests.reload.place import until

if TYPE_CHECKING:
    from tests.reload.place import Place


async def test_a_channel_that_could_not_be_made_at_the_start_holds_up_no_other_change(place: Place, pigeons: Any) -> None:
    place.write({"channels": {"plugins": {"ostrich": {}}}})
    async with place.open(serving=True, clock=SystemClock()) as house:
        await until(lambda: house.channel_supervisor["ostrich:default"].broken)
        place.write({"channels": {"plugins": {"ostrich": {}, "pigeon": {"settings": {"loft": "north"}}}}})
        assert (await house.reload.now())["complaint"] is None
        await until(lambda: pigeons.running == ["north"])
