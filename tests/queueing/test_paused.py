"""People who write to a house that is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.queue.enqueue import PAUSED
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.pause import OTHERS_WORK, Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.wire import Wire
    from tests.queueing.conftest import Town


def said(wire: Wire) -> list[str]:
    """What Ben is told, but for what the owner of the house is."""
    return [text for text in wire.said("ben") if not text.startswith("⚠️")]


async def test_who_writes_during_a_pause_is_told_once_and_answered_when_it_is_over(town: Callable[..., Town]) -> None:
    t = town(messages={"queue": {"mode": "followup"}})
    wire = t.wire()
    async with t.house(wire) as house:
        house.pause.begin("disk", "No space is left.")
        await wire.say("one", "two", "three", by="ben")
        await wire.until(lambda: PAUSED in said(wire))
        await t.steps()
        assert said(wire) == [PAUSED]
        house.pause.end("disk")
        await wire.until(lambda: said(wire)[1:] == ["re: one", "re: two", "re: three"])
        house.pause.begin("crashes", "I crashed.")
        await wire.say("four", by="ben")
        await wire.until(lambda: said(wire).count(PAUSED) == 2)
        await house.pause.resume()
        await wire.until(lambda: said(wire)[-1] == "re: four")


async def test_the_moment_in_which_a_disk_refuses_is_not_told_to_people(town: Callable[..., Town]) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        house.pause.begin("storage", "The disk refuses.")
        await wire.say("one", by="ben")
        await t.steps()
        house.pause.end("storage")
        await wire.until(lambda: said(wire) == ["re: one"])


async def test_what_still_waits_after_a_restart_in_the_pause_is_not_told_of_again(town: Callable[..., Town]) -> None:
    t = town(messages={"queue": {"mode": "followup"}})
    t.prepare = lambda house: house.pause.begin("crashes", "I crashed.", known=True)  # type: ignore[method-assign]
    wire = t.wire()
    async with t.house(wire):
        await wire.say("one", "two", by="ben")
        await wire.until(lambda: said(wire) == [PAUSED])
    again = t.wire()
    async with t.house(again) as house:
        await t.steps()
        assert said(again) == []
        await house.pause.resume()
        await again.until(lambda: said(again) == ["re: one", "re: two"])


async def test_a_pause_that_comes_again_is_told_again(town: Callable[..., Town]) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("hello")
        await wire.until(lambda: wire.said() == ["re: hello"])
        for times in (1, 2):
            house.pause.begin("disk", "No space is left.")
            await wire.until(lambda times=times: wire.said().count("⚠️ No space is left.") == times)  # type: ignore[misc]
            house.pause.end("disk")
            assert "No space is left." not in house.notices.told


async def test_a_disk_that_is_still_full_is_not_resumed_by_a_command(town: Callable[..., Town]) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("hello")
        await wire.until(lambda: wire.said() == ["re: hello"])
        full = {"disk /home"}

        async def still() -> set[str]:
            return full

        house.pause.still = still
        house.pause.begin("disk /home", "No space is left.")
        house.pause.begin("crashes", "I crashed.")
        assert await house.pause.resume() == {"was": ["I crashed."], "still": ["No space is left."]}
        await wire.say("/resume", "one")
        await wire.until(lambda: "⏸️ Still paused: No space is left." in wire.said())
        assert "re: one" not in wire.said()
        full.clear()
        await wire.say("/resume")
        await wire.until(lambda: wire.said()[-1] == "re: one")
        assert "▶️ Resumed." in wire.said()


async def test_the_status_says_of_which_gateway_of_a_cluster_it_counts_what_waits(town: Callable[..., Town]) -> None:
    t = town()
    wire = t.wire()
    async with t.house(wire) as house:
        house.pause.name = "kitchen"
        await wire.say("/status")
        await wire.until(
            lambda: any("0 in total at kitchen (`homebody status`: at all gateways)" in text for text in wire.said())
        )


class Shared:
    """The pause of a gateway in a cluster."""

    def __init__(self) -> None:
        async def work(_ticket: Ticket[str]) -> None: ...

        self.told: list[str] = []
        self.withdrawn: list[str] = []
        self.why: list[str] = []
        self.pause = Pause(Lanes[str](work, broken=lambda *_: None), self.told.append, self.withdrawn.append)
        self.pause.name, self.pause.changed = "cellar", self.why.append

    def fill(self) -> None:
        self.pause.begin("disk", "No space is left. I answer nothing.", short="no space is left")


OTHERS = f"cellar: no space is left. {OTHERS_WORK}"
NOBODY = "cellar: No space is left. I answer nothing."


async def test_in_a_cluster_the_owner_is_told_of_a_pause_once_it_is_known_who_goes_on() -> None:
    shared = Shared()
    shared.fill()
    assert (shared.told, shared.why) == ([], ["no space is left"])
    assert not shared.pause.untold("chat"), "another gateway may answer in a moment"
    shared.pause.decide(rests=True)
    shared.pause.decide(rests=True)
    assert (shared.told, shared.pause.causes) == ([OTHERS], [OTHERS])
    assert not shared.pause.untold("chat")
    shared.pause.decide(rests=False)
    assert (shared.told, shared.withdrawn) == ([OTHERS, NOBODY], [OTHERS])
    assert (shared.pause.untold("chat"), shared.pause.untold("chat")) == (True, False)
    shared.pause.decide(rests=True)
    assert (shared.told, shared.pause.causes) == ([OTHERS, NOBODY], [OTHERS]), "each is told once"
    assert (await shared.pause.resume())["was"] == [OTHERS]
    assert shared.why[-1] == ""
    shared.fill()
    assert shared.pause.rests is None
    shared.pause.decide(rests=False)
    assert shared.told == [OTHERS, NOBODY, NOBODY], "that is another pause"


async def test_a_failed_write_in_a_cluster_is_told_at_once_and_hands_nothing_over() -> None:
    shared = Shared()
    shared.pause.begin("storage", "The disk refuses.")
    assert (shared.told, shared.why, shared.pause.causes) == (["The disk refuses."], [], ["The disk refuses."])
    shared.fill()
    shared.pause.end("storage")
    assert shared.why[-1] == "no space is left", "one cause is over, and the other is not"
    shared.pause.decide(rests=True)
    assert shared.pause.causes == [OTHERS]


async def test_people_are_told_where_their_agent_cannot_be_handed_over() -> None:
    shared = Shared()
    shared.fill()
    shared.pause.decide(rests=True)
    shared.pause.keeps = True
    assert shared.pause.untold("chat")
