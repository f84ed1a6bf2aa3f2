"""In a container, home and workspace are mounted folders, which cannot be renamed: what is in them is."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.backup.conftest import ROOT, Lived

if TYPE_CHECKING:
    from pathlib import Path

MOUNTS = subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not MOUNTS, reason="nothing can be mounted here")
def test_a_backup_is_restored_into_mounted_folders(lived: Lived, tmp_path: Path) -> None:
    made = lived.make()
    backup, key = tmp_path / made.path.name, tmp_path / "key.txt"
    backup.write_bytes(made.path.read_bytes())
    key.write_bytes((lived.home / "backup-key.txt").read_bytes())
    program = f"""
        set -e
        mount -t tmpfs home {lived.home} && mount -t tmpfs workspace {lived.workspace}
        mkdir {lived.home}/backups && echo old > {lived.home}/backups/old && echo older > {lived.workspace}/older.md
        if {sys.executable} -m gateway backup restore {backup} --identity {key}; then exit 9; fi
        {sys.executable} -m gateway backup restore {backup} --identity {key} --force
        cat {lived.workspace}/before-restore-*/older.md {lived.home}/backups/old
        {sys.executable} -m gateway agent -m 'where is the spare key?'
    """
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", program],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(lived.person), "TZ": "UTC"},
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "older\nold\n" in done.stdout
    assert "blue pot" in done.stdout
