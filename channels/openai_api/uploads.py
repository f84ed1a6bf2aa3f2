"""Files that came inside a request: kept on disk from before its message is stored until the turn has taken them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from channels.common.saving import check_size
from channels.errors import NotFetched
from channels.messages import Attachment, AttachmentKind

KEPT_SECONDS: Final = 2 * 86400.0
"""How long a file is kept whose message was never answered."""
_HANDLE: Final = re.compile(r"[0-9a-f]{24}-\d{1,3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One file of a request."""

    kind: AttachmentKind
    data: bytes
    name: str = ""
    media_type: str = ""


class Uploads:
    """Files in ``folder``, named after their message. Methods block unless they say otherwise."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, key: str, files: Sequence[Upload]) -> tuple[Attachment, ...]:
        """Store files durably, in a thread. Raises OSError."""
        return await asyncio.to_thread(self._keep, key, files) if files else ()

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Copy a file to ``path``. See ``channels.protocol.Fetches``."""
        await asyncio.to_thread(self._fetch, attachment, path, limit)

    async def forget(self, key: str) -> None:
        """Delete a message's files, in a thread."""
        await asyncio.to_thread(self._forget, key)

    def _keep(self, key: str, files: Sequence[Upload]) -> tuple[Attachment, ...]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()
        kept = []
        for number, file in enumerate(files):
            handle = f"{key}-{number}"
            fd = os.open(self._folder / handle, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as target:
                target.write(file.data)
                target.flush()
                os.fsync(target.fileno())
            kept.append(
                Attachment(kind=file.kind, handle=handle, name=file.name, media_type=file.media_type, size=len(file.data))
            )
        return tuple(kept)

    def _fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        if _HANDLE.fullmatch(attachment.handle) is None:
            raise NotFetched("it is no file of a request")
        try:
            with (self._folder / attachment.handle).open("rb") as source:
                data = source.read(limit + 1)
            check_size(len(data), limit)
            path.write_bytes(data)
        except FileNotFoundError as error:
            raise NotFetched("it is no longer kept") from error
        except OSError as error:
            raise NotFetched(f"it could not be read: {error.strerror}", permanent=False) from error

    def _forget(self, key: str) -> None:
        with contextlib.suppress(OSError):
            for file in self._folder.glob(f"{key}-*"):
                file.unlink(missing_ok=True)

    def _sweep(self) -> None:
        before = time.time() - KEPT_SECONDS
        with contextlib.suppress(OSError):
            for file in self._folder.iterdir():
                if file.stat().st_mtime < before:
                    file.unlink(missing_ok=True)
