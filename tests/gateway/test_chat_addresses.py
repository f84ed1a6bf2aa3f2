"""``homebody channels chats`` lists the addresses that jobs and webhooks can send to, and each of them is taken."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from gateway.base.clock import ManualClock
from gateway.base.errors import UsageError
from gateway.cli.click_commands import homebody
from gateway.routing.chat_addresses import checked_address
from gateway.sessions.sessions_file import SessionRecord
from gateway.sessions.store import sessions_in
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
SPOKEN = [
    ("agent:main:job:abcde", "telegram:default:direct:42"),
    ("agent:main:main", "telegram:default:direct:42"),
    ("agent:main:telegram:group:-7", "telegram:default:group:-7:thread:3"),
    ("agent:main:slack:group:C1X", "slack:team:group:C1X"),
    ("agent:main:terminal", "terminal:default:direct:local"),
    ("agent:main:job", ""),
    ("agent:main:gone:9", "gone:default:direct:9"),
    ("agent:main:telegram:dm:42", "telegram:default:direct:42"),
]


async def speak(folder: Path) -> None:
    store = sessions_in(folder, ManualClock(NOW))
    await store.load()
    for number, (key, address) in enumerate(SPOKEN):
        at = NOW - timedelta(hours=number)
        await store.put(SessionRecord(session=f"2026-03-01-{number}", key=key, started=at, spoken=at, address=address))


def test_the_chats_are_listed_by_addresses_that_are_taken(tmp_path: Path) -> None:
    (tmp_path / "homebody.yaml").write_text("channels: {slack: {accounts: {team: {}}}}\n")
    asyncio.run(speak(tmp_path / "agents" / "main" / "sessions"))

    def ran(*words: str) -> str:
        done = CliRunner().invoke(homebody, ["--home", str(tmp_path), *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    found = json.loads(ran("channels", "chats", "--json"))
    assert [one["address"] for one in found] == [address for _, address in SPOKEN[1:4]]
    assert found[0]["sessionKey"] == "agent:main:main", "who writes there is not answered by a job's session"
    assert [line.split()[0] for line in ran("channels", "chats").splitlines()] == [one["address"] for one in found]
    for number, one in enumerate(found):
        ran("cron", "add", "in 5 minutes", "x", "--to", one["address"])
        ran("hooks", "add", f"h{number}", "--message", "x", "--deliver", one["address"])


@pytest.mark.parametrize(
    "address", ["telegram:default:direct:-1", "discord:default:group:general", "slack:default:direct:D1", "x:y"]
)
def test_an_address_that_cannot_be_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked_address(address, Settings())
    assert "homebody channels chats" in refused.value.hint
