"""Who ran it with sudo once is told to take the files back, not to chmod what is not theirs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import access_hint

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
