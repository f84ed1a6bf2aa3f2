"""A state folder that the real OpenClaw made, which keeps most of it in SQLite."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import apsw
import pytest

from tests.migration.test_migration import homebody, lines

REAL = Path(__file__).parent / "openclaw-2026.9.6"


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    """A home folder with the other program's state and workspace."""
    home = tmp_path / "owner"
    state = home / ".openclaw"
    shutil.copytree(REAL, state)
    for script in state.rglob("*.sql"):
        database = apsw.Connection(str(script.with_suffix(".sqlite")))
        database.execute(f"PRAGMA journal_mode=wal; {script.read_text().replace('/home/owner', str(home))}").fetchall()
        database.close()
        script.unlink()
    notes = state / "workspace" / "memory"
    notes.mkdir(parents=True)
    (state / "workspace/MEMORY.md").write_text("The spare key is under the blue pot.\n")
    (notes / "2026-11-25.md").write_text("Anna prefers tea.\n")
    return home


def test_a_state_that_the_real_program_made_comes_over(owner: Path) -> None:
    before = {path: path.read_bytes() for path in (owner / ".openclaw").rglob("*") if path.is_file()}
    done = homebody(owner, "migrate", "from-openclaw", str(owner / ".openclaw"), "--json")
    found = lines(done)
    assert "problem" not in found.values(), done.stdout
    assert {path: path.read_bytes() for path in (owner / ".openclaw").rglob("*") if path.is_file()} == before
    assert found[("settings", "channels.telegram.botToken")] == "taken"
    assert found[("people", "telegram 4242")] == "taken"
    assert ("people", "telegram 77") not in found, "who asked and was not let in stays outside"
    assert found[("keys", "openai:manual")] == "taken"
    assert found[("jobs", "water")] == found[("jobs", "brief")] == found[("jobs", "once")] == "taken"
    assert found[("jobs", "3 jobs of openclaw")] == "left out"
    assert found[("skills", "tide-table")] == "changed"
    assert homebody(owner, "config", "validate").returncode == 0
    jobs = {one["name"]: one for one in json.loads(homebody(owner, "cron", "list", "--json").stdout)}
    assert jobs["water"]["words"] == "At 09:00 on Monday through Friday (Europe/Berlin)"
    assert (jobs["once"]["state"], jobs["brief"]["state"]) == ("paused", "active")
    assert "Anna prefers tea" in homebody(owner, "memory", "search", "tea").stdout
    kept = json.loads((owner / ".homebody/auth-profiles.json").read_text())["profiles"]
    assert kept["openai:manual"]["provider"] == "openai"


def test_sessions_of_the_database_come_over_with_the_lines_that_it_compressed(owner: Path) -> None:
    found = lines(homebody(owner, "migrate", "from-openclaw", str(owner), "--json"))
    assert found[("sessions", "agent:main:main")] == "taken"
    assert found[("sessions", "agent:main:telegram:group:-1001")] == "taken"
    shown = homebody(owner, "sessions", "show").stdout
    assert "you: remember that the spare key is under the blue pot" in shown
    assert "you: my sister is called Bea" in shown
    assert "the boat 79 lies at pier 2" in shown
    assert shown.index("the boat 79") < shown.index("the cat is called Tom")
    assert "when is dinner?" in homebody(owner, "sessions", "show", "agent:main:telegram:group:-1001").stdout


def test_a_log_that_a_kill_left_behind_is_read_and_not_changed(owner: Path) -> None:
    path = owner / ".openclaw/state/openclaw.sqlite"
    running = apsw.Connection(str(path))
    running.execute("PRAGMA wal_autocheckpoint=0")
    running.execute("INSERT INTO channel_pairing_allow_entries VALUES('telegram', 'default', '99', 1, 1795648289984)")
    log = path.with_name("openclaw.sqlite-wal").read_bytes()
    assert log
    found = lines(homebody(owner, "migrate", "from-openclaw", str(owner), "--dry-run", "--json"))
    assert found[("people", "telegram 99")] == "taken"
    assert path.with_name("openclaw.sqlite-wal").read_bytes() == log
    running.close()


def test_an_owner_that_openclaw_knows_is_the_owner_here(owner: Path) -> None:
    database = apsw.Connection(str(owner / ".openclaw/state/openclaw.sqlite"))
    database.execute("INSERT INTO channel_pairing_allow_entries VALUES('telegram', 'default', '5', -1, 1)")
    database.close()
    assert homebody(owner, "migrate", "from-openclaw", str(owner)).returncode == 0
    allowed = json.loads(homebody(owner, "config", "get", "channels.telegram.allowFrom", "--json").stdout)
    assert str(allowed).index("4242") < str(allowed).index("'5'")


@pytest.mark.parametrize("damage", [b"", b"no database at all, and long enough to be one" * 100, None])
def test_a_database_that_cannot_be_read_is_named_and_the_rest_comes_over(owner: Path, damage: bytes | None) -> None:
    path = owner / ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    if damage is None:
        whole = path.read_bytes()
        path.write_bytes(whole[:8192] + bytes(len(whole) - 8192))
    else:
        path.write_bytes(damage)
    found = lines(homebody(owner, "migrate", "from-openclaw", str(owner), "--json"))
    assert found[("jobs", "water")] == "taken"
    assert found[("people", "telegram 4242")] == "taken"
    assert found[("sessions", str(path))] == "problem"


def test_files_of_a_version_before_the_database_are_read_beside_it(owner: Path) -> None:
    sessions = owner / ".openclaw/agents/main/sessions"
    sessions.mkdir()
    said = {"role": "user", "content": "from before"}
    row = {"type": "message", "id": "a", "parentId": None, "timestamp": "2026-01-01T00:00:00Z", "message": said}
    (sessions / "old.jsonl").write_text(json.dumps(row) + "\n")
    records = {"agent:main:main": {"sessionId": "old"}, "agent:main:telegram:group:-7": {"sessionId": "old"}}
    (sessions / "sessions.json").write_text(json.dumps(records))
    assert homebody(owner, "migrate", "from-openclaw", str(owner)).returncode == 0
    assert "from before" in homebody(owner, "sessions", "show", "agent:main:telegram:group:-7").stdout
    assert "from before" not in homebody(owner, "sessions", "show").stdout


def test_what_was_moved_to_the_cold_archive_is_named(owner: Path) -> None:
    path = owner / ".openclaw/agents/main/agent/openclaw-agent.sqlite"
    database = apsw.Connection(str(path))
    database.execute("DELETE FROM transcript_events WHERE session_id LIKE '29b0%'")
    archive = ("29b0b232-1cb0-483f-be3c-17c87262e5b6", "g", "a.zst", "0" * 64, 5, 1, 1, 5, 1, "file", None)
    database.execute("INSERT INTO session_transcript_cold_archives VALUES(?,?,?,?,?,?,?,?,?,?,?)", archive)
    database.close()
    done = homebody(owner, "migrate", "from-openclaw", str(owner), "--dry-run", "--json")
    told = {one["name"]: one["told"] for one in json.loads(done.stdout)["lines"] if one["kind"] == "sessions"}
    assert told["agent:main:telegram:group:-1001"] == "it is in the cold archive of OpenClaw"
