"""A note is changed only as it was read, and keeps what others write to it meanwhile."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memory.notes import note_file
from memory.notes.note_file import NoteChanged

ROOT = Path(__file__).resolve().parents[2]

APPENDS = """
import sys
from pathlib import Path, PurePosixPath
from agent.tools.workspace_sandbox import WorkspaceSandbox
folder = WorkspaceSandbox(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    folder.append(PurePosixPath("note.md"), f"- said {number}".encode())
"""


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def test_a_file_is_replaced_made_and_deleted(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note_file.put(note, b"one\n", expected=None)
    note.chmod(0o600)
    note_file.put(note, b"two\n", expected=digest(b"one\n"))
    assert note.read_bytes() == b"two\n"
    assert note.stat().st_mode & 0o777 == 0o600
    note_file.put(note, None, expected=digest(b"two\n"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("expected", [None, digest(b"other")])
@pytest.mark.parametrize("data", [b"new", None])
def test_a_file_that_is_not_as_it_was_read_is_left_as_it_is(tmp_path: Path, expected: bytes | None, data: bytes | None) -> None:
    note = tmp_path / "note.md"
    note.write_bytes(b"mine\n")
    if expected is None and data is None:
        return  # nothing is asked for
    with pytest.raises(NoteChanged):
        note_file.put(note, data, expected=expected)
    assert note.read_bytes() == b"mine\n"
    assert [one.name for one in tmp_path.iterdir()] == ["note.md"]


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(NoteChanged):
        note_file.put(tmp_path / "note.md", b"new", expected=digest(b"old"))
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_had_begun_to_write_is_removed_at_the_next_change(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name in ("note.md", f".other.md.{ended.pid}.half", ".other.md.1.half", f".own.{ended.pid}.half"):
        (tmp_path / name).write_bytes(b"one\n")
    note_file.put(tmp_path / "note.md", b"two\n", expected=digest(b"one\n"))
    assert {one.name for one in tmp_path.iterdir()} == {"note.md", ".other.md.1.half", f".own.{ended.pid}.half"}


def test_what_the_agent_appends_meanwhile_is_kept(tmp_path: Path) -> None:
    note, lines = tmp_path / "note.md", 400
    note.write_bytes(b"# Note\n")
    appending = subprocess.Popen([sys.executable, "-c", APPENDS, str(tmp_path), str(lines)], cwd=ROOT)
    replaced = refused = 0
    try:
        while appending.poll() is None:
            present = note.read_bytes()
            wanted = present.removesuffix(b"- tidied\n") if present.endswith(b"- tidied\n") else present + b"- tidied\n"
            try:
                note_file.put(note, wanted, expected=digest(present))
                replaced += 1
            except NoteChanged:
                refused += 1
            time.sleep(0.001)
    finally:
        appending.kill()
        appending.wait()
    assert appending.returncode == 0
    assert replaced > 20
    said = [line for line in note.read_text().splitlines() if line.startswith("- said")]
    assert set(said) == {f"- said {number}" for number in range(lines)}
    assert len(said) <= lines + 4  # both take over a line when they look for it at the same moment
