"""Of a transcript that grew the index reads the end alone, and comes to what the whole would give, whatever happened to it."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.messages import AssistantMessage, Text, ToolMessage, UserMessage
from agent.transcript.entries import Compacted, Entry, InvalidEntry, Said, TurnEnded, decode, encode
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import ManualClock
from memory.indexing.transcript_cutter import TranscriptCutter
from memory.notes.transcript_source import PREFIX, SUFFIX, TranscriptSource
from memory.settings import SessionSyncSettings
from memory.store.generations import Generation
from memory.text.chunks import Chunk, chunk
from tests.both_engines import sessions_at
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.transcript.entries import Body
    from agent.transcript.stored_transcript import StoredTranscript
    from gateway.sessions.protocol import TranscriptStore
    from memory.notes.sources import Stamp
    from memory.notes.transcript_source import Transcripts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NUMBERS = itertools.count()
SIZES = (Generation(1, 16, 6), Generation(2, 60, 20), Generation(3, 30, 0))
TEXTS = (
    "hi",
    "",
    "/status",
    "# Title",
    "```",
    "the ferry leaves at nine",
    "word " * 30,
    "a longer sentence, " * 40,
    "咖啡" * 40,
)
FERRY, TOOL, HI = 59, 16, 54
"""Numbers of bodies: a message, one that is not searched, and a shorter one."""


def body_of(number: int) -> Body:
    """Return one of the bodies that a transcript holds."""
    text = TEXTS[number % len(TEXTS)]
    match number // len(TEXTS) % 7:
        case 0:
            return TurnEnded(turn="t", outcome="answered", facts={"seconds": number})
        case 1:
            return Said(message=ToolMessage(call_id="c", name="read", text=text))
        case 2:
            return Compacted(summary=text, first_kept="t:0", tokens_before=9, tokens_after=3, model="m", reason="threshold")
        case 3 | 4:
            return Said(message=AssistantMessage(content=(Text(text=text),), model="m", stop="end"))
    return Said(message=UserMessage(content=(Text(text=text),), at=NOON))


class Grown:
    """One transcript, and an index of three sizes of chunks that follows it."""

    def __init__(self, store: TranscriptStore) -> None:
        self.session = f"s{next(NUMBERS)}"
        self.store = store
        self.path = f"{PREFIX}{self.session}{SUFFIX}"
        self.source = TranscriptSource(store.searched(), SessionSyncSettings(), lambda _key, _readers: True)
        self.cutter = TranscriptCutter(self.source)
        self.index: dict[int, tuple[Stamp, list[Chunk]]] = {}
        self.entries = itertools.count()
        self.say(40)

    @property
    def stored(self) -> StoredTranscript:
        return self.store.of(self.session)

    def line(self, number: int) -> bytes:
        count = next(self.entries)
        return encode(Entry(id=f"t:{count}", parent=None, at=NOON + timedelta(seconds=count), body=body_of(number)))

    def say(self, number: int) -> None:
        self.stored.append(b"".join(self.line(number * 7 + n) for n in range(number % 6 + 1)))

    def erase(self, number: int) -> None:
        """Put other words in place of some, as `homebody forget` does: entries stay the same, and lines get other lengths."""
        lines = list(self.stored.lines())
        for at, line in enumerate(lines):
            with suppress(InvalidEntry):
                entry = decode(line)
                if at % 3 == number % 3 and isinstance(entry.body, Said) and isinstance(entry.body.message, UserMessage):
                    message = replace(entry.body.message, content=(Text(text=f"removed {number}" * (number % 2)),))
                    lines[at] = encode(replace(entry, body=Said(message=message)))
        self.stored.replace(b"".join(line for line in lines if line.endswith(b"\n")))

    def swap(self, number: int) -> None:
        """Put as many other letters in place of those of one message."""
        lines = list(self.stored.lines())
        at = number % len(lines)
        with suppress(InvalidEntry):
            entry = decode(lines[at])
            if isinstance(entry.body, Said) and isinstance(entry.body.message, UserMessage):
                letters = len(entry.body.message.text.encode())
                message = replace(entry.body.message, content=(Text(text="x" * letters),))
                fresh = encode(replace(entry, body=Said(message=message)))
                lines[at] = fresh if len(fresh) == len(lines[at]) else lines[at]
        self.stored.replace(b"".join(line for line in lines if line.endswith(b"\n")), aside=f"was-{next(NUMBERS)}")

    def lose(self, number: int) -> None:
        """Take back lines that were not written durably."""
        if isinstance(self.stored, TranscriptFile):
            lines = self.stored.path.read_bytes().splitlines(keepends=True)
            with self.stored.path.open("r+b") as file:
                file.truncate(sum(map(len, lines[: max(1, len(lines) - number % 4)])))

    def tear(self, number: int) -> None:
        """Write a line in part."""
        if isinstance(self.stored, TranscriptFile):
            with self.stored.path.open("ab") as file:
                line = self.line(number)
                file.write(line[: -1 - number % 3 * 20])

    def mend(self, _number: int) -> None:
        self.stored.contents(NOON)

    def other(self, number: int) -> None:
        """Put another transcript in its place."""
        self.stored.replace(b"".join(self.line(number + n) for n in range(number % 50 + 1)))

    def away(self, _number: int) -> None:
        """Put it away, have the index see that it is gone, and begin another one of its name."""
        self.store.put_away((), datetime.now(UTC) + timedelta(days=1))
        self.index.clear()
        self.say(3)

    def restart(self, _number: int) -> None:
        self.cutter = TranscriptCutter(self.source)

    def follow(self, number: int) -> None:
        for generation in SIZES[number % 2 :]:
            stamp, held = self.index.get(generation.number, (None, []))
            change = self.cutter.cut(self.path, generation, stamp)
            assert change.filed is not None
            found = [one for one in held if one.start_line < change.since] + [one.chunk for one in change.chunks or ()]
            self.index[generation.number] = change.filed.stamp, found
            lines = self.source.read(self.path).lines
            assert found == chunk(lines, tokens=generation.tokens, overlap=generation.overlap)


STEPS: tuple[tuple[str, Callable[[Grown, int], None]], ...] = (
    *(("say", Grown.say),) * 4,
    *(("follow", Grown.follow),) * 6,
    ("erase", Grown.erase),
    ("swap", Grown.swap),
    ("lose", Grown.lose),
    ("tear", Grown.tear),
    ("mend", Grown.mend),
    ("other", Grown.other),
    ("away", Grown.away),
    ("restart", Grown.restart),
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 200)), max_size=40))
def test_what_is_cut_of_the_end_alone_is_what_would_be_cut_of_the_whole(tmp_path: Path, steps: list[Any]) -> None:
    grown = Grown(sessions_at(tmp_path, ManualClock(NOON)).transcripts)
    for (_, step), number in steps:
        step(grown, number)
    grown.follow(0)


@pytest.mark.files
@pytest.mark.parametrize("count", range(1, 12))
def test_a_line_that_was_taken_back_decides_nothing(tmp_path: Path, count: int) -> None:
    grown = Grown(sessions_at(tmp_path, ManualClock(NOON)).transcripts)
    for _ in range(count):
        grown.stored.append(grown.line(FERRY))
    grown.follow(0)
    grown.lose(1)
    grown.stored.append(grown.line(TOOL) + grown.line(HI))
    grown.follow(0)


def test_of_a_transcript_that_grew_the_end_alone_is_read(tmp_path: Path) -> None:
    class Counted:
        count = 0

        def __init__(self, transcripts: Transcripts) -> None:
            self._transcripts = transcripts

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transcripts, name)

        def read(self, name: str, start: int, most: int) -> bytes:
            found = self._transcripts.read(name, start, most)
            self.count += len(found)
            return found

    grown = Grown(sessions_at(tmp_path, ManualClock(NOON)).transcripts)
    for _ in range(100):
        grown.say(5)
    counted = Counted(grown.store.searched())
    cutter = TranscriptCutter(TranscriptSource(counted, SessionSyncSettings(), lambda _key, _readers: True))  # type: ignore[arg-type]
    change = cutter.cut(grown.path, SIZES[1], None)
    assert change.filed is not None
    size = grown.stored.stat().size
    assert (change.since, counted.count) == (1, size)
    grown.say(4)
    counted.count = 0
    later = cutter.cut(grown.path, SIZES[1], change.filed.stamp)
    assert counted.count < grown.stored.stat().size - size + 2_500
    assert len(later.chunks or ()) < 5
    assert later.since > 100
