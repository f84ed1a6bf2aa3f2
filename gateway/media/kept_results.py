"""Results that cost money, kept by what they were made from, so that a repeat after a crash or of the same file asks nobody again."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path
from typing import Final

from agent.fault_injection import point
from gateway.base.atomic_file import write_atomically

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 30 * 86_400.0
"""As long as received files are kept by default."""
SWEEP_EVERY: Final = 50
"""Results after which old ones are looked for."""


class KeptResults:
    """A folder with a file for each result. All methods do blocking I/O; errors of the disk cost the result alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._added = 0

    @staticmethod
    def key(data: bytes, *facts: str) -> str:
        """Return the name of a result: by the file, and by what else it depends on, such as the model."""
        digest = hashlib.sha256(data)
        for fact in facts:
            digest.update(b"\0" + fact.encode("utf-8", "replace"))
        return digest.hexdigest()

    def get(self, key: str) -> str | None:
        """Return a result, if there is one."""
        try:
            found = json.loads((self._folder / f"{key}.json").read_bytes())
            return str(found["text"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, text: str) -> None:
        """Keep a result, durably."""
        point("before", "keep_result")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._folder / f"{key}.json", json.dumps({"text": text}), durable=True)
            point("after", "keep_result")
            self._added += 1
            if self._added % SWEEP_EVERY == 1:
                self._sweep()
        except OSError as error:
            log.warning("a result could not be kept: %s", error)

    def _sweep(self) -> None:
        oldest = time.time() - KEPT_SECONDS
        for path in self._folder.glob("*.json"):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
