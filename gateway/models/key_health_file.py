"""Stores cooldowns of keys across restarts, by hashes of the keys."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import get_args

from agent.messages import FailureKind
from agent.models.middleware.key_health import KeyTrouble
from gateway.base.atomic_file import write_atomically

log = logging.getLogger(__name__)

FILE_NAME = "key-health.json"
"""File name in the state folder."""


class KeyHealthFile:
    """A ``HealthStore`` in a small file, written atomically. Read and write errors are logged and ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._one_at_a_time = asyncio.Lock()

    def load(self) -> dict[tuple[str, str], KeyTrouble]:
        """Return what was kept."""
        try:
            rows = json.loads(self._path.read_text("utf-8"))["keys"]
            return {(row["key"], row["model"]): _ailing(row) for row in rows if row["kind"] in get_args(FailureKind)}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s cannot be read (%s); paused keys are tried again", self._path, type(error).__name__)
            return {}

    async def save(self, ailing: Mapping[tuple[str, str], KeyTrouble]) -> None:
        """Keep it."""
        rows = [
            {
                "key": key,
                "model": model,
                "kind": ill.kind,
                "times": ill.times,
                "at": ill.at.isoformat(),
                "until": ill.until.isoformat(),
            }
            for (key, model), ill in ailing.items()
        ]
        async with self._one_at_a_time:
            try:
                await asyncio.to_thread(write_atomically, self._path, json.dumps({"version": 1, "keys": rows}))
            except OSError as error:
                log.warning("%s cannot be written: %s", self._path, error.strerror)


def _ailing(row: Mapping[str, str]) -> KeyTrouble:
    at, until = datetime.fromisoformat(row["at"]), datetime.fromisoformat(row["until"])
    if at.tzinfo is None or until.tzinfo is None:
        raise ValueError("a time has no time zone")
    kind: FailureKind = row["kind"]  # type: ignore[assignment]  # looked up before
    return KeyTrouble(kind, int(row["times"]), at, until)
