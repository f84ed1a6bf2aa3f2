"""``homebody calendar`` on a real radicale, as a person runs it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests import programs
from tests.calendar.conftest import calendar, event

if TYPE_CHECKING:
    from pathlib import Path

    from tests.calendar.conftest import Radicale


async def homebody(home: Path, settings: dict[str, Any], *words: str) -> tuple[int, str, str]:
    (home / "homebody.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "gateway", "--home", home, *words]
    ran = await asyncio.to_thread(programs.run, command, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"})
    return ran.returncode, ran.stdout, ran.stderr


async def test_accounts_are_listed_tested_and_read(radicale: Radicale, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    tomorrow = datetime.now(UTC).replace(hour=10, minute=0, second=0) + timedelta(days=1)
    await radicale.put("personal/a.ics", calendar(event("SUMMARY:Dentist", f"DTSTART:{tomorrow:%Y%m%dT%H%M%SZ}", uid="a")))
    one = {"url": radicale.url, "user": "anna", "password": "s3cret-word"}
    both = {"calendar": {"accounts": {"personal": one, "wrong": {**one, "password": "not-it-at-all"}}}}
    both["agents"] = {"defaults": {"userTimezone": "UTC"}}  # type: ignore[dict-item]
    code, out, err = await homebody(home, both, "calendar", "accounts")
    assert (code, len(out.splitlines())) == (0, 2), err
    assert "s3cret" not in out
    code, out, err = await homebody(home, both, "calendar", "test")
    assert code == 1, err
    assert "personal: works" in out
    assert "events in the next 7 days: 1" in out
    assert "! the password is sent unencrypted" in out
    assert "wrong: does not work" in out
    assert "Set calendar.accounts.wrong.user and calendar.accounts.wrong.password" in out
    assert "not-it-at-all" not in out + err
    code, out, err = await homebody(home, both, "calendar", "test", "personal", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["calendars"] == [{"name": "personal", "writable": True}]
    code, out, err = await homebody(home, both, "calendar", "list", "--account", "personal", "--json")
    assert code == 0, err
    (found,) = json.loads(out)["events"]
    assert found["title"] == "Dentist"
    code, out, err = await homebody(home, both, "calendar", "list", "--from", "soon")
    assert code == 2
    assert "no day or time" in err
    code, out, err = await homebody(home, both, "calendar", "test", "nobody")
    assert code == 2
    assert "There is: personal, wrong" in err
    code, out, err = await homebody(home, {}, "calendar", "accounts")
    assert "No calendar account is configured" in out
