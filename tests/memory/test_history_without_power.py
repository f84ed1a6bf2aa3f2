"""Power that is lost just after a change of a note, and texts of its history that are gone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.notes.version_store import TextMissing, VersionStore
from memory.protocol import Author
from tests import programs
from tests.fire.power import CALLS, RECORD, Disk

ROOT = Path(__file__).resolve().parents[2]
AGENT = Author("agent", "main", "telegram:1", "turn-7")
NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)

traced = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def without_power_after(folder: Path, *command: str, home: Path) -> None:
    """Run a command to its end, and leave on the disk what was synced."""
    record = folder.with_name("record")
    disk = Disk(folder)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    trace = ["strace", "-f", "-qq", *RECORD, "-e", f"trace={CALLS}", "-o", str(record)]
    done = subprocess.run([*trace, *command], env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    disk.play(record.read_text())
    disk.put()


@traced
def test_a_change_that_is_in_the_history_after_a_loss_of_power_has_its_texts(tmp_path: Path) -> None:
    """Those of the owner's changes before it, too, which are synced with it."""
    folder = tmp_path / "history"
    folder.mkdir()
    program = f"""
from datetime import UTC, datetime
from pathlib import Path
from memory.notes.version_store import VersionStore
from memory.protocol import Author
store = VersionStore(Path({str(folder)!r}))
now = datetime(2026, 3, 18, tzinfo=UTC)
store.record("MEMORY.md", "by hand", at=now)
store.record("memory/2026-03-18.md", "by the agent", at=now, author=Author("agent", "main", "telegram:1", "turn-7"))
"""
    without_power_after(folder, sys.executable, "-c", program, home=tmp_path)
    store = VersionStore(folder)
    assert [store.text(one.after) for one in store.versions()] == ["by the agent", "by hand"]
    assert not store.missing()


@traced
def test_an_undo_that_was_told_survives_a_loss_of_power(tmp_path: Path) -> None:
    person = tmp_path / "person"
    homebody = (sys.executable, "-m", "gateway")
    env = {"PATH": os.environ["PATH"], "HOME": str(person), "PYTHONPATH": str(ROOT)}
    for fact in ("the key is under the pot", "the boiler is from May"):
        told = [*homebody, "agent", "-m", f"remember that {fact}"]
        done = programs.run(told, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
    last = VersionStore(person / ".homebody/memory/main.history").versions()[0]
    note = person / "homebody" / last.path
    assert "boiler" in note.read_text()
    without_power_after(person, *homebody, "memory", "undo", last.name, home=person)
    assert "pot" in note.read_text()
    assert "boiler" not in note.read_text()
    store = VersionStore(person / ".homebody/memory/main.history")
    assert store.versions()[0].author.name == f"undo of {last.name}"
    assert not store.missing()


@pytest.mark.parametrize("empty", [False, True])
def test_blame_goes_on_without_a_text_that_is_gone_and_diff_names_the_version(tmp_path: Path, *, empty: bool) -> None:
    store = VersionStore(tmp_path / "history")
    store.record("a.md", "one\n", at=NOW, author=AGENT)
    lost = store.record("a.md", "one\ntwo\n", at=NOW, author=AGENT)
    store.record("a.md", "one\ntwo\nthree\n", at=NOW, author=AGENT)
    assert lost is not None
    assert lost.after is not None
    text = tmp_path / "history/texts" / lost.after[:2] / lost.after[2:]
    if empty:
        text.write_bytes(b"")  # what a loss of power leaves, too
    else:
        text.unlink()
    assert [(line, version and version.name) for line, version in store.blame("a.md")] == [
        ("one", "1"),
        ("two", "3"),
        ("three", "3"),
    ]
    assert [one.name for one in store.missing()] == ["2", "3"]
    with pytest.raises(TextMissing, match=r"after version 2 of a\.md is gone"):
        store.diff(lost)
    assert store.record("a.md", "one\ntwo\n", at=NOW) is not None
    assert not store.missing(), "a note that has the text again brings it back"


def test_the_doctor_and_the_commands_name_texts_that_are_gone(tmp_path: Path) -> None:
    def homebody(*words: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "gateway", *words]
        return programs.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)

    for fact in ("the key is under the pot", "the boiler is from May"):
        assert homebody("agent", "-m", f"remember that {fact}").returncode == 0
    store = VersionStore(tmp_path / ".homebody/memory/main.history")
    first, second = [one for one in reversed(store.versions()) if one.author.kind == "agent"]
    for digest in (first.after, second.after):
        assert digest is not None
        (tmp_path / ".homebody/memory/main.history/texts" / digest[:2] / digest[2:]).unlink()
    found = " ".join(homebody("doctor", "--offline", "--only", "memory").stdout.split())
    assert f"lacks texts of the versions {first.name} ({first.path}), {second.name} ({first.path})" in found
    shown = homebody("memory", "blame", first.path)
    assert "boiler" in shown.stdout
    assert f"The text of version {first.name} is gone" in shown.stdout
    refused = homebody("memory", "diff", first.name)
    assert refused.returncode == 1
    assert f"the text after version {first.name} of {first.path} is gone" in refused.stderr
    assert "homebody backup list" in refused.stderr
