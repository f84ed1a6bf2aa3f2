"""The shipped systemd unit: how exposed it is, and that commands can be confined by bubblewrap under what it restricts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox.conftest import NOBODY, copied, python_for_others

if TYPE_CHECKING:
    from collections.abc import Iterator

UNIT = Path(__file__).parents[2] / "docs/examples/homebody.service"
EXCLUDE_BUBBLEWRAP = ("ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "RestrictNamespaces", "PrivateUsers")
RESTRICTED = """
set -e
mount --make-rslave /
mount -t tmpfs -o size=64m,mode=1777 tmp /tmp                                # PrivateTmp=
for place in /root /home; do mount -t tmpfs -o ro,mode=0 hidden $place; done  # ProtectHome=
[ ! -d /usr/lib/modules ] || mount -t tmpfs -o ro,mode=0 none /usr/lib/modules # ProtectKernelModules=
[ ! -d /sys/fs/cgroup ] || mount --bind -o ro /sys/fs/cgroup /sys/fs/cgroup    # ProtectControlGroups=
mount -t proc -o nosuid,nodev,noexec,hidepid=2 proc /proc                     # ProtectProc=
mount -t tmpfs -o mode=755 dev /run && mkdir /run/dev                         # PrivateDevices=
for node in null zero full random urandom tty; do touch /run/dev/$node; mount --bind /dev/$node /run/dev/$node; done
mknod -m 666 /run/dev/ptmx c 5 2; mkdir /run/dev/pts /run/dev/shm; mount --bind /dev/pts /run/dev/pts; mount -t tmpfs shm /run/dev/shm
ln -s /proc/self/fd /run/dev/fd
mount --rbind /run/dev /dev
mount -o remount,bind,ro /               # ProtectSystem=
{more}
exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
    env -i PATH=/usr/bin:/bin HOME=/nonexistent PYTHONPATH={copy} {python} -B {copy}/one_trial.py
"""


def said() -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE):
        options.setdefault(name, []).append(value)
    return options


def test_the_unit_leaves_out_what_excludes_bubblewrap() -> None:
    assert not said().keys() & set(EXCLUDE_BUBBLEWRAP)
    assert "@mount" in said()["SystemCallFilter"][0].split()
    assert not any(value.startswith("~") and "@mount" in value for value in said()["SystemCallFilter"])
    assert all(f"{name}=" in UNIT.read_text(encoding="utf-8").partition("[Unit]")[0] for name in EXCLUDE_BUBBLEWRAP)


def test_the_unit_is_exposed_less_than_three() -> None:
    if shutil.which("systemd-analyze") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("systemd-analyze is not installed")
        pytest.skip("systemd-analyze is not installed")
    asked = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)], capture_output=True, text=True, check=False
    )
    if "exposure level" not in asked.stdout:
        pytest.skip(f"this systemd-analyze cannot do so offline: {asked.stderr[:100]}")
    found = re.search(r"exposure level for \S+: ([\d.]+)", asked.stdout)
    assert found is not None
    assert float(found[1]) < 3.0


@pytest.fixture
def copy() -> Iterator[Path]:
    """Our code where another user may read it, and no restriction hides it."""
    place = Path("/var/lib") / f"homebody-test-{os.getpid()}"
    try:
        copied(place)
        shutil.copy(Path(__file__).with_name("one_trial.py"), place)
        (place / "one_trial.py").chmod(0o644)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tried(copy: Path, more: str = "") -> dict[str, Any]:
    python = python_for_others()
    if os.getuid() != 0 or python is None or shutil.which("setpriv") is None:
        pytest.skip("needs root, setpriv and a Python that other users can start")
    script = RESTRICTED.replace("{more}", more).replace("{copy}", str(copy)).replace("{python}", python)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=200, cwd="/"
    )
    if not done.stdout and "mount" in done.stderr:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.usefixtures("confining")
def test_bubblewrap_works_under_what_the_unit_restricts(copy: Path) -> None:
    assert NOBODY == 65534
    found = tried(copy)
    assert found == {"works": True, "reason": "", "hint": "", "nested": True, "proc": True}


@pytest.mark.usefixtures("confining")
def test_an_option_that_excludes_part_of_it_is_noticed_and_named(copy: Path) -> None:
    """ProtectKernelTunables= makes /proc/sys read-only, and so /proc cannot be mounted in a namespace."""
    found = tried(copy, more="mount --bind -o ro /proc/sys /proc/sys")
    assert (found["works"], found["nested"], found["proc"]) == (True, False, False)
    assert "ProtectKernelTunables" in found["hint"]
