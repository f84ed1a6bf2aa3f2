"""What the owner sees of the ledger, and may change."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from channels.messages import ChatAddress
from gateway.api.handlers.queues import QueueHandlers
from gateway.base.clock import ManualClock
from gateway.base.errors import UsageError
from gateway.cli.click_commands import homebody
from gateway.ledger.rows import Arrival, NewOutbound
from tests.ledger.engines import open_at

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = ChatAddress(channel="telegram", kind="direct", id="42")


async def filled(path: Path) -> Ledger:
    ledger = await open_at(path, ManualClock(NOON))
    arrivals = [
        Arrival(key=k, alias=k, conversation=PLACE.address, session="s", sender="42", payload="{}", received_at=NOON)
        for k in ("a", "b")
    ]
    rows = (await ledger.inbox.accept("telegram:default", arrivals)).rows
    await ledger.inbox.settle([rows[0].id], "failed", reason="it could not be read")
    await ledger.outbox.enqueue(
        [NewOutbound(conversation=PLACE, text="one\nline"), NewOutbound(conversation=PLACE, text="two")]
    )
    return ledger


async def test_what_is_under_way_is_listed_dropped_and_revived(tmp_path: Path) -> None:
    ledger = await filled(tmp_path / "ledger.sqlite")
    desk = QueueHandlers(ledger)
    assert [row["state"] for row in (await desk.outbox())["outbox"]] == ["ready", "ready"]
    await desk.drop(1)
    first = (await desk.outbox())["outbox"][0]
    assert (first["state"], first["reason"]) == ("dead", "dropped by the owner")
    await desk.retry(1)
    assert [row["state"] for row in (await desk.outbox())["outbox"]] == ["ready", "ready"]
    with pytest.raises(UsageError, match="no message 1 that was given up"):
        await desk.retry(1)
    assert [row["id"] for row in (await desk.inbox())["inbox"]] == [2]
    (missed,) = (await desk.missed())["inbox"]
    assert (missed["id"], missed["reason"]) == (1, "it could not be read")
    await ledger.close()


@pytest.mark.files
async def test_the_commands_look_into_the_ledger_when_no_gateway_runs(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    await (await filled(tmp_path / "state" / "ledger.sqlite")).close()

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(homebody, ["--home", str(tmp_path), *arguments], catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    listed = (await asyncio.to_thread(run, "outbox", "list")).splitlines()
    assert sorted(listed) == [
        "     1  ready (waits: no gateway runs (homebody start))  telegram:default:direct:42  one line",
        "     2  ready (waits: after message 1)  telegram:default:direct:42  two",
    ]
    assert json.loads(await asyncio.to_thread(run, "outbox", "drop", "2", "--json")) == {"dropped": 2}
    rows = json.loads(await asyncio.to_thread(run, "outbox", "list", "--json"))
    assert [row["state"] for row in rows] == ["ready", "dead"]
    assert "it could not be read" in await asyncio.to_thread(run, "inbox", "missed")
    assert "waiting" in await asyncio.to_thread(run, "inbox", "list")
