"""Which chat platforms the settings ask for, and who may speak on each. Their libraries are loaded when they first run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.access import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from channels.protocol import Channel
    from gateway.clock import SystemClock
    from gateway.config.settings import Settings


def platforms(settings: Settings, clock: SystemClock) -> Iterator[tuple[Channel, Policy]]:
    """Yield a channel for each enabled account, with its policy."""
    telegram = settings.channels.telegram
    if names := telegram.names():
        import structlog

        from channels.telegram.channel import TelegramChannel

        for name in names:
            account = telegram.account(name)
            policy = Policy(dm_policy=account.dm_policy, allow_from=tuple(account.allow_from))
            yield TelegramChannel(telegram, name, clock=clock, log=structlog.get_logger("channels.telegram")), policy
