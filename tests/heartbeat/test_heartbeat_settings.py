"""The settings of heartbeats: what they are by default, and what is refused with a word on what to write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from gateway.settings.heartbeat_settings import ActiveHours, HeartbeatSettings
from gateway.settings.root import Settings

UTC_ZONE, BERLIN, TOKYO = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"every": "1s"}, "one minute"),
        ({"every": 59}, "one minute"),
        ({"every": -1}, "greater than or equal to 0"),
        ({"every": "often"}, "no duration"),
        ({"activeHours": {"start": "08:00", "end": "08:00"}}, "both 08:00"),
        ({"activeHours": {"start": "8 am", "end": "22:00"}}, "write it like 22:00"),
        ({"activeHours": {"start": "08:00", "end": "22:00", "timezone": "Europe/Berlni"}}, "no such time zone"),
        ({"target": "anna"}, 'neither "last" nor "none"'),
        ({"thinking": "hard"}, "Input should be"),
        ({"prompt": "  "}, "at least 1 character"),
        ({"dailyUsd": -1}, "greater than or equal to 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        HeartbeatSettings.model_validate(given)


def test_the_defaults_and_one_agents_own_settings() -> None:
    settings = Settings.model_validate(
        {
            "agents": {
                "defaults": {"heartbeat": {"every": "2h", "activeHours": {"start": "7:00", "end": "24:00"}}},
                "list": [{"id": "main"}, {"id": "work", "heartbeat": {"every": 0}}],
            }
        }
    )
    main, work = settings.agent("main").heartbeat, settings.agent("work").heartbeat
    assert (HeartbeatSettings().every, main.every, work.every) == (1800, 7200, 0)
    assert work.active_hours == main.active_hours == ActiveHours(start="07:00", end="24:00")
    assert "HEARTBEAT_OK" in main.prompt


def test_hours_that_end_before_they_begin_belong_to_the_night() -> None:
    hours = ActiveHours(start="22:00", end="06:00")
    night, noon = datetime(2026, 3, 1, 23, tzinfo=UTC), datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert hours.current(night, UTC_ZONE) is not None
    assert hours.current(noon, UTC_ZONE) is None


def test_hours_are_the_owners_the_machines_or_of_a_place() -> None:
    zones = [
        ActiveHours(start="08:00", end="22:00", timezone=name).zone(BERLIN, UTC_ZONE)
        for name in ("user", "local", "Asia/Tokyo")
    ]
    assert zones == [BERLIN, UTC_ZONE, TOKYO]
