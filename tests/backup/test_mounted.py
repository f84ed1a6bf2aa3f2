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


def among_mounts(lived: Lived, program: str) -> subprocess.CompletedProcess[str]:
    """Run a shell program that may mount, and whose mounts nobody else sees; it must end well."""
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
    return done


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
    done = among_mounts(lived, program)
    assert "older\nold\n" in done.stdout
    assert "blue pot" in done.stdout


@pytest.mark.skipif(not MOUNTS, reason="nothing can be mounted here")
@pytest.mark.parametrize("rename", [1, 2, 6, 9])
def test_a_restore_into_mounted_folders_that_was_killed_is_finished(lived: Lived, tmp_path: Path, rename: int) -> None:
    made = lived.make()
    backup, key = tmp_path / made.path.name, tmp_path / "key.txt"
    backup.write_bytes(made.path.read_bytes())
    key.write_bytes((lived.home / "backup-key.txt").read_bytes())
    program = f"""
        mount -t tmpfs home {lived.home} && mount -t tmpfs workspace {lived.workspace} || exit 8
        mkdir {lived.home}/backups {lived.home}/state && echo old > {lived.home}/backups/old && echo older > {lived.workspace}/older.md
        HOMEBODY_FAULT=after-restore_rename:{rename} {sys.executable} -m gateway backup restore {backup} --identity {key} --force
        if {sys.executable} -m gateway agent -m 'hello'; then exit 9; fi
        {sys.executable} -m gateway backup restore --finish || exit 7
        cat {lived.workspace}/before-restore-*/older.md {lived.home}/backups/old
        ls -A {lived.home} {lived.workspace} {lived.person}
        {sys.executable} -m gateway agent -m 'where is the spare key?'
    """
    done = among_mounts(lived, program)
    assert "is finished now" in done.stdout
    assert "older\nold\n" in done.stdout
    assert "blue pot" in done.stdout
    assert "to-restore" not in done.stdout
    assert "unfinished" not in done.stdout


@pytest.mark.skipif(not MOUNTS, reason="nothing can be mounted here")
def test_nothing_is_put_below_a_disk_of_backups_that_is_not_mounted(lived: Lived, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    program = f"""
        set -e
        scheduled() {{ {sys.executable} -m gateway backup create --scheduled --json; }}
        remember() {{
            {sys.executable} - "$1" <<'END'
import sys, pathlib
from gateway.backup.backup_schedule import LastBackup, write_last
from gateway.backup.backup_folder import same_disk
file, home = pathlib.Path(sys.argv[1]), pathlib.Path({str(lived.home)!r})
write_last(home / "state", LastBackup(tried="2026-03-04T12:00:00+00:00", file=str(file), apart=not same_disk(file.parent, home)))
END
        }}
        {sys.executable} -m gateway config set backup.folder {disk}/kept
        mount -t tmpfs disk {disk}
        scheduled && remember $(ls {disk}/kept/homebody-*) && scheduled
        {sys.executable} -m gateway config set backup.command 'rm "$BACKUP"'
        rm {disk}/kept/* && scheduled
        umount {disk}
        if scheduled; then exit 9; fi
        {sys.executable} -m gateway config unset backup.command
        if scheduled; then exit 9; fi
        test ! -e {disk}/kept
        {sys.executable} -m gateway backup create && scheduled
    """
    done = among_mounts(lived, program)
    assert done.stderr.count("the backups that were made so far are not in their folder") == 2
