"""A night and a morning on a ledger, to be killed at any durable step: five messages are held, then sent and written to a file."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.ledger.rows import NewOutbound, Unasked
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings.quiet_hours import DailyHours, UnaskedRule

BERLIN = ZoneInfo("Europe/Berlin")
EVENING = datetime(2026, 11, 23, 21, tzinfo=BERLIN)
RULE = UnaskedRule(zone=BERLIN, quiet=DailyHours(start="22:00", end="07:00"), per_day=3)
ACCOUNT = "telegram:default"
CHAT = ChatAddress(channel="telegram", kind="direct", id="1")
MARK = Unasked(agent="main", source="job:abcde", name="water the plants", rule=RULE)

MESSAGES = 5


def lines(folder: Path) -> list[str]:
    path = folder / "shown"
    return path.read_text().splitlines() if path.exists() else []


async def night(folder: Path) -> None:
    ledger = await SqliteLedger.open(folder / "ledger.sqlite", ManualClock(EVENING + timedelta(hours=3)))
    for number in range(MESSAGES):
        await ledger.outbox.enqueue([NewOutbound(conversation=CHAT, text=f"{number}", key=f"job:{number}", unasked=MARK)])
    await ledger.unasked.release({"main": RULE})
    assert await ledger.outbox.due([ACCOUNT]) == []
    await ledger.close()


async def morning(folder: Path) -> None:
    ledger = await SqliteLedger.open(folder / "ledger.sqlite", ManualClock(EVENING + timedelta(hours=11)))
    await ledger.unasked.release({"main": RULE})
    while due := await ledger.outbox.due([ACCOUNT]):
        for row in due:
            known = row.doubts and row.text in lines(folder)  # the platform can say whether it has a message
            await ledger.outbox.sending(row.id)
            if not known:
                with (folder / "shown").open("a") as shown:
                    shown.write(f"{row.text}\n")
            await ledger.outbox.sent(row.id, f"p{row.id}")
    for kept in await ledger.unasked.waiting():
        await ledger.unasked.send(kept.id)
        (sent,) = await ledger.outbox.due([ACCOUNT])
        await ledger.outbox.sending(sent.id)
        with (folder / "shown").open("a") as shown:
            shown.write(f"{sent.text}\n")
        await ledger.outbox.sent(sent.id, f"p{sent.id}")
    await ledger.close()


if __name__ == "__main__":
    asyncio.run({"night": night, "morning": morning}[sys.argv[1]](Path(sys.argv[2])))
