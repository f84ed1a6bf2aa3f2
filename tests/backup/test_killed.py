"""A backup or a restore that is killed at any of its steps leaves what was there, and the next one succeeds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gateway.backup.backup_folder import copies_in
from tests import programs
from tests.backup.conftest import ROOT, Lived, tree

if TYPE_CHECKING:
    from pathlib import Path


def killed(person: Path, place: str, *words: str) -> None:
    """Run the command, and have it killed at a place."""
    env = {"PATH": os.defpath, "HOME": str(person), "TZ": "UTC", "HOMEBODY_FAULT": place}
    done = programs.run(
        [sys.executable, "-m", "gateway", *words], cwd=ROOT, env=env, check=False, capture_output=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == -signal.SIGKILL, (place, done.stderr)


@pytest.mark.parametrize(
    "place", ["before-backup_ledger:1", "after-backup_ledger:1", "after-backup_file:5", "before-backup_rename:1"]
)
def test_a_killed_backup_leaves_the_earlier_ones_and_nothing_half(lived: Lived, place: str) -> None:
    first = lived.make()
    data = first.path.read_bytes()
    killed(lived.person, place, "backup", "create")
    assert [copy.path for copy in copies_in(lived.backups)] == [first.path]
    second = lived.make()
    assert sorted(path.name for path in lived.backups.iterdir()) == sorted({first.path.name, second.path.name})
    assert first.path.read_bytes() == data
    assert not (lived.home / "state/backup-work").exists()


@pytest.mark.parametrize(
    "place", ["before-restore_rename:1", "after-restore_rename:1", "before-restore_rename:2", "after-restore_rename:2"]
)
def test_a_killed_restore_loses_nothing_and_the_next_one_succeeds(lived: Lived, tmp_path: Path, place: str) -> None:
    made = lived.make()
    backup = tmp_path / made.path.name
    backup.write_bytes(made.path.read_bytes())
    key = tmp_path / "key.txt"
    key.write_bytes((lived.home / "backup-key.txt").read_bytes())
    (lived.workspace / "later.md").write_text("written after the backup")
    before = {data for name, data in tree(lived.person).items() if name.endswith((".md", ".jsonl", ".json"))}
    restore = ("backup", "restore", str(backup), "--identity", str(key), "--force")
    killed(lived.person, place, *restore)
    assert before <= set(tree(lived.person).values()), "all of it is there, under this name or another"
    done = programs.run(
        [sys.executable, "-m", "gateway", *restore],
        cwd=ROOT,
        env={"PATH": os.defpath, "HOME": str(lived.person), "TZ": "UTC"},
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert not (lived.workspace / "later.md").exists()
    assert b"blue pot" in b"".join(tree(lived.workspace).values())
    assert before <= set(tree(lived.person).values())
    assert not list(lived.person.glob("*.restoring-*"))
