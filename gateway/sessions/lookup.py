"""Finds a conversation by session key or id, including ended and archived ones."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.transcript.entries import Entry, InvalidEntry, Opened, decode
from gateway.base.errors import StorageFailed
from gateway.sessions.archive import Archive
from gateway.sessions.record import SessionRecord
from gateway.sessions.store import SessionStore


@dataclass(frozen=True, slots=True)
class Found:
    """A conversation on disk. ``record`` is what is remembered of it while it is the present one of its key."""

    agent: str
    session: str
    path: Path
    record: SessionRecord | None = None

    def lines(self) -> list[bytes]:
        """Return the lines of the transcript, as they are. Raises StorageFailed."""
        try:
            raw = self.path.read_bytes()
            return (gzip.decompress(raw) if self.path.suffix == ".gz" else raw).splitlines()
        except (OSError, EOFError) as error:
            known = error if isinstance(error, OSError) else OSError(str(error))
            raise StorageFailed.from_os(known, "read the transcript", self.path) from error

    def entries(self) -> Iterator[Entry | None]:
        """Yield the entries; None for a line that cannot be read."""
        for line in self.lines():
            try:
                yield decode(line)
            except InvalidEntry:
                yield None


def find(stores: Mapping[str, SessionStore], wanted: str) -> Found | None:
    """Return the conversation of a key or an id; None when there is none."""
    for agent, store in stores.items():
        for record in store.all():
            if wanted in {record.key, record.session} and store.transcript(record.session).exists():
                return Found(agent, record.session, store.transcript(record.session), record)
    return next((found for found in left(stores) if found.session == wanted), None)


def left(stores: Mapping[str, SessionStore]) -> Iterator[Found]:
    """Yield the conversations that were left and are still kept, the latest first."""
    for agent, store in stores.items():
        present = {record.session for record in store.all()}
        places = [*store.folder.glob("*.jsonl"), *Archive(store.folder).folder.glob("*.jsonl.gz")]
        for path in sorted(places, key=lambda place: place.stat().st_mtime, reverse=True):
            session = path.name.removesuffix(".gz").removesuffix(".jsonl")
            if session not in present:
                yield Found(agent, session, path)


def key_of(found: Found) -> str:
    """Return the key under which a conversation was held, or nothing when it does not say."""
    if found.record is not None:
        return found.record.key
    try:
        first = next(iter(found.entries()), None)
    except StorageFailed:
        return ""
    return first.body.key if first is not None and isinstance(first.body, Opened) else ""
