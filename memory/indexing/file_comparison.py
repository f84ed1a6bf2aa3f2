"""Compares the files on disk with an index: which to read, and whether some are gone, without having all of them in memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

from memory.notes.sources import SourceFile
from memory.store.generations import Followed, IndexedFile

_PART = 256
"""Files whose index entries are read at once."""
_AHEAD = 64
"""Files that may be missing between two that are as they were; if there are more, entries are read again."""

Due = tuple[SourceFile, IndexedFile | None]
"""A file that is to be read, and its index entry."""
IsDue = Callable[[SourceFile, IndexedFile | None], bool]


class FileComparison:
    """One look at all files of a source, in an order that stays the same.

    Entries are read of files alone that were not seen before as they are now. All entries of 20,000 files at once, after each edit,
    would take a third of a second, and leave holes in the memory of a process that runs for years.
    """

    def __init__(self, files: Iterator[SourceFile], former: Followed | None) -> None:
        self.files = 0
        self.there = 0
        """How many have an entry, readable ones alone."""
        self.due: list[Due] = []
        self.troubles: dict[str, str] = {}
        """By path, also what the entries say."""
        self._files = files
        self.former = former
        self._last = former or Followed(array("q"), {})
        self._place = 0
        self._marks = array("q")
        self._strange: list[tuple[SourceFile, int]] = []
        self.ended = False
        """Whether all files were looked at."""
        self._known_only = True

    def strangers(self) -> Sequence[str]:
        """Return the paths of the next files whose entries are needed. Blocks."""
        found = self._strange = []
        former, troubles = self._last.marks, self._last.troubles
        for file in self._files:
            self.files += 1
            if file.trouble:
                self.troubles[file.path] = file.trouble
                continue
            mark = hash(file) or 1
            if self._is_known(mark, former):
                self.there += 1
                if file.path in troubles:
                    self.troubles[file.path] = troubles[file.path]
            else:
                found.append((file, len(self._marks)))
            self._marks.append(mark)
            if len(found) == _PART:
                break
        else:
            self.ended = True
        self._known_only = self._known_only and not found
        return [file.path for file, _ in found]

    def take(self, known: Mapping[str, IndexedFile], is_due: IsDue) -> Sequence[str]:
        """Decide by their entries which of the files of last time are to be read, and return the next ``strangers``. Blocks."""
        for file, place in self._strange:
            entry = known.get(file.path)
            due = is_due(file, entry)
            if due:
                self.due.append((file, entry))
            if entry is not None:
                self.there += 1
                if entry.trouble:
                    self.troubles[file.path] = entry.trouble
            if due or entry is None or entry.stamp.size != file.stamp.size:
                self._marks[place] = 0
        self._strange = []
        return [] if self.ended else self.strangers()

    @property
    def unchanged(self) -> bool:
        """Whether all files are those of the former look, and no others."""
        return self._known_only and self.former is not None and self.there == len(self._last.marks)

    def followed(self) -> Followed:
        """Return what the next look needs to know: the object that was given, if one was."""
        if self.former is None:
            return Followed(self._marks, self.troubles)
        self._last.marks, self._last.troubles = self._marks, self.troubles
        return self._last

    def _is_known(self, mark: int, former: array[int]) -> bool:
        place = self._place
        if place < len(former) and former[place] == mark:
            self._place = place + 1
            return True
        try:
            self._place = former.index(mark, place, place + _AHEAD) + 1
        except ValueError:
            return False
        return True
