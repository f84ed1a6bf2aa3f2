"""Outgoing files: immutable copies, kept until they are delivered."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from agent.fault_injection import point
from channels.messages import OutboundFile
from gateway.base.atomic_file import sync, write_synced
from gateway.media.file_types import media_type, safe_name
from gateway.settings.message_settings import AttachmentSettings

log = logging.getLogger(__name__)

_ABOUT: Final = "about.json"
_TURN: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
ORPHANED_AFTER: Final = 86_400.0 * 2
"""Seconds after which an unreferenced copy cannot belong to an unfinished turn any more."""


class Waiting(Struct, frozen=True, kw_only=True):
    """A file attached to a turn's reply."""

    enclosure: OutboundFile
    caption: str
    size: int = 0


def gathered(waiting: Sequence[Waiting], channel: object) -> list[Waiting]:
    """Return the files, with those that a channel can send as one message in the ``album`` of the first of them."""
    kind_of: Any = getattr(channel, "album_kind", None)
    if kind_of is None or len(waiting) < 2:  # noqa: PLR2004 - one is no album
        return list(waiting)
    most: Any = channel
    albums: list[tuple[str, list[Waiting]]] = []
    for one in waiting:
        kind = str(kind_of(replace(one.enclosure, caption=one.caption), one.size))
        last, files = albums[-1] if albums else ("", [])
        room = len(files) < most.album_most and sum(file.size for file in files) + one.size <= most.album_bytes
        if kind and kind == last and room:
            files.append(one)
        else:
            albums.append((kind, [one]))
    return [_as_album(files) for _, files in albums]


def _as_album(files: Sequence[Waiting]) -> Waiting:
    first, *others = files
    album = tuple(replace(one.enclosure, caption=one.caption) for one in others)
    return replace(first, enclosure=replace(first.enclosure, album=album))


class OutgoingFiles:
    """Stores copies in ``<folder>/<turn>/<key>/<name>``. The key is derived from the path, so a repeated call reuses the copy.

    A copy is valid once its description, written last, exists beside it. All methods do blocking I/O. ``of_turn`` returns the
    limits for one turn's files, which depend on the destination of its reply.
    """

    def __init__(
        self,
        folder: Path,
        settings: Callable[[], AttachmentSettings],
        withheld: Callable[[str, bytes], bool] = lambda _name, _data: False,
        of_turn: Callable[[str], AttachmentSettings] | None = None,
    ) -> None:
        self._withheld = withheld
        self._folder = folder
        self._settings = settings
        self._of_turn = of_turn
        self.turns: set[str] | None = None
        """Turns that may have copies; None before the folder was read. Of others ``of`` returns nothing."""
        self._looking = threading.Lock()

    def largest(self, turn: str) -> int:
        """See ``agent.tools.send_file.Outgoing``."""
        return self._of(turn).max_bytes

    def _of(self, turn: str) -> AttachmentSettings:
        return self._settings() if self._of_turn is None else self._of_turn(turn)

    def put(self, turn: str, path: str, data: bytes, caption: str) -> str | None:
        """See ``agent.tools.send_file.Outgoing``."""
        if _TURN.fullmatch(turn) is None:
            return "files can only be sent in a reply to a message"
        key = hashlib.sha256(path.encode()).hexdigest()[:16]
        known, settings = self._described(turn), self._of(turn)
        others = [about for name, about in known if name != key]
        if len(others) >= settings.max_count:
            return f"at most {settings.max_count} files can be sent with one reply"
        if sum(about["size"] for about in others) + len(data) > settings.total_bytes:
            return f"at most {settings.total_bytes:,} bytes can be sent with one reply"
        place = next((about["place"] for name, about in known if name == key), len(known))
        if self._withheld(PurePosixPath(path).name, data):
            return "it holds a secret of this machine, which may not leave it; the owner was told"
        kind = media_type(data)
        about = {
            "place": place,
            "name": safe_name(PurePosixPath(path).name, kind),
            "type": kind,
            "caption": caption,
            "size": len(data),
        }
        folder = self._folder / turn / key
        try:
            point("before", "keep_file")
            self._with_copies().add(turn)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(folder / str(about["name"]), data)
            _write(folder / _ABOUT, json.dumps(about).encode())
            for above in (folder, folder.parent, self._folder):
                sync(above)
            point("after", "keep_file")
        except OSError as error:
            log.warning("a file to send could not be stored: %s", error)
            return f"the copy could not be stored ({error.strerror})"
        return None

    def of(self, turn: str) -> list[Waiting]:
        """Return the files of a turn's reply in the order in which they were requested."""
        self._with_copies()
        found = sorted(self._described(turn), key=lambda one: one[1]["place"])
        return [
            Waiting(
                enclosure=OutboundFile(
                    path=self._folder / turn / key / about["name"], name=about["name"], media_type=about["type"]
                ),
                caption=about["caption"],
                size=about["size"],
            )
            for key, about in found
        ]

    def _with_copies(self) -> set[str]:
        with self._looking:
            if self.turns is None:
                self.turns = {path.name for path in self._folder.iterdir()} if self._folder.is_dir() else set()
            return self.turns

    def let_go(self, path: Path) -> None:
        """Delete a copy that was delivered."""
        if not path.is_relative_to(self._folder) or ".." in path.parts:
            return
        shutil.rmtree(path.parent, ignore_errors=True)
        try:
            path.parent.parent.rmdir()
            self._with_copies().discard(path.parent.parent.name)
        except OSError:  # others of its turn are still there
            return

    def sweep(self, kept: Collection[Path], now: datetime) -> int:
        """Delete unreferenced copies that no turn can use any more; return how many."""
        if not self._folder.is_dir():
            return 0
        gone = 0
        for folder in [folder for turn in self._folder.iterdir() if turn.is_dir() for folder in turn.iterdir()]:
            wanted = any(path.parent == folder for path in kept)
            if not wanted and now.timestamp() - folder.stat().st_mtime > ORPHANED_AFTER:
                self.let_go(folder / _ABOUT)
                gone += 1
        return gone

    def _described(self, turn: str) -> list[tuple[str, dict[str, Any]]]:
        if _TURN.fullmatch(turn) is None:
            return []
        found = []
        for path in (self._folder / turn).glob(f"*/{_ABOUT}"):
            try:
                about = json.loads(path.read_bytes())
            except (OSError, ValueError):  # half written by a process that died: it does not count
                continue
            if (path.parent / about["name"]).is_file():
                found.append((path.parent.name, about))
        return found


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically with mode 0600."""
    temporary = path.with_name(f".{secrets.token_hex(6)}.tmp")
    write_synced(temporary, data)
    temporary.replace(path)
