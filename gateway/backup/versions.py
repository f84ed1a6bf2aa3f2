"""The versions of the files of the state: what this program writes, and what it finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.transcript.entries import VERSION as TRANSCRIPT_VERSION
from gateway.base.errors import StorageFailed

_SMALL_FILES: Final = {
    "approval rules": ("state/approvals.json", "version"),
    "approved skills": ("state/skills.json", "version"),
    "provider keys": ("auth-profiles.json", "version"),
    "agents' provider keys": ("agents/*/auth-profiles.json", "version"),
    "tokens of the API": ("state/api-tokens.json", "version"),
    "approved MCP servers": ("state/mcp/*.json", "version"),
    "sessions": ("agents/*/sessions/sessions.json", "v"),
}
"""Files with one JSON object, and the key of their version, which is 1 in all of them."""
_LARGEST: Final = 1_000_000
_LINE: Final = re.compile(rb'\{"v":(\d+),')


class FileVersion(Struct, frozen=True, kw_only=True):
    """The version of one file. ``known`` is the newest that this program reads; ``found`` is None for a file that tells none."""

    kind: str
    path: Path
    found: int | None
    known: int

    @property
    def newer(self) -> bool:
        """Whether a later Homebody wrote it."""
        return self.found is not None and self.found > self.known

    @property
    def older(self) -> bool:
        """Whether it is brought to the present version when the gateway starts."""
        return self.found is not None and self.found < self.known


def state_versions() -> dict[str, int]:
    """Return the versions that this program writes."""
    from gateway.ledger.snapshot import VERSION as LEDGER_VERSION

    return {"ledger": LEDGER_VERSION, "transcripts": TRANSCRIPT_VERSION, **dict.fromkeys(_SMALL_FILES, 1)}


def versions_in(home: Path, ledger: Path | None = None) -> Iterator[FileVersion]:
    """Yield the version of each file of a home. ``ledger``: a copy of the ledger, where a gateway has the ledger open. Blocking."""
    from gateway.ledger.snapshot import VERSION as LEDGER_VERSION
    from gateway.ledger.snapshot import read_version

    database = ledger or home / "state" / "ledger.sqlite"
    if database.exists() and database.stat().st_size:
        yield FileVersion(
            kind="ledger", path=home / "state" / "ledger.sqlite", found=read_version(database), known=LEDGER_VERSION
        )
    yield from _small_files(home)
    yield from _transcripts(home)


def _small_files(home: Path) -> Iterator[FileVersion]:
    for kind, (pattern, key) in _SMALL_FILES.items():
        for path in sorted(home.glob(pattern)):
            yield FileVersion(kind=kind, path=path, found=_number(path, key), known=1)


def _transcripts(home: Path, *, latest: bool = False) -> Iterator[FileVersion]:
    for folder in sorted(home.glob("agents/*/sessions")):
        paths = sorted(folder.glob("*.jsonl"))
        for path in paths[-1:] if latest else paths:
            yield FileVersion(kind="transcripts", path=path, found=_latest_line(path), known=TRANSCRIPT_VERSION)


def refuse_later(home: Path) -> None:
    """Refuse a home that a later Homebody wrote to: it would be misread, and what is new in it lost. Blocking.

    Looks at small files and the latest transcript of each agent. The ledger refuses by itself. Raises StorageFailed.
    """
    for found in (*_small_files(home), *_transcripts(home, latest=True)):
        if found.newer:
            raise StorageFailed(
                f"this file ({found.kind}) is of version {found.found}, and this Homebody knows {found.known} at most",
                where=str(found.path),
                hint="Start the newer Homebody that wrote it (homebody update), or restore a backup from before: homebody backup list",
            )


def _number(path: Path, key: str) -> int | None:
    """Return the version in a file of JSON: from its beginning where it stands there, since such a file may be large."""
    try:
        with path.open("rb") as file:
            head = file.read(200)
        if stands := re.match(rb'\s*\{\s*"%s"\s*:\s*(\d+)\s*[,}]' % key.encode(), head):
            return int(stands[1])
        if path.stat().st_size > _LARGEST:
            return None
        found = json.loads(path.read_bytes())[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, int) else None


def _latest_line(path: Path) -> int | None:
    """Return the version of the last whole line of a transcript: versions never fall in one file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 256 * 1024))
            numbers = [int(found[1]) for line in file if (found := _LINE.match(line))]
            if numbers:
                return max(numbers)
            file.seek(0)
            found = _LINE.match(file.readline(4096))
    except OSError:
        return None
    return int(found[1]) if found else None
