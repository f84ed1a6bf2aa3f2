"""Records of an agent's commands on disk, so that a restart can say which ones ran and what they had printed.

A record is written before a command starts and removed when its result has been told; that of a background command says how it ended and
stays until it is forgotten. A record without an end, found at a start, is of a command whose outcome nobody knows.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace

from agent.tools.command_runner import JobState
from agent.tools.workspace_changes import FolderId
from gateway.base.atomic_file import write_atomically
from memory.audience import Audience

log = logging.getLogger(__name__)

KEPT_FOR: Final = timedelta(days=1)
"""How long a command of an earlier process is remembered."""
MOST: Final = 200


class JobRecord(NamedTuple):
    """What a record says: the job, the audience that may see it, the key of its session, and its turn.

    ``folders`` are those that held untrusted files when the command was started.
    """

    state: JobState
    audience: Audience
    key: str
    turn: str
    folders: Mapping[FolderId, PurePosixPath]


class JobRecords:
    """The records in one folder, a file for each command. Blocking."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(
        self,
        state: JobState,
        *,
        audience: Audience,
        key: str,
        turn: str,
        folders: Mapping[FolderId, PurePosixPath] | None = None,
    ) -> None:
        """Write a record. One that cannot be written is missed after a crash only, so it is logged and no more."""
        facts = {**asdict(state), "started": state.started.isoformat(), "audience": asdict(audience), "key": key, "turn": turn}
        facts["folders"] = [(*one, str(path)) for one, path in (folders or {}).items()]
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._folder / f"{state.id}.json", json.dumps(facts))
        except OSError as error:
            log.warning("the record of the command %s could not be written: %s", state.id, error)

    def remove(self, job: str) -> None:
        """Remove a record, if there is one."""
        with contextlib.suppress(OSError):
            (self._folder / f"{job}.json").unlink()

    def load(self, now: datetime) -> list[JobRecord]:
        """Return what earlier processes left, newest first. Old and unreadable records are removed."""
        found: list[JobRecord] = []
        for path in list(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            try:
                facts: dict[str, Any] = json.loads(path.read_text())
                audience = Audience(**facts.pop("audience"))
                turn, key = facts.pop("turn"), facts.pop("key")
                folders = {(int(device), int(inode)): PurePosixPath(path) for device, inode, path in facts.pop("folders", ())}
                facts.setdefault("command_sources", facts.get("taint", ()))
                facts |= {name: tuple(facts.get(name, ())) for name in ("sources", "taint", "command_sources")}
                facts["env"] = tuple((str(name), str(value)) for name, value in facts.get("env", ()))
                state = JobState(**{**facts, "started": datetime.fromisoformat(facts["started"])})
            except (OSError, ValueError, TypeError, KeyError) as error:
                log.warning("the record %s cannot be read: %s", path, error)
                self.remove(path.stem)
                continue
            if state.status == "running":
                state = replace(state, status="unknown", seconds=0.0)
            found.append(JobRecord(state, audience, key, turn, folders))
        found.sort(key=lambda one: one.state.started, reverse=True)
        kept = [one for one in found[:MOST] if now - one.state.started <= KEPT_FOR]
        for one in found:
            if one not in kept:
                self.remove(one.state.id)
        return kept
