"""The page's calls about questions to the owner: what they show, and decisions by the code that ``/approve`` uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent.tools.protocol import Act
from gateway.api.handlers.approval_requests import ApprovalHandlers, visible_act
from gateway.base.errors import UsageError
from tests.approvals.house import Farm, asked

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.app.gateway import Gateway


def calls(house: Gateway) -> ApprovalHandlers:
    return ApprovalHandlers(
        house.ledger, house.approvals.decisions, settings=lambda: house.settings.current, stored=house.rules.stored
    )


async def test_a_question_is_shown_whole_and_decided_once(tmp_path: Path) -> None:
    farm = Farm(tmp_path)
    wire = farm.wire()
    async with farm.house(wire) as house:
        await asked(wire, "plough field")
        desk = calls(house)
        (one,) = (await desk.list())["approvals"]
        shown = await desk.show(one["name"])
        assert shown["shown"]["command"] == "field"
        assert "whyNotAlways" in shown
        done = await desk.decide(one["name"], "once", "browser page")
        await wire.until(lambda: any(text.startswith("so: ") for text in wire.said()))
        assert done["approval"]["state"] == "approved"
        assert (await desk.list())["approvals"] == []
        (stored,) = await house.ledger.approvals.latest(["approved"])
        assert stored.decided_by == "browser page, once"
        again = await desk.decide(one["name"], "deny", "browser page")
        assert "approved already" in again["told"]
    assert farm.tool.done == ["field"]


async def test_a_place_that_decides_nothing_is_refused(tmp_path: Path) -> None:
    farm = Farm(tmp_path)
    wire = farm.wire()
    async with farm.house(wire) as house:
        await asked(wire, "plough field")
        desk = calls(house)
        (one,) = (await desk.list())["approvals"]
        with pytest.raises(UsageError, match="no place where questions are decided"):
            await desk.decide(one["name"], "once", "anna")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="no decision"):
            await desk.decide(one["name"], "maybe")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="no question"):
            await desk.decide("zzzzzzzz", "once")
        with pytest.raises(UsageError, match="no question"):
            await desk.decide(["x"], 7)  # type: ignore[arg-type]
    assert farm.tool.done == []


def test_what_is_not_seen_is_named_and_what_looks_alike_is_told() -> None:
    act = Act(kind="exec", summary="run it", command="cat \u202eslmth\x1b[2K && pаypal", argv=None)
    shown = visible_act(act, ["cat \u202eslmth", "pаypal"])
    assert shown["command"] == "cat ⟨U+202E⟩slmth⟨ESC⟩[2K && pаypal"
    assert shown["parts"][0] == "cat ⟨U+202E⟩slmth"
    assert "cyrillic small letter a" in shown["warnings"][0]
