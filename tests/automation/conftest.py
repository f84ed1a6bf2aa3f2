"""Messages that no person wrote, in a whole house."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from channels.messages import ChatAddress, Inbound, Sender
from channels.silent import silent_place
from gateway.routing.routed_message import Automation
from gateway.routing.router import Route
from memory.audience import OWNER, Audience
from tests.gateway.conftest import street
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from gateway.app.gateway import Gateway
    from gateway.ledger.rows import InboxRow

__all__ = ["street"]

LOCAL = ChatAddress(channel="terminal", kind="direct", id="local")
MAIN = "agent:main:main"


def job(name: str = "water", **rules: Any) -> Automation:
    return Automation(**{"origin": "schedule", "name": name, "source": f"job:{name}"} | rules)


def event(text: str, key: str = "water:1", place: ChatAddress | None = None, session: str = "agent:main:job:water") -> Inbound:
    return Inbound(
        conversation=place or silent_place(session),
        sender=Sender(id="job:water", name="water"),
        text=text,
        at=datetime(2026, 3, 1, 9, 30, tzinfo=UTC),
        key=key,
        alias=key,
        message_id=key,
    )


def to(session: str = "agent:main:job:water", audience: Audience = OWNER) -> Route:
    return Route(agent="main", session=session, audience=audience)


async def answered(house: Gateway, row: InboxRow | None) -> InboxRow:
    """Wait until a message is answered or given up; return its row."""
    assert row is not None
    async with asyncio.timeout(PATIENCE):
        while (now := (await house.ledger.inbox.rows([row.id]))[0]).state in {"waiting", "claimed"}:  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)
    return now
