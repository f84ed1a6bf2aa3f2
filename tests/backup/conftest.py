"""A home that was lived in: made once by the real commands, and copied for each test."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.backup.tar_archive import ArchivedFile, ArchiveReader, ArchiveWriter
from gateway.cli import main
from gateway.cli.backup_work import make
from gateway.cli.invocation import Invocation
from tests import programs

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.backup.creation import Made

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Lived:
    """A home with its workspace: ``home`` is ~/.homebody, ``person`` the home folder of its owner."""

    person: Path

    @property
    def home(self) -> Path:
        return self.person / ".homebody"

    @property
    def workspace(self) -> Path:
        return self.person / "homebody"

    @property
    def backups(self) -> Path:
        return self.home / "backups"

    def invocation(self) -> Invocation:
        return Invocation(home=self.home)

    def make(self, **how: Any) -> Made:
        wanted = {"target": None, "no_secrets": False, "recipients": (), "passphrase": "", "progress": lambda *_: None} | how
        return make(self.invocation(), **wanted)[0]


def homebody(person: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its owner does."""
    env = {"PATH": os.defpath, "HOME": str(person), "TZ": "UTC"}
    return programs.run(
        [sys.executable, "-m", "gateway", *words],
        cwd=ROOT,
        env=env,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home as it was left."""
    person = tmp_path_factory.mktemp("original")
    for words in (
        ("agent", "-m", "remember that the spare key is under the blue pot"),
        ("agent", "-m", "remember that the boiler was serviced in May"),
        ("cron", "add", "every day at 9", "Water the plants"),
        ("cron", "add", "tomorrow at 10", "Call the plumber"),
        ("todo", "add", "milk"),
        ("config", "set", "tools.web.search.apiKey", "sk-secret-of-the-search-service"),
    ):
        done = homebody(person, *words)
        assert done.returncode == 0, done.stderr
    return person


@pytest.fixture
def lived(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lived:
    person = tmp_path / "person"
    shutil.copytree(original, person, symlinks=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("TZ", "UTC")
    return Lived(person)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in this process; return its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(list(words))
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return run


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        os.fsdecode(os.fsencode(path.relative_to(folder))): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def json_of(printed: str) -> dict[str, Any]:
    return dict(json.loads(printed))


def rewritten(source: Path, edit: Callable[[str, bytes], bytes | None], add: dict[str, bytes] | None = None) -> Path:
    """Write a backup that somebody made from another one: ``edit`` returns what a file is to hold, or None to leave it out."""
    target = io.BytesIO()
    writer = ArchiveWriter(target)

    def put(name: str, data: bytes) -> None:
        writer.add(name, len(data), 0o600, 0, iter((data,)))

    def copy(file: ArchivedFile) -> None:
        data = edit(file.path, b"".join(file.chunks))
        for name, content in (add or {}).items() if file.path == "manifest.json" else ():
            put(name, content)
        if data is not None:
            put(file.path, data)

    with source.open("rb") as opened:
        ArchiveReader(opened, "it").read_all(copy)
    writer.close()
    forged = source.with_name("forged.tar.gz")
    forged.write_bytes(target.getvalue())
    return forged


def with_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[str, bytes], bytes | None]:
    """Return an edit that changes the manifest."""

    def edit(name: str, data: bytes) -> bytes:
        if name != "manifest.json":
            return data
        manifest = json.loads(data)
        change(manifest)
        return json.dumps(manifest).encode()

    return edit
