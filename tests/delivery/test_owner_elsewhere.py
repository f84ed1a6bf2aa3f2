"""Notices of a gateway whose agents the owner never wrote to: another gateway of the cluster knows where the owner is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.messages import ChatAddress
from gateway.base.clock import SystemClock
from gateway.ledger.open_ledger import open_ledger
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_notice_waits_for_what_another_gateway_knows(tmp_path: Path) -> None:
    known: list[ChatAddress] = []

    async def elsewhere(_: str | None) -> ChatAddress | None:
        return known[0] if known else None

    ledger = await open_ledger(tmp_path, Settings().storage, SystemClock())
    try:
        owner = OwnerNotifications(ledger, {}, dict)
        owner.elsewhere = elsewhere
        owner.say("both versions are there", waits=True)
        await owner.tell("the first")
        assert await owner.place() is None
        place = ChatAddress(channel="telegram", account="default", kind="direct", id="42")
        known.append(place)
        assert await owner.own_place() is None
        await owner.tell("the second")
        queued = sorted((row.conversation.address, row.text) for row in await ledger.outbox.latest(["ready"]))
        assert queued == [(place.address, "both versions are there"), (place.address, "the second")]
    finally:
        await ledger.close()
