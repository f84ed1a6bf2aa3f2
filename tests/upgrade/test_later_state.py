"""A state of a later version is refused with its file and version, and nothing is written into it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.backup.versions import versions_in
from gateway.base.clock import SystemClock
from gateway.base.errors import StorageFailed
from gateway.base.paths import Paths
from gateway.cli import main
from gateway.ledger.schema import APPLICATION_ID, STEPS
from gateway.ledger.snapshot import read_version
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "state/approvals.json": '{"version": 2, "rules": [], "off": []}',
    "state/skills.json": '{"version": 2, "approved": {}}',
    "state/api-tokens.json": '{"version": 2, "tokens": []}',
    "auth-profiles.json": '{"version": 7, "profiles": {}}',
    "agents/main/sessions/sessions.json": '{"v": 2, "sessions": {}}',
    "agents/main/sessions/20261125-aaaaaaaaaaaa.jsonl": '{"v":2,"kind":"opened","id":"x:0","parent":null}\n',
}


def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"agents": {"defaults": {"workspace": str(tmp_path / "workspace")}}})


@pytest.mark.parametrize("name", FILES)
async def test_a_gateway_refuses_a_file_of_a_later_version(name: str, tmp_path: Path) -> None:
    file = tmp_path / "home" / name
    file.parent.mkdir(parents=True)
    file.write_text(FILES[name])
    with pytest.raises(StorageFailed, match="of version") as refused:
        await Gateway.open(Dependencies(settings=settings(tmp_path), paths=Paths(tmp_path / "home"), env={}))
    assert refused.value.where == str(file)
    assert "newer Homebody" in refused.value.hint
    assert file.read_text() == FILES[name]


def test_the_check_tells_of_a_later_file_and_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "home/state/approvals.json"
    file.parent.mkdir(parents=True)
    file.write_text(FILES["state/approvals.json"])
    assert main(["--home", str(tmp_path / "home"), "upgrade", "--check", "--json"]) == 1
    told = json.loads(capfd.readouterr().out)
    assert told["readable"] is False
    assert told["files"] == [
        {
            "kind": "approval rules",
            "version": 2,
            "known": 1,
            "files": 1,
            "example": "state/approvals.json",
            "becomes": "refused",
        }
    ]


@pytest.mark.parametrize("wanted", ["--check", "--rehearse"])
def test_the_version_of_a_ledger_is_read_from_the_log_that_a_killed_gateway_left(
    wanted: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home, scratch = tmp_path / "home", tmp_path / "open.sqlite"
    (home / "state").mkdir(parents=True)
    ledger = apsw.Connection(str(scratch))
    ledger.pragma("journal_mode", "wal")
    ledger.pragma("wal_autocheckpoint", 0)
    ledger.pragma("application_id", APPLICATION_ID)
    ledger.pragma("user_version", len(STEPS) + 1)
    for side in ("", "-wal"):
        shutil.copyfile(f"{scratch}{side}", home / f"state/ledger.sqlite{side}")
    ledger.close()
    assert main(["--home", str(home), "upgrade", wanted, "--json"]) == 1
    (told,) = json.loads(capfd.readouterr().out)["files"]
    assert (told["version"], told["known"], told["becomes"]) == (len(STEPS) + 1, len(STEPS), "refused")
    assert sorted(path.name for path in (home / "state/backup-work").iterdir()) == []


def test_a_rehearsal_says_from_which_version_a_ledger_was_migrated(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    (home / "state").mkdir(parents=True)
    (home / "homebody.yaml").write_text(f"agents: {{defaults: {{workspace: {tmp_path / 'workspace'}}}}}\n")
    path = home / "state/ledger.sqlite"
    db = apsw.Connection(str(path))
    for step in STEPS[:11]:
        db.execute(step)
    db.execute("INSERT INTO meta VALUES ('epoch', 'e')")
    db.pragma("user_version", 11)
    db.pragma("application_id", APPLICATION_ID)
    db.close()
    assert main(["--home", str(home), "upgrade", "--rehearse"]) == 0
    told = " ".join(capfd.readouterr().out.split())
    assert f"ledger version 11 brought to version {len(STEPS)} on the copy (state/ledger.sqlite)" in told
    assert read_version(path) == 11


async def test_a_ledger_of_an_earlier_version_is_copied_before_it_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    db = apsw.Connection(str(path))
    for step in STEPS[:5]:
        db.execute(step)
    db.execute("INSERT INTO meta VALUES ('epoch', 'e')")
    db.execute("INSERT INTO approved VALUES ('telegram', '', '7', 'Iris', 'owner', '{}', 1)")
    db.pragma("user_version", 5)
    db.pragma("application_id", 0x486F6D65)
    db.close()
    ledger = await SqliteLedger.open(path, SystemClock())
    await ledger.close()
    (now,) = [one for one in versions_in(tmp_path, path) if one.kind == "ledger"]
    assert (now.found, now.older, now.newer) == (len(STEPS), False, False)
    copy = apsw.Connection(str(tmp_path / "ledger.sqlite.version-5"), flags=apsw.SQLITE_OPEN_READONLY)
    assert copy.pragma("user_version") == 5
    assert copy.execute("SELECT name FROM approved").fetchall() == [("Iris",)]
    copy.close()
