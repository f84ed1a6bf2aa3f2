"""A session's transcript: append-only JSON lines with checksums, durable before anything depends on them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import threading
from datetime import datetime
from operator import itemgetter
from pathlib import Path

from agent import fault_injection
from agent.errors import TranscriptWriteError
from agent.messages import Text, Thinking, ToolMessage
from agent.timing import Clock
from agent.transcript.entries import (
    Body,
    Compacted,
    Entry,
    InvalidEntry,
    Opened,
    Pinned,
    Said,
    Unpinned,
    calls_model,
    decode,
    encode,
    taint_of,
)
from agent.transcript.stored_transcript import HEAD_BYTES, Contents, StoredTranscript

_HEAD = re.compile(rb'\{"v":\d+,"kind":"([a-z_]+)","id":"([^"]+)"')
LIGHT = 32_768
"""Characters up to which an entry is written out in well under a millisecond."""


class Transcript:
    """The entries of one session, in memory from the last compaction's first kept entry on, stored from the beginning.

    Safe to use from several tasks; a cancelled ``append`` may still have happened, as with any write.
    """

    def __init__(self, stored: StoredTranscript, clock: Clock) -> None:
        self.stored = stored
        self.opened: Opened | None = None
        self.entries: list[Entry] = []
        self.bad_lines = 0
        self.torn = ""
        self.last_call: datetime | None = None
        """When the model was last called, as the entries in memory tell."""
        self._clock = clock
        self._lock = threading.RLock()
        self._next: dict[str, int] = {}
        """Of each turn the place behind its last entry."""
        self._gaps: dict[str, set[int]] = {}
        """The places of the entries of turns in which one is missing before the last."""
        self._turns: dict[str, list[Entry]] = {}
        self._latest: dict[type[Body], tuple[int, Entry]] = {}
        self.taint: frozenset[str] = frozenset()
        """The sources of untrusted text that the model has been shown since the session began, also of what it is no longer shown."""
        self._newest: dict[str, None] = {}
        self._last: str | None = None
        self._size = self._held = 0
        self._waiting = b""
        """Lines that go with the next one that is durable."""

    @classmethod
    async def load(cls, stored: StoredTranscript, clock: Clock) -> Transcript:
        """Read what is stored, which need not exist yet. A torn tail is set aside (``torn`` says where).

        Whoever holds the result is the only one that appends to it.

        Raises:
            TranscriptWriteError: it cannot be used.
        """
        transcript = cls(stored, clock)
        try:
            await asyncio.to_thread(transcript._load)
        except OSError as error:
            raise _not_kept(stored, error) from error
        return transcript

    @property
    def where(self) -> str:
        """Where it is stored, in words for people."""
        return self.stored.where

    async def append(self, turn: str, body: Body, *, n: int | None = None, durable: bool = True) -> Entry:
        """Add an entry and return it once it is stored.

        One that need not be ``durable`` waits in memory for the next one that is, or for ``settle``: for what would be made anew
        after a crash.

        ``n`` names its place within the turn: an entry that is already there is returned as it is, which makes a repeat after
        a crash harmless. Without ``n`` it takes the next free place.

        Raises:
            TranscriptWriteError: it could not be made durable; nothing was changed.
        """
        if not durable and _is_light(body) and self._lock.acquire(blocking=False):
            try:
                return self._append(turn, body, n, durable)
            finally:
                self._lock.release()
        try:
            return await asyncio.to_thread(self._append, turn, body, n, durable)
        except OSError as error:
            raise _not_kept(self.stored, error) from error

    async def settle(self) -> None:
        """Store what waits in memory. What cannot be written now waits on; the next entry that is durable takes it along."""
        if self._waiting:
            with contextlib.suppress(OSError):
                await asyncio.shield(asyncio.to_thread(self._write_waiting))

    @property
    def cycle(self) -> str | None:
        """The id of the latest compaction, or None: what flush marks refer to."""
        latest = self.latest(Compacted)
        return latest.id if latest else None

    def latest(self, *kinds: type[Body]) -> Entry | None:
        """Return the last entry of one of these kinds, of those in memory."""
        found = [self._latest[kind] for kind in kinds if kind in self._latest]
        return max(found, key=itemgetter(0))[1] if found else None

    @property
    def pins(self) -> tuple[str, ...]:
        """What the owner pinned and did not unpin, in that order."""
        pins: dict[str, None] = dict.fromkeys(self.opened.pins if self.opened else ())
        for entry in self.entries:
            match entry.body:
                case Compacted(pins=carried):
                    pins = dict.fromkeys(carried)
                case Pinned(text=text):
                    pins[text] = None
                case Unpinned(text=text):
                    pins.pop(text, None)
        return tuple(pins)

    @property
    def newest_sources(self) -> tuple[str, ...]:
        """``taint``, what came last into view first."""
        return tuple(reversed(self._newest))

    @property
    def size(self) -> int:
        """Its length in bytes, as far as it was read or written here."""
        return self._size

    @property
    def held(self) -> int:
        """The length in bytes of the entries in memory, as they are stored."""
        return self._held

    def holds(self, turn: str) -> bool:
        """Return whether any entry of a turn is stored, also where a summary has taken its place."""
        return turn in self._next

    def of_turn(self, turn: str) -> list[Entry]:
        """The entries of one turn that are in memory."""
        return list(self._turns.get(turn, ()))

    def _append(self, turn: str, body: Body, n: int | None, durable: bool) -> Entry:
        with self._lock:
            place = self._next.get(turn, 0) if n is None else n
            entry_id = f"{turn}:{place}"
            if self._is_taken(turn, place):
                known = next((entry for entry in self.entries if entry.id == entry_id), None)
                return known or Entry(id=entry_id, parent=None, at=self._clock.now(), body=body)
            entry = Entry(id=entry_id, parent=self._last, at=self._clock.now(), body=body)
            line = encode(entry)
            if durable:
                if fault_injection.armed:
                    fault_injection.point("before", "transcript")
                self._size = self.stored.append(self._waiting + line)
                self._waiting = b""
                if fault_injection.armed:
                    fault_injection.point("after", "transcript")
            else:
                self._waiting += line
            self._take(entry, len(line))
            return entry

    def _write_waiting(self) -> None:
        with self._lock:
            if self._waiting:
                self._write(self._waiting)
                self._waiting = b""

    def _add_taint(self, sources: tuple[str, ...]) -> None:
        self.taint = self.taint.union(sources)
        self._newest = {**{one: None for one in self._newest if one not in sources}, **dict.fromkeys(reversed(sources))}

    def _is_taken(self, turn: str, place: int) -> bool:
        places = self._gaps.get(turn)
        return place < self._next.get(turn, 0) if places is None else place in places

    def _note(self, turn: str, place: int) -> None:
        """Note the place of an entry of a turn."""
        behind = self._next.get(turn, 0)
        if place > behind and turn not in self._gaps:
            self._gaps[turn] = {*range(behind)}
        if turn in self._gaps:
            self._gaps[turn].add(place)
        self._next[turn] = max(behind, place + 1)

    def _take(self, entry: Entry, length: int) -> None:
        turn, _, place = entry.id.rpartition(":")
        self._note(turn, int(place))
        self._last = entry.id
        if sources := taint_of(entry.body):
            self._add_taint(sources)
        if isinstance(entry.body, Opened):
            self.opened = entry.body
        first, fresh, last_call = len(self.entries), [entry], self.last_call
        if isinstance(entry.body, Compacted):
            kept = kept_behind(self.entries, entry.body)
            if len(kept) < len(self.entries):
                self._held = sum(len(encode(one)) for one in kept)
            self.entries = kept
            self._turns, self._latest = {}, {}
            first, fresh, last_call = 0, [*self.entries, entry], None
        for index, one in enumerate(fresh, first):  # entries are found by their turn and their kind
            self._turns.setdefault(one.id.rpartition(":")[0], []).append(one)
            self._latest[type(one.body)] = index, one
            if calls_model(one.body):
                last_call = one.at
        self.last_call = last_call
        self.entries.append(entry)
        self._held += length

    def _write(self, lines: bytes) -> None:
        self._size = self.stored.append(lines)

    def _load(self) -> None:
        found = self.stored.contents(self._clock.now())
        self.torn, self._size = found.torn, found.size
        start = self._survey(found)
        for line in found.whole(start, len(found.heads)):
            self._read(line)

    def _survey(self, found: Contents) -> int:
        """Note every entry's id, and return where reading in full has to begin; the opening entry is read on the way."""
        places: dict[str, int] = {}
        compacted: list[int] = []
        for index, start in enumerate(found.heads):
            head = _HEAD.match(start)
            if head is None and len(start) >= HEAD_BYTES:
                head = _HEAD.match(found.whole(index, index + 1)[0])
            if head is None:
                continue
            entry_id = head[2].decode()
            places[entry_id] = index
            turn, _, place = entry_id.rpartition(":")
            if place.isdigit():
                self._note(turn, int(place))
            else:
                self._next.setdefault(turn, 0)
            if head[1] == b"opened":
                self._read(found.whole(index, index + 1)[0], only_opened=True)
            elif head[1] == b"compacted":
                compacted.append(index)
        for index in reversed(compacted):
            try:
                body = decode(found.whole(index, index + 1)[0]).body
            except InvalidEntry:
                continue
            if isinstance(body, Compacted):
                return min(index, *(places.get(one, index) for one in (body.first_kept, *body.waiting)))
        return 0

    def _read(self, line: bytes, *, only_opened: bool = False) -> None:
        try:
            entry = decode(line)
        except InvalidEntry:
            self.bad_lines += not only_opened
            return
        if only_opened:
            self.opened = entry.body if isinstance(entry.body, Opened) else self.opened
            self._add_taint(taint_of(entry.body))
        else:
            self._take(entry, len(line) + 1)


