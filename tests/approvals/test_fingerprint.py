"""A yes holds for what a command would run: its program, the files that it names, and the files that lead it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from agent.tools.command_line import plain_words
from agent.tools.protocol import Act
from gateway.approvals.fingerprint import fingerprint, only_files_around_differ

if TYPE_CHECKING:
    from pathlib import Path


def act(command: str, cwd: str = "") -> Act:
    return Act(kind="exec", summary=f"run `{command}`", command=command, argv=plain_words(command), cwd=cwd)


def written(path: Path, text: str) -> None:
    """Write a file whose former text had the same length, and set back the time of its change as an attacker could."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.stat() if path.exists() else None
    path.write_text(text)
    if before is not None:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


LED = [
    ("make", "", "Makefile"),
    ("make", "", "rules/all.mk"),
    ("bash -c '. ./t.sh'", "", "t.sh"),
    ("sh -c 'cd d && ./u.sh'", "", "d/u.sh"),
    ("python3 pk", "", "pk/__main__.py"),
    ("python3 -m pk", "", "pk/__main__.py"),
    ("for f in *.sh; do sh $f; done", "", "a.sh"),
    ("git commit -m x", "", ".git/hooks/pre-commit"),
    ("git commit -m x", "", ".git/config"),
    ("git commit -m x", "sub/deep", ".git/hooks/pre-commit"),
    ("npm test", "", "package.json"),
    ("npm test", "sub", "package.json"),
    ("cargo build", "", "src/build.rs"),
    ("unheard-of", "", "its.conf"),
    ("make -C ../other", "sub", "other/Makefile"),
    ("sh -c '. $OLDPWD/t.sh'", "sub", "t.sh"),
    ("sh -c '. memory/x.md'", "", "memory/x.md"),
    ("make", "", "memory/x.sh"),
    ("make", "", "d/memory/x.md"),
    ("make", "", "memory/x.md/y.mk"),
    ("sh -c '. .homebody/x'", "", ".homebody/x"),
]


@pytest.mark.sec(26)
@pytest.mark.parametrize(("command", "cwd", "file"), LED)
def test_a_file_that_leads_a_command_is_part_of_it(tmp_path: Path, command: str, cwd: str, file: str) -> None:
    (tmp_path / cwd).mkdir(parents=True, exist_ok=True)
    written(tmp_path / file, "echo 1")
    before = fingerprint(act(command, cwd), str(tmp_path))
    assert fingerprint(act(command, cwd), str(tmp_path)) == before
    written(tmp_path / file, "echo 2")
    after = fingerprint(act(command, cwd), str(tmp_path))
    assert after != before
    (tmp_path / file).unlink()
    gone = fingerprint(act(command, cwd), str(tmp_path))
    assert gone not in {before, after}


@pytest.mark.sec(26)
def test_it_is_known_that_only_files_around_it_changed(tmp_path: Path) -> None:
    before = fingerprint(act("make"), str(tmp_path))
    written(tmp_path / "Makefile", "all:")
    after = fingerprint(act("make"), str(tmp_path))
    assert only_files_around_differ(before, after)
    assert not only_files_around_differ(before, fingerprint(act("make all"), str(tmp_path)))


@pytest.mark.parametrize(
    ("command", "cwd", "file"),
    [
        ("make", "", "memory/2026-01-01.md"),
        ("make", "", "memory/people/zoe.md"),
        ("make", "", ".homebody/output/c1.txt"),
        ("git commit -m x", "", ".git/objects/ab/cdef"),
        ("git commit -m x", "", ".git/logs/HEAD"),
        ("make", "sub", "other/Makefile"),
        ("rm old.txt", "", "new.txt"),
        ("sleep 3", "", "new.txt"),
    ],
)
def test_what_does_not_lead_a_command_may_change(tmp_path: Path, command: str, cwd: str, file: str) -> None:
    (tmp_path / cwd).mkdir(exist_ok=True)
    before = fingerprint(act(command, cwd), str(tmp_path))
    written(tmp_path / file, "1")
    made = fingerprint(act(command, cwd), str(tmp_path))
    written(tmp_path / file, "2")
    assert fingerprint(act(command, cwd), str(tmp_path)) == made
    if not file.startswith(".git"):
        assert made == before


@pytest.mark.sec(26)
def test_a_link_counts_by_where_it_leads_and_is_not_followed_into_a_folder(tmp_path: Path) -> None:
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    root.mkdir()
    written(outside / "Makefile", "all: a")
    (root / "Makefile").symlink_to(outside / "Makefile")
    (root / "around").symlink_to(root)
    seen = [fingerprint(act("make"), str(root))]
    written(outside / "Makefile", "all: b")
    seen.append(fingerprint(act("make"), str(root)))
    (root / "around").unlink()
    (root / "around").symlink_to(outside)
    seen.append(fingerprint(act("make"), str(root)))
    assert len(set(seen)) == 3


def test_a_real_repository_that_is_looked_at_stays_the_same(tmp_path: Path) -> None:
    for line in (["init", "-q"], ["status"]):
        subprocess.run(["git", *line], cwd=tmp_path, check=True, capture_output=True)
    before = fingerprint(act("git commit -m x"), str(tmp_path))
    subprocess.run(["git", "status"], cwd=tmp_path, check=True, capture_output=True)
    assert fingerprint(act("git commit -m x"), str(tmp_path)) == before


@pytest.mark.sec(26)
def test_of_more_files_than_are_compared_the_nearest_count(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(20_100):
        (tmp_path / "a" / str(number)).touch()
    written(tmp_path / "z" / "x.sh", "1")
    written(tmp_path / "Makefile", "1")
    seen = [fingerprint(act("make"), str(tmp_path))]
    assert fingerprint(act("make"), str(tmp_path)) == seen[0]
    written(tmp_path / "Makefile", "2")
    seen.append(fingerprint(act("make"), str(tmp_path)))
    written(tmp_path / "z" / "y.sh", "1")
    seen.append(fingerprint(act("make"), str(tmp_path)))
    assert len(set(seen)) == 3
