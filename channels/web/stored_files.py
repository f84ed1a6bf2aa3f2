"""Files of the page: uploads, which come in pieces, and copies of what the agent sends. Each is named by a random id."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from channels.errors import ChannelError, NotFetched
from channels.messages import AttachmentKind

LARGEST: Final = 100 * 1024 * 1024
KEPT_SECONDS: Final = 30 * 86400.0
"""How long a file can be opened in the page. What came in is in the workspace by then; what went out came from there."""
MOST_BYTES: Final = 1024 * 1024 * 1024
"""All files together; the oldest make room."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
_NAME_CHARS: Final = 200
_KINDS: Final[dict[str, AttachmentKind]] = {"image": "image", "audio": "audio", "video": "video"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file. ``name`` and ``type`` are what was said of it, and are never a path or trusted."""

    id: str
    name: str
    type: str
    size: int

    @property
    def kind(self) -> AttachmentKind:
        """The kind of attachment that it is, by its type."""
        return _KINDS.get(self.type.partition("/")[0], "document")

    @property
    def facts(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)


class StoredFiles:
    """Files in ``folder``. Methods block. Ids are checked before they become a path."""

    def __init__(self, folder: Path, largest: Callable[[], int] = lambda: LARGEST) -> None:
        self._folder = folder
        self._largest = largest

    def begin_upload(self, name: str, media_type: str, size: int) -> str:
        """Begin an upload of a file that is to have ``size``, and return its id. Raises ChannelError for one that is too large."""
        self._refuse_more_than_allowed(size)
        return self.begin(name, media_type)

    def begin(self, name: str, media_type: str) -> str:
        """Begin a file, and return its id."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()
        made = secrets.token_hex(16)
        self._describe(StoredFile(id=made, name=plain_name(name), type=plain_type(media_type), size=0))
        os.close(os.open(self._folder / made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        return made

    def append(self, wanted: str, offset: int, data: bytes) -> StoredFile:
        """Add a piece at ``offset``, which is where the file ends; a piece that is there already changes nothing.

        Raises:
            ChannelError: there is no such upload, a piece is missing, or it would become too large.
        """
        found = self.get(wanted)
        if found is None:
            raise ChannelError("this upload is not known any more", hint="Send the file again.")
        self._refuse_more_than_allowed(offset + len(data))
        with (self._folder / wanted).open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if offset > size:
                raise ChannelError("a piece of the file is missing", hint="Send the file again.")
            file.seek(offset)
            file.write(data)
        return StoredFile(id=found.id, name=found.name, type=found.type, size=max(size, offset + len(data)))

    def copy_of(self, path: Path, name: str, media_type: str) -> StoredFile:
        """Keep a copy of a file of the gateway's. Raises OSError."""
        made = self.begin(name, media_type)
        with path.open("rb") as source, (self._folder / made).open("r+b") as target:
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        found = self.get(made)
        assert found is not None
        return found

    def get(self, wanted: str) -> StoredFile | None:
        """Return a file by its id; None where there is none."""
        if _ID.fullmatch(wanted) is None:
            return None
        try:
            facts = json.loads((self._folder / f"{wanted}.json").read_text("utf-8"))
            return StoredFile(
                id=wanted, name=str(facts["name"]), type=str(facts["type"]), size=self.path(wanted).stat().st_size
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def path(self, wanted: str) -> Path:
        """Return where a file lies whose id was found good."""
        return self._folder / wanted

    def fetch(self, wanted: str, path: Path, limit: int) -> None:
        """Copy a file to ``path``; see ``channels.protocol.Fetches``."""
        found = self.get(wanted)
        if found is None:
            raise NotFetched("it is no longer kept")
        if found.size > limit:
            raise NotFetched(f"it has {found.size} bytes, and {limit} are allowed")
        try:
            shutil.copyfile(self.path(wanted), path)
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise NotFetched(f"it could not be read: {error.strerror}", permanent=False) from error

    def _refuse_more_than_allowed(self, size: int) -> None:
        largest = min(LARGEST, self._largest())
        if size > largest:
            megabytes = f"{largest / 1024 / 1024:.4g}"
            raise ChannelError(
                f"a file may have {megabytes} MB at most",
                hint="Send a smaller one, or allow larger ones: homebody config set messages.attachments.maxBytes BYTES",
            )

    def _describe(self, file: StoredFile) -> None:
        path = self._folder / f"{file.id}.json"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="replace") as target:
            json.dump({"name": file.name, "type": file.type}, target)

    def _sweep(self) -> None:
        """Delete what is old, and the oldest of too much."""
        with contextlib.suppress(OSError):
            found = [(path.stat(), path) for path in self._folder.iterdir() if path.suffix == ""]
            total, before = sum(about.st_size for about, _ in found), time.time() - KEPT_SECONDS
            for about, path in sorted(found, key=lambda one: one[0].st_mtime):
                if about.st_mtime >= before and total <= MOST_BYTES:
                    return
                total -= about.st_size
                path.unlink(missing_ok=True)
                path.with_suffix(".json").unlink(missing_ok=True)


def plain_name(name: str) -> str:
    """Return the last part of a name without what is invisible in it; "file" for nothing."""
    last = re.split(r"[/\\]", name)[-1]
    clean = "".join(char for char in last if char.isprintable()).strip(" .")
    return clean[:_NAME_CHARS] or "file"


def plain_type(media_type: str) -> str:
    """Return a media type without parameters; that of any bytes where it is none."""
    bare = media_type.partition(";")[0].strip().lower()
    return bare if re.fullmatch(r"[a-z]+/[a-z0-9.+-]{1,80}", bare) else "application/octet-stream"
