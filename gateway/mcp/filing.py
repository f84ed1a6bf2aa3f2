"""Keeps what a server sent and a model is not shown whole in a file of the workspace, marked as untrusted."""

from __future__ import annotations

import logging
import mimetypes
import secrets
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from agent.tools.untrusted_files import UntrustedFiles
from gateway.runner.output import MOST_BYTES, OutputFile

log = logging.getLogger(__name__)

_PLAIN: Final = frozenset(
    {".txt", ".md", ".json", ".csv", ".html", ".xml", ".pdf", ".png", ".jpg", ".gif", ".webp", ".mp3", ".wav", ".ogg"}
)
"""Endings that a file gets by its media type; others are ``.bin``."""


class Files(Protocol):
    """Where an agent's files are kept."""

    def keep(self, data: bytes, media_type: str, source: str, now: datetime) -> str:
        """Write a file and return its path in the workspace; "" where that is not possible. Blocking."""
        ...


class OutputFiles:
    """Files among those of commands' output, which the owner alone sees and which are rotated.

    ``untrusted`` records where they come from.
    """

    def __init__(self, workspace: Path, untrusted: UntrustedFiles) -> None:
        self._workspace = workspace
        self._untrusted = untrusted

    def keep(self, data: bytes, media_type: str, source: str, now: datetime) -> str:
        """See ``Files``. At most ``MOST_BYTES`` are kept. The record is written first, so that no file is without it."""
        name = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}{ending_of(media_type)}"
        try:
            self._untrusted.mark_whole(PurePosixPath(".homebody", "output", name), (source,), named=False)
        except OSError as error:
            log.warning("a file from %s is not kept, because its origin cannot be recorded: %s", source, error)
            return ""
        file = OutputFile(self._workspace, name)
        try:
            return file.path if file.write(data[:MOST_BYTES]) else ""
        finally:
            file.close()


def ending_of(media_type: str) -> str:
    """Return the ending of a file's name for a media type."""
    plain = media_type.partition(";")[0].strip().lower()
    found = ".jpg" if plain == "image/jpeg" else mimetypes.guess_extension(plain) or ".bin"
    return found if found in _PLAIN else ".bin"
