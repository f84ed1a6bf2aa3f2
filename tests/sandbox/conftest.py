"""What the tests of the sandbox share: whether this machine can confine, and what the canaries saw on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from gateway.sandbox import landlock, restrict

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
NOBODY = 65534


def missing() -> str:
    """Say what this machine lacks for the tests, or ""."""
    if not sys.platform.startswith("linux"):
        return "confinement is tested on Linux"
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    if restrict.landlock_version() < landlock.OLDEST:
        return "the kernel has no Landlock, or an old one"
    return ""


@pytest.fixture(scope="session")
def confining() -> None:
    """Skip where there is nothing to confine with; fail where the machine is one that proves changes."""
    if lacks := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(lacks)
        pytest.skip(lacks)


def python_for_others() -> str | None:
    """A Python that every user of this machine can start."""
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        real = os.path.realpath(program)
        reachable = all(Path(folder).stat().st_mode & 0o005 for folder in Path(real).parents) if Path(real).exists() else False
        if reachable:
            asked = subprocess.run(
                [real, "-c", "import sys; print(sys.implementation.cache_tag)"], capture_output=True, text=True, check=False
            )
            if asked.stdout.strip() == sys.implementation.cache_tag:  # msgspec is compiled for this version
                return real
    return None


@pytest.fixture(scope="session")
def seen(confining: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], dict[str, dict[str, Any]]]:
    """What the canaries saw as a user, by case. Measured once for each."""
    known: dict[int, dict[str, dict[str, Any]]] = {}

    def by(user: int) -> dict[str, dict[str, Any]]:
        if user not in known:
            known[user] = _measured(user, tmp_path_factory.mktemp(f"user{user}"))
        return known[user]

    return by


def copied(place: Path) -> None:
    """Copy the parts that need nothing beside the standard library and msgspec to where every user may read them."""
    shutil.copytree(Path(msgspec.__file__).parent, place / "msgspec", ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("gateway/base", "gateway/sandbox"):
        shutil.copytree(HERE.parents[1] / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE.parents[1] / "gateway/__init__.py", place / "gateway")
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _measured(user: int, place: Path) -> dict[str, dict[str, Any]]:
    program = sys.executable if user == os.getuid() else python_for_others()
    if program is None:
        pytest.skip("no Python here that another user can start")
    root = Path("/tmp") if user != os.getuid() else place  # noqa: S108 -- where the other user may enter
    copy = root / f"homebody-test-{os.getpid()}-{user}"
    try:
        copied(copy)
        shutil.copy(HERE / "confining.py", copy)
        home = copy / "home"
        home.mkdir()
        (home / "secret").touch()
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        os.chown(home, user, -1)
        done = subprocess.run(
            [program, "-B", copy / "confining.py", json.dumps([str(home)])],
            user=user,
            group=NOBODY if user == NOBODY else None,
            extra_groups=[] if user == NOBODY else None,
            env={"PYTHONPATH": str(copy), "PATH": os.environ["PATH"], "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]
    finally:
        shutil.rmtree(copy, ignore_errors=True)