def _is_light(body: Body) -> bool:
    """Whether an entry is small enough to be written out on the event loop."""
    if isinstance(body, Opened):
        return len(body.notes) < LIGHT
    if not isinstance(body, Said) or isinstance(body.message, ToolMessage):
        return False
    texts = [part.text for part in body.message.content if isinstance(part, (Text, Thinking))]
    return len(texts) == len(body.message.content) and sum(map(len, texts)) < LIGHT


def kept_behind(entries: list[Entry], mark: Compacted) -> list[Entry]:
    """Drop from memory what lies before a compaction's first kept entry, but for messages that still wait for an answer.

    Everything stays when the first kept entry is not there.
    """
    index = next((i for i, entry in enumerate(entries) if entry.id == mark.first_kept), 0)
    return [*(entry for entry in entries[:index] if entry.id in mark.waiting), *entries[index:]]


def _not_kept(stored: StoredTranscript, error: OSError) -> TranscriptWriteError:
    path = Path(stored.where)
    hints = {
        errno.ENOSPC: "free some disk space, then say it again",
        errno.EDQUOT: "free some of your disk quota, then say it again",
        errno.EROFS: "make the file system writable, then say it again",
        errno.EACCES: f'sudo chown -R "$USER" {path.parent}',
        errno.ELOOP: f"remove the symbolic link {path}",
    }
    hint = hints.get(error.errno or 0, "homebody status")
    return TranscriptWriteError(f"the transcript {stored.where} cannot be used: {error.strerror or error}", hint=hint)
