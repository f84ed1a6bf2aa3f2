"""What is kept beside the repository of a workspace, so that a damaged one can be replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from agent.record_reader import RecordReader
from gateway.base.atomic_file import write_atomically
from gateway.base.errors import StorageFailed

FILE: Final = "state.json"


class SyncState(Struct):
    """``head`` is the commit that the folder was made from, ``pushed`` the newest of those that the repository of all has.

    ``unapplied``: paths that could not be written, with the name of the content that the folder had ("": none), and why. ``damaged`` is
    where the last repository is that could not be read. ``laid_anew``: the folder was found with nothing but templates in it, and what is
    missing has not come back. ``told``: files that hold a secret, of which the owner was told.
    """

    head: str = ""
    pushed: str = ""
    unapplied: dict[str, tuple[str, str]] = field(default_factory=dict)
    last_push: str = ""
    damaged: str = ""
    laid_anew: bool = False
    told: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> SyncState:
        """Read it; one that cannot be read is as none."""
        try:
            return _STATES.from_json((folder / FILE).read_bytes())
        except (OSError, msgspec.DecodeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Write it. Raises StorageFailed."""
        try:
            write_atomically(folder / FILE, msgspec.json.encode(self).decode(), durable=True)
        except (OSError, UnicodeError) as error:
            raise StorageFailed.from_os(
                error if isinstance(error, OSError) else OSError(22, str(error)),
                "write the state of the workspace",
                folder / FILE,
            ) from error


_STATES: Final = RecordReader[SyncState](SyncState)
