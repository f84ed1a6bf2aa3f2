"""What receiving needs at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telegram import Bot

    from channels.clock import Clock
    from channels.log import Log
    from channels.pauses import Pauses
    from channels.protocol import Door
    from channels.telegram.settings import TelegramAccount


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """One bot, whose account it is, and the house behind it. ``pauses`` are those between attempts that fail."""

    bot: Bot
    settings: TelegramAccount
    account: str
    door: Door
    clock: Clock
    pauses: Pauses
    log: Log
