"""Files below a folder that a command moves keep the times of their last change, and are untrusted under their new names all the same."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import date
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.tools.command_taint import CommandTaint, Watch
from agent.tools.untrusted_files import UntrustedFiles
from memory.audience import OWNER
from tests.properties import examples

WEB = frozenset({"web:evil.example"})
READ = frozenset({"file:page.html"})
TODAY = date(2026, 3, 1)


@pytest.fixture
def taint(tmp_path: Path) -> CommandTaint:
    for name in (
        "inbox/1-a.txt",
        "memory/peers/eve/2026-03-01.md",
        "bad/x.txt",
        "bad/deep/y.md",
        "good/x.txt",
        "good/deep/z.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine\nobey\n")
    known = UntrustedFiles()
    known.mark_whole(PurePosixPath("bad/x.txt"), WEB)
    known.mark(PurePosixPath("bad/deep/y.md"), "obey", WEB)
    time.sleep(0.05)  # the clock of file systems goes in steps
    return CommandTaint(known, tmp_path)


def run(taint: CommandTaint, command: str) -> UntrustedFiles:
    watch = taint.begin(READ, OWNER, TODAY)
    subprocess.run(["/bin/bash", "-ec", command], cwd=taint.root, check=True, capture_output=True)
    taint.end(watch)
    time.sleep(0.05)
    return taint.untrusted


EXCHANGE = (
    "python3 -c 'import ctypes; "
    'r = ctypes.CDLL(None, use_errno=True).renameat2(-100, b"bad", -100, b"good", 2); raise SystemExit(r)\''
)


@pytest.mark.parametrize(
    ("commands", "path"),
    [
        (["mv bad bad2"], "bad2/x.txt"),
        (["mv bad bad2"], "bad2/deep/y.md"),
        (["mv bad/deep deep"], "deep/y.md"),
        (["mv bad good/"], "good/bad/deep/y.md"),
        (["mv bad two", "mv two three"], "three/deep/y.md"),
        (["mkdir l; mv bad l/b", "mv l l2"], "l2/b/x.txt"),
        (["mv bad tmp; mv tmp bad2; mkdir bad"], "bad2/x.txt"),
        (["mv good old; mv bad good"], "good/x.txt"),
        ([EXCHANGE], "good/x.txt"),
        (["python3 -c 'import os; os.renames(\"bad/deep\", \"l/m/n\")'"], "l/m/n/y.md"),
        (["mv inbox good/inb"], "good/inb/1-a.txt"),
        (["mv inbox good/inb", "mv good/inb inb3"], "inb3/1-a.txt"),
        (["mv memory/peers/eve notes"], "notes/2026-03-01.md"),
        (["mv memory good/m"], "good/m/peers/eve/2026-03-01.md"),
        (["cp -a bad bad2"], "bad2/deep/y.md"),
        (["cp -al bad bad2"], "bad2/deep/y.md"),
        (["tar cf b.tar bad; mkdir t; tar xf b.tar -C t"], "t/bad/deep/y.md"),
        (["ln -s bad b2"], "b2"),
        (["ln -s ../bad good/b2"], "good/b2"),
    ],
)  # fmt: skip
def test_what_was_untrusted_in_a_folder_is_so_under_its_new_name(taint: CommandTaint, commands: list[str], path: str) -> None:
    assert taint.untrusted.of(PurePosixPath("good/x.txt")) == ()
    for command in commands:
        run(taint, command)
    assert taint.untrusted.of(PurePosixPath(path)) != ()


def test_a_moved_note_keeps_the_lines_that_are_trusted_and_moved_clean_files_stay_clean(taint: CommandTaint) -> None:
    known = run(taint, "mv bad bad2; mv good good2")
    assert known.trusted(PurePosixPath("bad2/deep/y.md"), "mine\nobey\n") == ("mine\n", tuple(WEB))
    assert known.of(PurePosixPath("good2/deep/z.txt")) == ()
    assert known.of(PurePosixPath("bad/x.txt")) != ()


def test_what_comes_from_outside_of_the_workspace_as_a_whole_folder_is_untrusted(
    taint: CommandTaint, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "dropped"
    outside.mkdir()
    (outside / "x.txt").write_text("obey")
    time.sleep(0.05)
    known = run(taint, f"mv {outside} here")
    assert known.of(PurePosixPath("here/x.txt"))[1:] == tuple(READ)


def test_a_repository_is_untrusted_under_another_name(taint: CommandTaint) -> None:
    (taint.root / "rp" / ".git" / "refs").mkdir(parents=True)
    (taint.root / "rp" / ".git" / "refs" / "tag").write_text("obey")
    taint.untrusted.mark_whole(PurePosixPath("rp/.git"), WEB)
    time.sleep(0.05)
    known = run(taint, "mv rp rp2")
    assert known.of(PurePosixPath("rp2/.git")) != ()
    known = run(taint, "mv rp2/.git bare; mv bare/refs refs")
    assert known.of(PurePosixPath("refs/tag")) != ()
    known = run(taint, "mkdir -p clean/.git; mv bad/deep clean/.git/info")
    assert known.of(PurePosixPath("clean/.git")) != ()


def test_a_folder_that_a_command_makes_or_renames_has_a_name_that_it_may_have_read(taint: CommandTaint) -> None:
    known = run(taint, "mkdir 'do evil'; mv good/deep 'good/obey me'")
    for path in ("do evil", "good/obey me"):
        assert known.of_name(PurePosixPath(path)) == tuple(READ)
    assert known.of_name(PurePosixPath("good")) == ()


def test_a_folder_that_was_moved_while_the_gateway_died_is_found_by_what_was_written_down(taint: CommandTaint) -> None:
    watch = taint.begin(READ, OWNER, TODAY)
    known = taint.folders_to_keep(watch)
    assert {str(path) for path in known.values()} == {"inbox", "memory/peers", "memory/peers/eve", "bad", "bad/deep"}
    (taint.root / "bad").rename(taint.root / "bad2")
    (taint.root / "good").rename(taint.root / "good2")
    taint.end(Watch(watch.since, READ, {}, known, complete=False))
    assert taint.untrusted.of(PurePosixPath("bad2/x.txt")) != ()
    assert taint.untrusted.of(PurePosixPath("good2/x.txt")) == ()


NAMES = st.sampled_from(["a", "b", "c"])
PLACES = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(PLACES, PLACES), min_size=1, max_size=8), per_command=st.integers(1, 4))
def test_no_row_of_moves_makes_an_untrusted_file_trusted(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[str, str]], per_command: int
) -> None:
    root = tmp_path_factory.mktemp("w")
    taint = CommandTaint(UntrustedFiles(), root)
    for place in ("a/b/c", "b/a", "c"):
        (root / place).mkdir(parents=True)
    for place, bad in (("a/b/c/f", True), ("a/f", False), ("b/a/f", True), ("b/f", False), ("c/f", True)):
        (root / place).write_text("bad" if bad else "good")
        if bad:
            taint.untrusted.mark_whole(PurePosixPath(place), WEB)
    time.sleep(0.03)
    for start in range(0, len(moves), per_command):
        watch = taint.begin(READ, OWNER, TODAY)
        for former, later in moves[start : start + per_command]:
            try:
                os.renames(root / former, root / later)
            except OSError:  # there is none such, or it would go into itself
                continue
        taint.end(watch)
    for folder, _, files in os.walk(root):
        for name in files:
            if (path := Path(folder, name)).read_text() == "bad":
                assert taint.untrusted.of(PurePosixPath(path.relative_to(root)))
