"""A backup or a restore that is killed at any of its steps leaves what was there, and the next one succeeds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from agent import fault_injection
from gateway.backup.backup_folder import copies_in
from tests import programs
from tests.backup.conftest import ROOT, Lived, homebody, tree

if TYPE_CHECKING:
    from collections.abc import Callable
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


RENAMES = 6
"""The workspace away, the new one in; the key and the backups into the new home; the home away, the new one in."""
LEFT = ("restoring-", "to-restore-", "restore-unfinished")
STEPS = [f"{when}-restore_rename:{number}" for number in range(1, RENAMES + 1) for when in ("before", "after")]


class Restored:
    """A restore that was killed: its command, and what was there before it."""

    def __init__(self, lived: Lived, tmp_path: Path) -> None:
        made = lived.make()
        self.backup, self.key = tmp_path / made.path.name, tmp_path / "key.txt"
        self.backup.write_bytes(made.path.read_bytes())
        self.key.write_bytes((lived.home / "backup-key.txt").read_bytes())
        (lived.workspace / "later.md").write_text("written after the backup")
        self.before = {data for name, data in tree(lived.person).items() if name.endswith((".md", ".jsonl", ".json"))}
        self.command = ("backup", "restore", str(self.backup), "--identity", str(self.key), "--force")

    def is_whole(self, lived: Lived) -> None:
        """What was restored is in place, what was there is kept, key and backups are in the home, and nothing is left over."""
        assert not (lived.workspace / "later.md").exists()
        assert b"blue pot" in b"".join(tree(lived.workspace).values())
        assert self.before <= set(tree(lived.person).values())
        assert (lived.home / "backup-key.txt").read_bytes() == self.key.read_bytes()
        assert [copy.path.name for copy in copies_in(lived.backups)] == [self.backup.name]
        assert not [path for path in lived.person.iterdir() if any(word in path.name for word in LEFT)]
        assert len(list(lived.person.glob("homebody.before-restore-*"))) == 1


@pytest.mark.parametrize("place", STEPS)
def test_a_killed_restore_loses_nothing_and_is_finished_when_it_is_run_again(lived: Lived, tmp_path: Path, place: str) -> None:
    restored = Restored(lived, tmp_path)
    killed(lived.person, place, *restored.command)
    assert restored.before <= set(tree(lived.person).values()), "all of it is there, under this name or another"
    done = homebody(lived.person, *restored.command)
    assert done.returncode == 0, done.stderr
    restored.is_whole(lived)


@pytest.mark.parametrize("place", STEPS[1::4])
def test_what_a_killed_restore_left_is_told_and_used_by_no_command(lived: Lived, tmp_path: Path, place: str) -> None:
    restored = Restored(lived, tmp_path)
    killed(lived.person, place, *restored.command)
    there = tree(lived.person)
    for words in (
        ("status",),
        ("doctor", "--offline", "--only", "backups"),
        ("agent", "-m", "hello"),
        ("backup", "create"),
        ("todo", "list"),
    ):
        done = homebody(lived.person, *words)
        said = done.stdout + done.stderr
        assert done.returncode != 0
        assert "was broken off" in said, (words, said)
        assert "homebody backup restore --finish" in said
    assert {name for name in there if "/logs/" not in name} == {name for name in tree(lived.person) if "/logs/" not in name}
    done = homebody(lived.person, "backup", "restore", "--finish")
    assert done.returncode == 0, done.stderr
    assert "is finished now" in done.stdout
    restored.is_whole(lived)
    assert "No restore was broken off" in homebody(lived.person, "backup", "restore", "--finish").stdout


@pytest.mark.parametrize("place", ["after-restore_rename:1", "after-restore_rename:5"])
def test_the_start_of_the_gateway_finishes_a_killed_restore(lived: Lived, tmp_path: Path, place: str) -> None:
    restored = Restored(lived, tmp_path)
    killed(lived.person, place, *restored.command)
    started = homebody(lived.person, "start")
    try:
        assert started.returncode == 0, started.stderr
        assert "is finished now" in started.stderr
        restored.is_whole(lived)
    finally:
        homebody(lived.person, "stop")


def test_what_was_made_in_its_place_since_does_not_keep_a_restore_from_being_finished(lived: Lived, tmp_path: Path) -> None:
    restored = Restored(lived, tmp_path)
    killed(lived.person, "after-restore_rename:1", *restored.command)
    lived.workspace.mkdir()
    (lived.workspace / "since.md").write_text("made by hand since")
    done = homebody(lived.person, "backup", "restore", "--finish")
    assert done.returncode == 0, done.stderr
    assert (lived.person / "homebody.before-restore/since.md").read_text() == "made by hand since"
    assert b"blue pot" in b"".join(tree(lived.workspace).values())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("rename", [1, 3, 6])
def test_a_signal_waits_until_a_restore_is_in_place_and_what_was_done_is_said(
    lived: Lived,
    tmp_path: Path,
    command: Callable[..., tuple[int, str, str]],
    rename: int,
    number: signal.Signals,
) -> None:
    restored = Restored(lived, tmp_path)
    fault_injection.arm(f"after-restore_rename:{rename}", lambda: signal.raise_signal(number))
    try:
        code, said, _ = command("--home", str(lived.home), *restored.command)
    finally:
        fault_injection.arm("")
    assert code == 128 + number
    assert f"home is restored to {lived.home}" in said
    restored.is_whole(lived)


def test_an_interrupted_restore_says_that_nothing_was_restored(
    lived: Lived, tmp_path: Path, command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = Restored(lived, tmp_path)
    monkeypatch.setattr("gateway.backup.restoring.unpack", lambda *_: signal.raise_signal(signal.SIGTERM))
    there = tree(lived.person)
    code, _, said = command("--home", str(lived.home), *restored.command)
    assert code == 130
    assert "Nothing was restored" in said
    assert tree(lived.person) == there


def test_what_a_restore_left_that_was_killed_before_its_renames_is_named_and_removed(lived: Lived, tmp_path: Path) -> None:
    restored = Restored(lived, tmp_path)
    killed(lived.person, "before-restore_marker:1", *restored.command)
    assert (lived.workspace / "later.md").exists()
    left = [path for path in lived.person.iterdir() if any(word in path.name for word in LEFT)]
    assert left
    said = homebody(lived.person, "doctor", "--offline", "--only", "backups", "--fix").stdout
    assert all(f"removed {path}" in " ".join(said.split()) for path in left), said
    assert not [path for path in lived.person.iterdir() if any(word in path.name for word in LEFT)]
