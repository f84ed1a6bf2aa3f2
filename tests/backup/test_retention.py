"""Which backups are kept, for any dates and any rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from gateway.backup.retention import kept
from gateway.settings.backup_settings import KeepSettings

ZONE = ZoneInfo("Europe/Berlin")
START = datetime(2024, 1, 1, tzinfo=UTC)
MOMENTS = st.lists(st.integers(0, 3 * 365 * 24 * 3600).map(lambda seconds: START + timedelta(seconds=seconds)), max_size=60)
RULES = st.builds(KeepSettings, daily=st.integers(0, 9), weekly=st.integers(0, 6), monthly=st.integers(0, 14))


@given(MOMENTS, RULES)
def test_the_newest_always_stays_and_no_more_than_the_rule_says(made: list[datetime], keep: KeepSettings) -> None:
    stay = kept(made, keep, ZONE)
    assert stay <= set(made)
    assert not made or max(made) in stay
    assert len(stay) <= max(1, keep.daily + keep.weekly + keep.monthly)


@given(MOMENTS, RULES)
def test_of_each_kept_day_week_and_month_the_last_copy_stays(made: list[datetime], keep: KeepSettings) -> None:
    stay = kept(made, keep, ZONE)
    days = sorted({at.astimezone(ZONE).date() for at in made}, reverse=True)[: keep.daily]
    months = sorted({(at.astimezone(ZONE).year, at.astimezone(ZONE).month) for at in made}, reverse=True)[: keep.monthly]
    for day in days:
        assert max(at for at in made if at.astimezone(ZONE).date() == day) in stay
    for month in months:
        assert max(at for at in made if (at.astimezone(ZONE).year, at.astimezone(ZONE).month) == month) in stay


@given(MOMENTS, RULES)
def test_deleting_after_each_backup_keeps_the_same_as_deleting_once(made: list[datetime], keep: KeepSettings) -> None:
    there: set[datetime] = set()
    for at in sorted(made):
        there = kept([*there, at], keep, ZONE)
    assert there == kept(made, keep, ZONE)
    assert kept(there, keep, ZONE) == there


def test_a_year_of_nights_leaves_the_last_week_four_weeks_and_twelve_months() -> None:
    nights = [datetime(2026, 1, 1, 2, 30, tzinfo=UTC) + timedelta(days=day) for day in range(365)]
    stay = kept(nights, KeepSettings(), ZONE)
    last_of_months = ("01-31", "02-28", "03-31", "04-30", "05-31", "06-30", "07-31", "08-31", "09-30", "10-31", "11-30")
    wanted = [*last_of_months, "12-13", "12-20", *(f"12-{day}" for day in range(25, 32))]
    assert [f"{at:%m-%d}" for at in sorted(stay)] == wanted
