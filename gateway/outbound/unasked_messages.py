"""Sends held messages when quiet hours end, and tells the owner of messages that were kept beyond the number of a day."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from agent.timing import Clock
from channels.messages import ChatAddress
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed, for_chat
from gateway.ledger.rows import KeptMessages, NewOutbound
from gateway.ledger.unasked import UnaskedLedger

log = logging.getLogger(__name__)


class UnaskedMessages:
    """Called by the scheduler. ``owner`` returns the owner's latest private chat, or None."""

    def __init__(
        self,
        ledger: UnaskedLedger,
        agents: Mapping[str, RunningAgent],
        clock: Clock,
        owner: Callable[[], Awaitable[ChatAddress | None]],
    ) -> None:
        self._ledger = ledger
        self._agents = agents
        self._clock = clock
        self._owner = owner
        self.next_release: datetime | None = None
        """When the next of the quiet hours end that lasted at the last look."""

    async def release(self) -> None:
        """Queue the held messages that may be sent now, and one line about kept ones."""
        try:
            await self._release()
        except StorageFailed as error:
            log.warning("held messages are looked at again later: %s", error)

    async def _release(self) -> None:
        rules = {agent.id: agent.unasked_rule for agent in self._agents.values()}
        now = self._clock.now()
        ends = {(rule.zone, str(rule.quiet)): rule for rule in rules.values() if rule.quiet is not None}.values()
        self.next_release = min((end for rule in ends if (end := rule.quiet_until(now)) is not None), default=None)
        if queued := await self._ledger.release(rules):
            log.info("%d held messages are sent now", queued)
        for kept in await self._ledger.untold({agent: rule.day(now) for agent, rule in rules.items()}):
            rule = rules.get(kept.agent)
            place = None if rule is not None and rule.quiet_until(now) is not None else await self._owner()
            if place is not None:
                limit = None if rule is None else rule.per_day
                await self._ledger.tell(kept, NewOutbound(conversation=place, text=for_chat(kept_text(kept, limit))))


def kept_text(kept: KeptMessages, limit: int | None) -> str:
    """Return the line that tells of kept messages."""
    most = "" if limit is None else f" of {limit}"
    what = "1 message" if kept.count == 1 else f"{kept.count} messages"
    was = "was" if kept.count == 1 else "were"
    more = "" if kept.over else " Further ones of today are kept, too; if there are any, I say how many when the day is over."
    return (
        f"📥 {what} that you had not asked for {was} kept on {kept.day} instead of being sent: the number{most} a day was reached "
        f"(agents.defaults.unaskedPerDay).{more} To read them: `homebody outbox held`; to send one: `homebody outbox send NUMBER`."
    )
