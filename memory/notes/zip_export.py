"""All notes in one file, for the owner to take along."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING

from memory.errors import MemoryTrouble
from memory.notes.sources import open_beneath

if TYPE_CHECKING:
    from pathlib import Path

    from memory.notes.sources import NoteSources

_PIECE = 1 << 20


def export_notes(sources: NoteSources, target: Path) -> int:
    """Write every note, byte for byte, into a new zip file at ``target``, and return how many there are.

    Raises:
        MemoryTrouble: the file is there already, or cannot be written.
    """
    count = 0
    try:
        with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as archive:
            for found in sources.walk():
                placed = sources.place(found.path)
                if found.trouble or placed is None:
                    continue
                with open_beneath(*placed) as fd, archive.open(found.path, "w", force_zip64=True) as inside:
                    while piece := os.read(fd, _PIECE):
                        inside.write(piece)
                count += 1
    except OSError as error:
        raise MemoryTrouble(f"the notes cannot be written to {target}: {error.strerror}", hint="name another file") from error
    return count
