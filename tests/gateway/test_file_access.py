"""Who ran it with sudo once is told to take the files back, not to chmod what is not theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import access_hint
from tests import programs

if TYPE_CHECKING:
    from pathlib import Path

OTHERS = 54321

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def test_a_file_of_our_own_is_opened_by_chmod(tmp_path: Path) -> None:
    file = tmp_path / "homebody yaml"
    file.touch()
    assert access_hint(file, "u+r") == f"Run: chmod u+r '{file}'"


@as_root
def test_the_highest_folder_of_another_user_below_our_own_is_taken_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".homebody/state").mkdir(parents=True)
    os.chown(home, OTHERS, -1)
    for path in (home / ".homebody/state", home / ".homebody/state/new", home / ".homebody"):
        assert access_hint(path, uid=OTHERS).endswith(f'sudo chown -R "$USER" {home / ".homebody"}')


@as_root
def test_where_nothing_above_is_ours_only_the_path_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "disk/state").mkdir(parents=True)
    assert access_hint(tmp_path / "disk/state/new", uid=OTHERS).endswith(f"{tmp_path / 'disk/state'}")


def as_root_in(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command as root in a home that is given to another user before."""
    (home / "state").mkdir(parents=True, exist_ok=True)
    for path in (home, home / "state"):
        os.chown(path, OTHERS, OTHERS)
    given = {"PATH": os.defpath, "HOME": str(home.parent), "HOMEBODY_HOME": str(home), **env}
    return programs.run(
        [sys.executable, "-m", "gateway", *words],
        env=given,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@as_root
@pytest.mark.parametrize(
    "words",
    [
        ("gateway",),
        ("start",),
        ("status",),
        ("agent", "-m", "hello"),
        ("agents", "add", "work"),
        ("cron", "add", "tomorrow at 9", "water"),
        ("config", "set", "gateway.port", "18999"),
        ("models", "auth", "add", "anthropic"),
        ("memory", "search", "key"),
        ("backup", "key"),
        ("backup", "restore", "a-backup.age", "--force"),
    ],
)
def test_root_is_refused_in_the_home_of_another_user_before_anything_is_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    home = tmp_path / "home"
    done = as_root_in(home, *words)
    assert done.returncode == 6, done.stderr
    assert f"sudo -u '#{OTHERS}' homebody COMMAND" in done.stderr
    assert "remove" not in done.stderr
    assert [path for path in home.rglob("*") if path.stat().st_uid == 0] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


@as_root
def test_in_a_container_root_may_use_a_mounted_home_of_another_user_but_not_its_state(tmp_path: Path) -> None:
    home = tmp_path / "home"
    refused = as_root_in(home, "agent", "-m", "hello", HOMEBODY_CONTAINER="1")
    assert refused.returncode == 6
    assert "sudo chown -R 0:0 FOLDER" in refused.stderr
    (home / "state").rmdir()
    (home / "state").mkdir()
    given = {"PATH": os.defpath, "HOME": str(tmp_path), "HOMEBODY_HOME": str(home), "HOMEBODY_CONTAINER": "1"}
    done = programs.run(
        [sys.executable, "-m", "gateway", "agent", "-m", "hello"], env=given, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
