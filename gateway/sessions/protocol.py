"""What the gateway knows of sessions and transcripts, wherever they are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from agent.transcript.stored_transcript import StoredTranscript, TranscriptStat
from gateway.sessions.sessions_file import SessionRecord

if TYPE_CHECKING:
    from memory.notes.transcript_source import Transcripts


class TranscriptStore(Protocol):
    """The transcripts of one agent. All methods block, and raise OSError."""

    @property
    def where(self) -> str:
        """Where they are kept, in words for people."""
        ...

    def of(self, session: str) -> StoredTranscript:
        """Return the transcript of a session, which need not exist yet. Does not block."""
        ...

    def all(self) -> list[tuple[StoredTranscript, TranscriptStat]]:
        """Return the transcripts that are kept, archived ones too, in no order."""
        ...

    def searched(self) -> Transcripts:
        """Return them as memory reads those that go on. Does not block."""
        ...

    def put_away(self, needed: Collection[str], before: datetime) -> int:
        """Archive those that were last written before an instant, except the ``needed`` sessions; return how many."""
        ...

    def trim(self, most_bytes: int) -> list[str]:
        """Delete the oldest archived ones until the rest fits; return the names of what was deleted."""
        ...


class SessionTable(Protocol):
    """Where the records of one agent's sessions are kept. All methods block, and raise OSError; one caller at a time."""

    @property
    def where(self) -> str:
        """Where they are kept, in words for people."""
        ...

    @property
    def edited(self) -> bool:
        """Whether somebody else changed them since they were last read or written here. Does not block."""
        ...

    @property
    def pending(self) -> int:
        """How many changes ``fold`` would write in another way."""
        ...

    def load(self, now: datetime, rebuilt: Callable[[], list[SessionRecord]]) -> tuple[dict[str, SessionRecord], list[str]]:
        """Read all records by key. ``rebuilt`` finds in transcripts what cannot be read; returns notices for the owner about that."""
        ...

    def append(self, changed: Mapping[str, tuple[SessionRecord | None, SessionRecord]]) -> None:
        """Store sessions durably, given as they were stored before and as they are now."""
        ...

    def remove(self, key: str) -> None:
        """Forget a session durably."""
        ...

    def due_for_folding(self, count: int) -> bool:
        """Whether ``fold`` is due, with ``count`` sessions."""
        ...

    def fold(self, records: Mapping[str, SessionRecord]) -> None:
        """Store all sessions as a whole."""
        ...

    def take_edit(self, records: dict[str, SessionRecord], now: datetime) -> dict[str, SessionRecord]:
        """Return the records with what somebody else changed; ``fold`` follows."""
        ...


class SessionStore(Protocol):
    """The sessions of one agent. Safe to use from several tasks; every change is stored when the call returns.

    Its records are in memory: whoever loaded it is the only one that writes. ``changed`` may be set by one listener; it is called with each
    session that was put, in the event loop's thread. Methods that store something raise StorageFailed, and nothing is changed then.
    """

    changed: Callable[[SessionRecord], None]

    @property
    def transcripts(self) -> TranscriptStore:
        """The transcripts of these sessions and of ended ones."""
        ...

    def transcript(self, session: str) -> StoredTranscript:
        """Return the transcript of a session, which need not exist yet."""
        ...

    async def load(self) -> list[str]:
        """Read the records. Returns notices for the owner about what was set aside or rebuilt. Raises StorageFailed."""
        ...

    def get(self, key: str) -> SessionRecord | None:
        """Return the session of a key, if there is one."""
        ...

    def all(self) -> list[SessionRecord]:
        """Return all sessions, the most recently used first."""
        ...

    def __len__(self) -> int:
        """Return how many sessions there are."""
        ...

    async def refresh(self) -> None:
        """Take over what was changed by hand."""
        ...

    async def put(self, record: SessionRecord) -> None:
        """Add or replace a session."""
        ...

    def note(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields in memory only: they are stored with the next durable change. Raises KeyError.

        For values that a crash may lose, such as when a person last wrote.
        """
        ...

    def change_soon(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields in memory, to be stored soon together with others. Raises KeyError.

        For values that change often, and of which a crash may lose the last.
        """
        ...

    async def change(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields of a session that exists, and return it. Raises KeyError."""
        ...

    async def remove(self, key: str) -> None:
        """Forget a session; its transcript stays."""
        ...

    async def fold(self) -> None:
        """Store all sessions, also what was only noted."""
        ...
