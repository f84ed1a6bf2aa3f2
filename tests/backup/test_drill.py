"""The drill finds whatever a backup lacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.backup.conftest import Lived, json_of, rewritten, tree, with_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]


def test_a_good_backup_passes_and_leaves_nothing_behind(lived: Lived, command: Run) -> None:
    before = tree(lived.person).keys()
    code, printed, told = command("--home", str(lived.home), "backup", "drill", "--json")
    assert code == 0, told
    report = json_of(printed)
    assert report["differences"] == []
    assert report["keyMade"] is True
    assert report["counts"]["jobs"] == 2
    assert report["counts"]["sessions"] == 1
    assert report["counts"]["entries"] > 5
    assert report["counts"]["notes"] > 5
    left = {name for name in tree(lived.person).keys() - before if not name.startswith(".homebody/backup")}
    assert left <= {".homebody/state/backup-work.lock"}


def test_a_drill_that_makes_the_first_backup_shows_the_key_that_was_made_for_it(lived: Lived, command: Run) -> None:
    code, printed, told = command("--home", str(lived.home), "backup", "drill")
    assert code == 0, told
    _, shown, _ = command("--home", str(lived.home), "backup", "key", "--json")
    assert json_of(shown)["key"] in printed
    _, printed, _ = command("--home", str(lived.home), "backup", "drill", "--now")
    assert json_of(shown)["key"] not in printed


def test_a_drill_takes_the_newest_backup(lived: Lived, command: Run) -> None:
    made = lived.make()
    _, printed, _ = command("--home", str(lived.home), "backup", "drill", "--json")
    assert json_of(printed)["file"] == str(made.path)
    _, printed, _ = command("--home", str(lived.home), "backup", "drill", "--now", "--json")
    assert json_of(printed)["file"] != str(made.path)


LACKS = {
    "a transcript": (lambda name: name.endswith(".jsonl") and "/sessions/" in name, "is at home and not in the backup"),
    "a note": (lambda name: name.startswith("workspace/main/memory/2"), "is at home and not in the backup"),
}


@pytest.mark.parametrize("what", LACKS)
def test_a_backup_that_lacks_something_fails(lived: Lived, command: Run, what: str) -> None:
    lacking, words = LACKS[what]
    made = lived.make(no_secrets=True)

    gone = next(name for name in made.manifest.files if lacking(name))

    def edit(name: str, data: bytes) -> bytes | None:
        if name == "backup.json":
            data = json.dumps(json.loads(data) | {"made": "2027-01-01T00:00:00+00:00"}).encode()  # so that nothing is too young
        if name == "manifest.json":
            manifest = json.loads(data)
            del manifest["files"][gone]
            data = json.dumps(manifest).encode()
        return None if name == gone else data

    forged = rewritten(made.path, edit)
    code, printed, _ = command("--home", str(lived.home), "backup", "drill", str(forged), "--json")
    assert code == 1
    assert json_of(printed)["differences"] == [f"{gone} {words}"]


def test_a_backup_that_lacks_a_session_or_a_job_fails(lived: Lived, command: Run) -> None:
    made = lived.make(no_secrets=True)

    def change(manifest: dict) -> None:
        manifest["sessions"]["main"]["agent:main:gone"] = "s-gone"
        manifest["jobs"]["zzzzz"] = "1:00"

    code, printed, _ = command(
        "--home", str(lived.home), "backup", "drill", str(rewritten(made.path, with_manifest(change))), "--json"
    )
    assert code == 1
    differences = "\n".join(json_of(printed)["differences"])
    assert "the session agent:main:gone of main is missing" in differences
    assert "the job zzzzz is missing" in differences
