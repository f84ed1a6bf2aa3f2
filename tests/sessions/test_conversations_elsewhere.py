"""The conversations of a session on other accounts outlive a restart and a reset."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gateway.sessions.sessions_file import MOST_ELSEWHERE, SessionRecord, conversations_elsewhere, from_json, to_json
from tests.queueing.conftest import Town

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 3, 18, 12, tzinfo=UTC)


def test_the_latest_conversation_of_each_account_is_kept_the_latest_first() -> None:
    record = SessionRecord(session="s", key="agent:main:main", started=NOON, spoken=NOON)
    for address in ("one:default:direct:1", "two:default:direct:2", "", "two:default:direct:3", "one:work:direct:1"):
        record = replace(record, address=address or record.address, elsewhere=conversations_elsewhere(record, address))
    assert record.address == "one:work:direct:1"
    assert record.elsewhere == ("two:default:direct:3", "one:default:direct:1")
    assert from_json(record.key, to_json(record)) == record
    back = conversations_elsewhere(record, "two:default:direct:2")
    assert back == ("one:work:direct:1", "one:default:direct:1")
    for number in range(2 * MOST_ELSEWHERE):
        address = f"many:a{number}:direct:1"
        record = replace(record, address=address, elsewhere=conversations_elsewhere(record, address))
    assert len(record.elsewhere) == MOST_ELSEWHERE


async def test_after_a_restart_the_owner_is_known_on_both_platforms(tmp_path: Path) -> None:
    town = Town(tmp_path, {})
    wires = [town.wire("home"), town.wire("office")]
    async with town.house(*wires):
        for wire in wires:
            await wire.say("hello")
            await wire.until(lambda wire=wire: "re: hello" in wire.said())  # type: ignore[misc]
    again = [town.wire("home"), town.wire("office")]
    async with town.house(*again) as house:
        assert [place.channel for place in await house.owner.chats()] == ["office", "home"]
        await again[0].say("/new")
        await again[0].until(again[0].said)
        assert [place.channel for place in await house.owner.chats()] == ["home", "office"]
    third = [town.wire("home"), town.wire("office")]
    async with town.house(*third) as house:
        assert [place.channel for place in await house.owner.chats()] == ["home", "office"]
