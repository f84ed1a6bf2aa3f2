"""A job that is asked about is set up by the first yes, at the time that the question shows, however long the answer takes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import ToolCall, UserMessage
from tests.approvals.house import Farm, asked, open_questions, value
from tests.queueing.conftest import newest
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway

ASK = {"approvals": {"rules": [{"decision": "ask", "tool": "cron"}]}}


class Diary(Farm):
    """``at WHEN`` in a message makes the model set a reminder up for then."""

    def farmed(self, request: Request) -> Any:
        last = request.messages[-1]
        wanted = newest(request)[-1].partition("at ")[2] if newest(request) else ""
        if not wanted or not isinstance(last, UserMessage) or last.runtime:
            return f"so: {last.text}"
        self.calls += 1
        arguments = {"action": "add", "when": wanted, "text": "tea", "kind": "reminder"}
        return [ToolCall(id=f"c{self.calls}", name="cron", arguments=arguments)]

    def prepare(self, house: Gateway) -> None:
        """Leave the agent its own tools."""


@parametrize_some(2, "when", ["in 10 minutes", "every 2 hours", "every 1 minute", "0 * * * *"])
@pytest.mark.parametrize("restart", [False, True])
async def test_the_first_yes_counts_for_a_time_that_is_counted_from_now(tmp_path: Path, when: str, restart: bool) -> None:
    diary = Diary(tmp_path, ASK)
    wire = diary.wire()
    async with diary.house(wire) as house:
        begun = diary.clock.now()
        ask = await asked(wire, f"at {when}")
        diary.clock.move(150)
        if not restart:
            await wire.say(value(ask, "once"), event="button")
            await wire.until(lambda: any(one.text.startswith("so: ") for one in wire.sent))
            await settled(house, when, begun)
    if restart:
        wire = diary.wire()
        async with diary.house(wire) as house:
            await wire.say(value(ask, "once"), event="button")
            await wire.until(lambda: any(one.text.startswith("so: ") for one in wire.sent))
            await settled(house, when, begun)


async def settled(house: Gateway, when: str, begun: Any) -> None:
    assert await open_questions(house) == []
    (job,) = await house.ledger.jobs.all()
    if when == "in 10 minutes":
        assert job.next_at is not None
        assert abs(job.next_at - begun - timedelta(minutes=10)) < timedelta(seconds=30), "as the question showed it"
    assert job.text == "tea"
