from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.commands.table import parse
from gateway.sessions.store import boundary, due, next_due
from gateway.settings.session_settings import ResetSettings, SessionSettings

RULES = SessionSettings.model_validate(
    {
        "reset": {"mode": "daily", "atHour": 5, "deferMinutes": 10},
        "resetByType": {"group": {"mode": "idle", "idleMinutes": 7}, "thread": {"mode": "none"}, "direct": {"atHour": 3}},
        "resetByChannel": {"discord": {"mode": "idle", "idleMinutes": 99}},
    }
)


@pytest.mark.parametrize(
    ("key", "address", "mode", "hour", "idle"),
    [
        ("agent:main:main", "telegram:default:direct:1", "daily", 3, 60),
        ("agent:main:main", "discord:default:direct:1", "idle", 5, 99),
        ("agent:main:telegram:group:1", "telegram:default:group:1", "idle", 5, 7),
        ("agent:main:telegram:group:1:thread:5", "telegram:default:group:1", "none", 5, 60),
        ("agent:main:discord:group:1", "", "idle", 5, 99),
        ("agent:main:telegram:dm:7", "", "daily", 3, 60),
        ("agent:main:dm:anna", "telegram:default:direct:7", "daily", 3, 60),
    ],
)
def test_channel_beats_kind_beats_the_general_rule(key: str, address: str, mode: str, hour: int, idle: int) -> None:
    rule = RULES.rule(key, address)
    assert (rule.mode, rule.at_hour, rule.idle_minutes, rule.defer_minutes) == (mode, hour, idle, 10)


def test_the_older_way_to_write_an_idle_rule_counts_only_alone() -> None:
    assert SessionSettings.model_validate({"idleMinutes": 5}).rule("agent:main:main").mode == "idle"
    both = SessionSettings.model_validate({"idleMinutes": 5, "reset": {"mode": "none"}})
    assert both.rule("agent:main:main").mode == "none"
    assert SessionSettings().rule("agent:main:main") == ResetSettings()


def test_an_active_session_is_not_reset_at_four_in_the_morning() -> None:
    """Known defect 49170: the daily reset wiped a session that was being spoken in."""
    zone = ZoneInfo("Europe/Berlin")
    four = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
    started, spoken = four - timedelta(hours=6), four - timedelta(minutes=2)
    rule = ResetSettings()
    assert due(rule, started=started, spoken=spoken, now=four, zone=zone) is None
    assert due(rule, started=started, spoken=spoken, now=spoken + timedelta(minutes=29), zone=zone) is None
    assert due(rule, started=started, spoken=spoken, now=spoken + timedelta(minutes=30), zone=zone) == "daily"


zones = st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "UTC"])
minutes = st.integers(0, 3 * 365 * 24 * 60)
instants = minutes.map(lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=n))
rules = st.builds(
    ResetSettings,
    mode=st.sampled_from(["daily", "idle", "daily+idle", "none"]),
    at_hour=st.integers(0, 23),
    idle_minutes=st.integers(1, 3000),
    defer_minutes=st.integers(0, 120),
)


@given(rules, instants, st.integers(0, 5000), st.integers(0, 5000), zones)
def test_the_rule_says_yes_exactly_from_the_instant_on_that_was_foretold(
    rule: ResetSettings, started: datetime, talk: int, wait: int, name: str
) -> None:
    zone = ZoneInfo(name)
    spoken = started + timedelta(minutes=talk)
    now = spoken + timedelta(minutes=wait)
    foretold = next_due(rule, started=started, spoken=spoken, now=now, zone=zone)
    if foretold is None:
        assert rule.mode == "none"
        assert due(rule, started=started, spoken=spoken, now=now + timedelta(days=400), zone=zone) is None
        return
    assert foretold >= now
    assert due(rule, started=started, spoken=spoken, now=foretold, zone=zone) is not None
    if foretold > now:
        assert due(rule, started=started, spoken=spoken, now=foretold - timedelta(seconds=1), zone=zone) is None


@given(instants, st.integers(0, 23), zones)
def test_a_day_has_one_boundary_in_every_zone_and_season(now: datetime, hour: int, name: str) -> None:
    zone = ZoneInfo(name)
    latest = boundary(now, hour, zone)
    following = boundary(now, hour, zone, following=True)
    assert latest <= now < following
    assert timedelta(hours=22) <= following - latest <= timedelta(hours=26) or name == "Pacific/Apia"
    assert boundary(latest, hour, zone) == latest


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("/fresh", ""),
        ("  /FRESH opus", "opus"),
        ("start over", ""),
        ("start over, please", None),
        ("/freshly", None),
        ("hi", None),
    ],
)
def test_the_owners_own_words_start_afresh(text: str, argument: str | None) -> None:
    found = parse(text, ("/fresh", "start over"))
    assert (None if found is None else (found[0].name, found[1])) == (None if argument is None else ("new", argument))
