"""Which chat platforms the settings ask for, and who may speak on each. Their libraries are loaded when they first run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import SecretStr

from gateway.access import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from channels.protocol import Channel
    from channels.telegram.settings import TelegramSettings
    from gateway.clock import SystemClock
    from gateway.config.settings import Settings


def platforms(settings: Settings, clock: SystemClock, env: Mapping[str, str]) -> Iterator[tuple[Channel, Policy]]:
    """Yield a channel for each enabled account, with its policy. A token may also stand in ``env``, for the default account."""
    telegram = _with_token(settings.channels.telegram, env)
    if names := telegram.names():
        import structlog

        from channels.telegram.channel import TelegramChannel

        for name in names:
            account = telegram.account(name)
            policy = Policy(dm_policy=account.dm_policy, allow_from=tuple(account.allow_from))
            yield TelegramChannel(telegram, name, clock=clock, log=structlog.get_logger("channels.telegram")), policy


def _with_token(telegram: TelegramSettings, env: Mapping[str, str]) -> TelegramSettings:
    token = env.get("TELEGRAM_BOT_TOKEN", "").strip()
    if not token or telegram.bot_token is not None or telegram.token_file is not None:
        return telegram
    return telegram.model_copy(update={"bot_token": SecretStr(token)})
