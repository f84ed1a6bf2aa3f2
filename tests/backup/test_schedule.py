"""When a backup is due, and what the gateway does about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.backup.backup_schedule import AGAIN_AFTER, LastBackup, is_due, latest_due
from gateway.settings.backup_settings import BackupSettings

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday
MOMENTS = st.integers(0, 3 * 365 * 24 * 60).map(lambda minutes: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes))
SCHEDULES = st.sampled_from(["03:30", "2:30", "daily 23:59", "sun 03:30", "wed 00:00"])


def tried(at: datetime, failed: str = "") -> LastBackup:
    return LastBackup(tried=at.isoformat(), failed=failed)


@given(SCHEDULES, MOMENTS)
def test_the_latest_instant_is_at_most_a_week_ago_and_not_ahead(schedule: str, now: datetime) -> None:
    due = latest_due(schedule, now, ZONE)
    assert due is not None
    assert timedelta(0) <= now - due <= timedelta(days=7, hours=2)


@given(SCHEDULES, MOMENTS)
def test_one_that_was_just_made_is_not_due_and_one_of_last_month_is(schedule: str, now: datetime) -> None:
    assert not is_due(schedule, tried(now), now, ZONE)
    assert is_due(schedule, tried(now - timedelta(days=30)), now, ZONE)
    assert is_due(schedule, None, now, ZONE)
    assert not is_due("off", None, now, ZONE)


def test_a_failure_is_tried_again_after_an_hour() -> None:
    assert not is_due("03:30", tried(NOW - AGAIN_AFTER / 2, "disk full"), NOW, ZONE)
    assert is_due("03:30", tried(NOW - AGAIN_AFTER, "disk full"), NOW, ZONE)


def test_a_clock_that_was_set_back_a_little_makes_none_twice_and_a_year_stops_none() -> None:
    assert not is_due("03:30", tried(NOW + timedelta(hours=2)), NOW, ZONE)
    assert is_due("03:30", tried(NOW + timedelta(days=365)), NOW, ZONE)


@pytest.mark.parametrize("text", ["25:00", "every day", "3.30", "sunday", "foo 03:30"])
def test_a_schedule_that_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValidationError, match="03:30"):
        BackupSettings(schedule=text)
