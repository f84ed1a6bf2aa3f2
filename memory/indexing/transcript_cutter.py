"""Splits transcripts into chunks: of one that only grew since it was read last, no more than its end is read again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from memory.notes.sources import Stamp
from memory.notes.transcript_source import Excerpt, Place, TranscriptSource
from memory.store.chunk_changes import hashed
from memory.store.generations import Generation, IndexedFile
from memory.store.index import FileChange
from memory.text.chunks import Chunk, chunks_of_talk

_KEPT: Final = 64
"""Transcripts of which it is remembered where their last chunk begins: half a kilobyte each."""

_Key = tuple[int, int, int, str]


class TranscriptCutter:
    """Reads the transcripts of one agent and splits them, one at a time. What comes of it is the same wherever reading begins."""

    def __init__(self, source: TranscriptSource) -> None:
        self._source = source
        self._places: OrderedDict[_Key, Place] = OrderedDict()

    def cut(self, path: str, generation: Generation, indexed: Stamp | None) -> FileChange:
        """Return what changes in the index for a transcript. ``indexed`` is the stamp with which the index holds it.

        Blocks.

        Raises:
            OSError: it cannot be read.
        """
        key = generation.number, generation.tokens, generation.overlap, path
        place = self._places.pop(key, None)
        read = self._source.read_on(path, place) if place is not None and place.stamp == indexed else None
        if read is None or place is None:
            place, read = None, self._source.read(path)
        before, repeated = (place.before, place.repeated) if place is not None else (0, 0)
        sizes = {"tokens": generation.tokens, "overlap": generation.overlap}
        chunks = chunks_of_talk(read.lines, before=before, repeated=repeated, **sizes)
        if chunks and read.goes_on:
            self._places[key] = _last_place(read, chunks, before, repeated)
            while len(self._places) > _KEPT:
                self._places.popitem(last=False)
        filed = IndexedFile(b"", read.stamp, settled=True, trouble="")
        return FileChange(path, filed, hashed(chunks, path), "sessions", since=before + 1)


def _last_place(read: Excerpt, chunks: Sequence[Chunk], before: int, repeated: int) -> Place:
    """Return where the last chunk begins, or the first part of the line that it is a part of."""
    last = len(chunks) - 1
    while chunks[last].part > 1:
        last -= 1
    first = chunks[last].start_line - 1 - before
    fresh = chunks[last - 1].end_line - before if last else repeated
    return read.place(first, fresh - first, before)
