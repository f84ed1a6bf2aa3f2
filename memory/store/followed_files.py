"""Remembers which files an index is up to date to."""

from __future__ import annotations

from collections.abc import Callable

from memory.notes.sources import Source
from memory.store.generations import Followed, Generation


class FollowedFiles:
    """``version`` returns a number that is another one once entries were changed otherwise, as by another process."""

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version
        self._known: dict[tuple[int, Source], Followed] = {}
        self._at = -1

    def last(self, generation: Generation, source: Source) -> Followed | None:
        """See ``Index.last_followed``."""
        return self._known.get((generation.number, source))

    def still(self, generation: Generation, source: Source, followed: Followed) -> bool:
        """See ``Index.follows``."""
        return self._known.get((generation.number, source)) is followed and self._at == self._version()

    def remember(self, generation: Generation, source: Source, followed: Followed | None) -> None:
        """See ``Index.set_followed``."""
        version = self._version()
        if self._at != version:
            self.forget()
            self._at = version
        if followed is None:
            self._known.pop((generation.number, source), None)
        else:
            self._known[generation.number, source] = followed

    def forget(self) -> None:
        """Know nothing any more."""
        self._known.clear()
