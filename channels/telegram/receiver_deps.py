"""What receiving needs at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from telegram import Bot

    from channels.common.backoff import Backoff
    from channels.common.log import Log
    from channels.protocol import Clock, InboundSink
    from channels.telegram.settings import TelegramAccount


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverDeps:
    """One bot, whose account it is, and the house behind it. ``pauses`` are those between attempts that fail.

    ``trouble`` is told what hinders it while it runs, and an empty text when that is over. ``signed_in`` is told the bot's
    name. ``wary``: another program had the bot when it ran last, and may have it still.
    """

    bot: Bot
    settings: TelegramAccount
    account: str
    door: InboundSink
    clock: Clock
    pauses: Backoff
    log: Log
    trouble: Callable[[str], None] = lambda _: None
    signed_in: Callable[[str], None] = lambda _: None
    wary: bool = False
