from __future__ import annotations

from datetime import UTC, datetime

from gateway.clock import ManualClock
from gateway.config.settings import Settings
from gateway.platforms import platforms

CLOCK = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))


def names(given: dict[str, object], env: dict[str, str]) -> list[str]:
    settings = Settings.model_validate({"channels": given})
    return [f"{channel.name}:{channel.account}" for channel, _ in platforms(settings, CLOCK, env)]


def test_without_a_token_there_is_no_platform() -> None:
    assert names({}, {}) == []


def test_a_token_in_the_environment_is_enough() -> None:
    assert names({}, {"TELEGRAM_BOT_TOKEN": "1:abc"}) == ["telegram:default"]


def test_a_channel_that_is_switched_off_stays_off() -> None:
    assert names({"telegram": {"enabled": False}}, {"TELEGRAM_BOT_TOKEN": "1:abc"}) == []
