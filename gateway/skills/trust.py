"""Which skills the owner approved: by name, the digests of what was approved. Kept in ``state/skills.json``.

The command line and a running gateway both write it; a changed file is read again.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from gateway.base.atomic_file import stamp_of, write_atomically
from gateway.base.errors import StorageFailed

log = logging.getLogger(__name__)

FILE_NAME: Final = "skills.json"
MOST_DIGESTS: Final = 8
"""How many contents of one name are kept: agents may have different skills of one name."""

Approved: TypeAlias = "dict[str, list[str]]"


class SkillTrust:
    """The approvals of all agents of one installation. Methods block; they may be called from several threads.

    A file that cannot be read approves nothing.
    """

    def __init__(self, state: Path) -> None:
        self.path = state / FILE_NAME
        self._known: Approved = {}
        self._stamp: tuple[int, int, int] | None = None

    def digests(self, name: str) -> list[str]:
        """Return what was approved under a name, the newest last."""
        stamp = self.stamp()
        if stamp != self._stamp:
            self._known, self._stamp = (self._read(strict=False) if stamp else {}), stamp
        return self._known.get(name, [])

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what changes whenever the record does; None where there is none."""
        return stamp_of(self.path)

    def approve(self, name: str, digest: str) -> None:
        """Approve one content of a name. Raises StorageFailed."""
        with self._changing() as known:
            kept = [one for one in known.get(name, []) if one != digest]
            known[name] = [*kept, digest][-MOST_DIGESTS:]

    def withdraw(self, name: str) -> bool:
        """Withdraw every approval of a name; return whether there was one. Raises StorageFailed."""
        with self._changing() as known:
            return known.pop(name, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[Approved]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(
                os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "rb"
            ) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self._read(strict=True)
                yield known
                write_atomically(self.path, json.dumps({"version": 1, "approved": known}, indent=2), durable=True)
        except OSError as error:
            raise StorageFailed.from_os(error, "write which skills are approved", self.path) from error

    def _read(self, *, strict: bool) -> Approved:
        try:
            found = json.loads(self.path.read_text("utf-8"))["approved"]
            return {str(name): [str(one) for one in digests] for name, digests in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if strict:
                hint = f"Move it away and approve the skills again: mv {self.path} {self.path}.broken"
                raise StorageFailed("the file of approved skills cannot be read", where=str(self.path), hint=hint) from error
            log.warning("%s cannot be read: no skill counts as approved (homebody skills check)", self.path)
            return {}
