"""What `make` does for a person whose folders move."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def planned(folder: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run(["make", "-n", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=True).stdout


def made(folder: Path) -> Path:
    """Return a clone whose environment is installed, as far as make can tell."""
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=folder, check=True)
    for stamp in (".made", ".runtime"):
        (folder / ".venv" / stamp).touch()
    return folder


def test_an_installed_clone_is_not_installed_again(tmp_path: Path) -> None:
    assert "requirements/venv" not in planned(made(tmp_path / "clone"), "chat")


def test_a_clone_that_was_moved_is_installed_anew(tmp_path: Path) -> None:
    there = made(tmp_path / "clone").rename(tmp_path / "moved")
    assert "requirements/venv" in planned(there, "chat")


def test_the_command_is_linked_into_a_folder_of_the_path(tmp_path: Path) -> None:
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    program = tmp_path / "clone/homebody"
    program.parent.mkdir()
    program.touch(mode=0o755)

    def link(folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", ROOT / "requirements/link", program, folder], env=env, capture_output=True, text=True, check=False
        )

    done = link(tmp_path / "bin")
    assert done.returncode == 0
    assert (tmp_path / "bin/homebody").readlink() == program
    assert "homebody --version" in done.stdout
    assert link(tmp_path / "bin").returncode == 0, "linking again is no error"
    assert f'export PATH="{tmp_path / "off"}:$PATH"' in link(tmp_path / "off").stdout
    (tmp_path / "own").mkdir()
    (tmp_path / "own/homebody").write_text("mine")
    assert link(tmp_path / "own").returncode == 1
    assert (tmp_path / "own/homebody").read_text() == "mine"
