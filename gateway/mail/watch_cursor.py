"""Up to which mail of a watched folder all was announced, durably."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from gateway.base.atomic_file import write_atomically

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A place in a folder. ``next_uid`` is the number of the first mail that was not announced; ``seen`` when the last one arrived.

    ``first`` and ``last`` are the mails of an announcement that had begun: it is made again under the same key, and so made once.
    """

    folder: str
    validity: int
    next_uid: int
    seen: str
    first: int = 0
    last: int = 0


class CursorFile:
    """The cursor of one account. Blocking."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Cursor | None:
        """Return the cursor; None without one, and for one that cannot be read, which is logged."""
        try:
            raw = json.loads(self._path.read_bytes())
            return Cursor(**{name: raw[name] for name in Cursor.__dataclass_fields__})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s cannot be read; mail that came meanwhile is not announced: %s", self._path, error)
            return None

    def save(self, cursor: Cursor) -> None:
        """Keep a cursor. Raises OSError."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps(asdict(cursor)), durable=True)
