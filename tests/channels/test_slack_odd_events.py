"""An event of Slack's that is not as documented costs one line in the log, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.channels.slack_line import ANNA, ROOM, Line
from tests.peers.mood import CALM
from tests.peers.slack import BOT, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EVENT = {"type": "message", "user": ANNA, "channel": ROOM, "text": "?"}
ODD: list[dict[str, Any]] = [
    {**EVENT, "ts": "yesterday"},
    {**EVENT, "ts": "13345224609.738474920.8088930838d88f008e0"},
    {**EVENT, "ts": "99999999999999.000001"},
    {**EVENT, "ts": "9" * 300},
    {**EVENT, "ts": "17.000001", "files": 7},
    {**EVENT, "ts": "17.000001", "attachments": [7]},
    {**EVENT, "ts": "17.000001", "user_profile": "Anna"},
    {**EVENT, "subtype": "message_changed", "message": "?", "ts": "17.000001"},
    {"type": "reaction_added", "user": ANNA, "reaction": "eyes", "item_user": BOT, "item": 7},
    {"type": "tokens_revoked", "tokens": 7},
]


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer(mood=CALM) as started:
        yield started


@pytest.mark.parametrize("http", [False, True], ids=["socket", "http"])
async def test_an_odd_event_is_acknowledged_and_told_in_one_line_without_a_traceback(
    peer: SlackPeer, http: bool, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line(peer, http=http, channels={ROOM: {}})
    async with line.running():
        for event in ODD:
            await peer.emit(event)
        await peer.say(ANNA, "after all of that", channel=ROOM)
        await line.heard(lambda: bool(line.door.messages))
        await line.quiet()
    assert line.door.texts == ["after all of that"]
    assert not peer.given_up
    assert not [one for one in caplog.records if one.exc_info or "Traceback" in one.getMessage()]
    told = [facts for event, facts in line.log.lines if event == "skipped a malformed event"]
    assert len(told) == len(ODD)
    assert {(facts["channel"], facts["user"], facts["account"]) for facts in told[:7]} == {(ROOM, ANNA, "default")}
    assert all("in " in facts["error"] and ".py:" in facts["error"] for facts in told)


async def test_an_event_that_fails_for_another_reason_is_offered_again(
    peer: SlackPeer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.ack_seconds = 0.05
    line = Line(peer, channels={ROOM: {}})
    line.door.moved = _fails_once(line.door.moved)  # type: ignore[method-assign]
    async with line.running():
        await peer.emit({"type": "channel_id_changed", "old_channel_id": ROOM, "new_channel_id": "CNEW00001"})
        await peer.until(lambda: bool(line.door.moves))
    assert len(line.door.moves) == 1
    assert not [one for one in caplog.records if one.exc_info]


def _fails_once(moved: Any) -> Any:
    failures = [OSError("the disk is full")]

    async def move(former: Any, present: Any) -> None:
        if failures:
            raise failures.pop()
        await moved(former, present)

    return move
