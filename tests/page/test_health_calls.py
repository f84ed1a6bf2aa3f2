"""Health: the log with a filter, the doctor's findings and their mending, dead letters, version and backups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from channels.messages import ChatAddress
from gateway.api.handlers.queues import QueueHandlers
from gateway.app.dependencies import Dependencies
from gateway.app.health_handlers import HealthHandlers
from gateway.base.clock import SystemClock
from gateway.base.errors import UsageError
from gateway.base.paths import Paths
from gateway.cli.click_commands import homebody
from gateway.ledger.rows import NewOutbound
from gateway.ledger.sqlite import SqliteLedger
from gateway.logs.log_reader import LogFilter
from gateway.logs.log_window import latest, since
from gateway.settings.root import Settings, SettingsStore
from tests.gateway.conftest import street

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.gateway.conftest import Street

__all__ = ["street"]
PLACE = ChatAddress(channel="telegram", kind="direct", id="42")


def logged(path: Path, *events: str, level: str = "info") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for event in events:
            file.write(json.dumps({"at": "2026-03-01T12:00:00Z", "level": level, "logger": "g", "event": event}) + "\n")


def handlers(home: Path, **settings: Any) -> HealthHandlers:
    given = Settings.model_validate(settings)
    deps = Dependencies(settings=given, paths=Paths(home), env={})
    return HealthHandlers(deps, SettingsStore(given))


async def test_the_log_is_read_and_followed_over_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "homebody.jsonl"
    desk = handlers(tmp_path)
    assert (await desk.logs())["lines"] == []
    logged(path, "one", "two")
    logged(path, "worse", level="error")
    first = await desk.logs(lines=2)
    assert [line["event"] for line in first["lines"]] == ["two", "worse"]
    logged(path, "three")
    with path.open("a") as file:
        file.write('{"level": "info", "event": "ha')
    second = await desk.logs(place=first["place"])
    assert [line["event"] for line in second["lines"]] == ["three"]
    with path.open("a") as file:
        file.write('lf"}\n')
    path.rename(path.with_name("homebody.jsonl.1"))
    logged(path, "four")
    third = await desk.logs(place=second["place"])
    assert [line["event"] for line in third["lines"]] == ["half", "four"]
    assert (await desk.logs(place=third["place"]))["lines"] == []
    assert [line["event"] for line in (await desk.logs(level="error"))["lines"]] == ["worse"]
    assert [line["event"] for line in (await desk.logs(search="THRE"))["lines"]] == ["three"]
    assert (await desk.logs(place="1-2-3"))["gap"], "what was left out is said"
    with pytest.raises(UsageError, match="no level"):
        await desk.logs(level="loud")


def test_lines_since_a_place_are_limited_and_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "homebody.jsonl"
    logged(path, "first")
    place = latest(path, LogFilter(), 10).place
    logged(path, *map(str, range(30)))
    found = since(path, place, LogFilter(), 10)
    assert [line.facts["event"] for line in found.lines] == [str(n) for n in range(20, 30)]
    assert found.gap
    assert since(path, found.place, LogFilter(), 10).lines == []


async def test_a_secret_in_the_log_is_not_shown(tmp_path: Path) -> None:
    logged(tmp_path / "logs" / "homebody.jsonl", "the token is 123:very-secret-token", "<img src=x onerror=alert(1)>")
    desk = handlers(tmp_path, channels={"telegram": {"enabled": False, "botToken": "123:very-secret-token"}})
    lines = (await desk.logs())["lines"]
    assert "very-secret" not in json.dumps(lines)
    assert lines[1]["event"] == "<img src=x onerror=alert(1)>", "the page shows text as text"


async def test_one_finding_is_mended_and_others_stay(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "agents" / "main").mkdir(parents=True)
    (home / "state").mkdir()
    for name in (home, home / "state"):
        name.chmod(0o755)
    (home / "homebody.yaml").write_text("agents: {}\n")
    (home / "auth-profiles.json").write_text('{"version": 1, "profiles": {}}')
    (home / "auth-profiles.json").chmod(0o644)
    desk = handlers(home)
    found = await desk.findings()
    fixable = [one for one in found["findings"] if one["fixable"]]
    assert len(fixable) >= 2, found["findings"]
    wanted = fixable[0]
    done = await desk.mend(wanted["id"])
    assert [one["id"] for one in done["mended"]] == [wanted["id"]]
    assert done["mended"][0]["done"]
    assert (home / "logs").is_dir()
    assert home.stat().st_mode & 0o777 == 0o755, "nobody asked for that"
    (left,) = [one for one in (await desk.findings())["findings"] if one["fixable"]]
    assert left["what"].startswith("other users of this machine can read")
    with pytest.raises(UsageError, match="not found again"):
        await desk.mend(wanted["id"])
    for wrong in ("--fix", "permissions", "x; rm -rf /"):
        with pytest.raises(UsageError, match="no id"):
            await desk.mend(wrong)


def test_the_command_says_that_there_is_no_such_finding(tmp_path: Path) -> None:
    ran = CliRunner().invoke(homebody, ["--home", str(tmp_path), "doctor", "--mend", "nonsense-12345678"])
    assert ran.exit_code != 0
    assert "no finding" in str(ran.exception or ran.output)


async def test_a_dead_letter_is_forgotten_for_good(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", SystemClock())
    await ledger.outbox.enqueue([NewOutbound(conversation=PLACE, text="one"), NewOutbound(conversation=PLACE, text="two")])
    desk = QueueHandlers(ledger)
    with pytest.raises(UsageError, match="was given up"):
        await desk.forget(1)
    await desk.drop(1)
    await desk.forget(1)
    assert [row["id"] for row in (await desk.outbox())["outbox"]] == [2]
    assert [row["text"] for row in (await desk.outbox(everything=True))["outbox"]] == ["", "two"]
    with pytest.raises(UsageError):
        await desk.retry(1)
    await ledger.close()


async def test_status_tells_version_and_backups(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, _):
        facts = await house.calls()["status"]()
        assert facts["version"]
        assert facts["backup"]["newest"] is None
        house.pause.begin("disk", "The disk is full.")
        house.notices.tell("Something else.")
        facts = await house.calls()["status"]()
        assert (facts["paused"], facts["notices"][-1]) == (["The disk is full."], "Something else.")
        assert "The disk is full." not in facts["notices"], "told once"
        folder = here.root / "home" / "backups"
        folder.mkdir()
        (folder / "homebody-20260301T093000Z.tar.gz").write_bytes(b"\x1f\x8b1234")
        facts = await house.calls()["status"]()
        assert facts["backup"]["newest"] == "2026-03-01T09:30:00+00:00"
