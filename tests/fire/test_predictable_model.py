"""What the predictable model says of a deed rests on what its tools answered: an oracle must not be told of what was not done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.loop.tool_runner import OVERTAKEN
from agent.transcript.history_view import UNKNOWN_OUTCOME
from tests.fire.model import DEEDS, MOST_CALLS, predicted
from tests.fire.scenarios import SCENARIOS
from tests.fire.world import Kill

if TYPE_CHECKING:
    from tests.fire.loop import Fire

EDITED = f"edited {DEEDS} (1 place)"
REFUSED = (
    f"{DEEDS} has not been read yet: read it first, so that nothing in it is lost",
    f"{DEEDS} has changed since it was read: read it again",
    f"{DEEDS} was changed by someone else just now: read it again",
    f"{DEEDS} was not changed: the disk is full (free some space, then try again)",
    "edit failed because of a defect in it; the log has the details",
    OVERTAKEN,
)


def talk(edits: list[str]) -> tuple[str, int]:
    """Let the model do a deed, with these answers to its edits, the last one for ever; return its last word and how often it edited."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "please do beta"}]
    edited = 0
    for _ in range(2 * MOST_CALLS):
        delta, reason = predicted({"messages": messages, "tools": [{}]})
        if reason == "stop":
            return delta["content"], edited
        [call] = delta["tool_calls"]
        assert json.loads(call["function"]["arguments"])["path"] == DEEDS
        result = "# Deeds\n\n<end>"
        if call["function"]["name"] == "edit":
            result, edited = edits[min(edited, len(edits) - 1)], edited + 1
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": result},
        ]
    raise AssertionError("it never comes to an end")


@given(
    st.lists(st.sampled_from(REFUSED) | st.text(max_size=20).filter(lambda text: not text.startswith("edited ")), max_size=3),
    st.sampled_from((EDITED, UNKNOWN_OUTCOME)),
)
def test_a_refused_edit_is_tried_again_until_it_is_made_or_may_have_been(refusals: list[str], last: str) -> None:
    assert talk([*refusals, last]) == ("done beta", len(refusals) + 1)


@given(st.sampled_from(REFUSED))
def test_what_is_always_refused_is_never_said_to_be_done(refusal: str) -> None:
    said, edited = talk([refusal])
    assert said == f"could not do beta: {refusal}"
    assert 1 < edited <= MOST_CALLS


@pytest.mark.usefixtures("traced")
async def test_a_deed_that_the_disk_refused_once_is_done_in_the_end(fire: Fire) -> None:
    name = "answered together"
    assert await fire.run(SCENARIOS[name], (Kill.parse("fsync:1=EIO*1@model:5"),))
    assert fire.failures == []
