"""Checks the conversations: torn or unreadable lines, sessions without a transcript, and transcripts of agents that are gone."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from agent.transcript.entries import InvalidEntry, decode
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import SystemClock
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.sessions.sessions_file import Damaged, Records, SessionFile

MOST_BYTES: Final = 200_000_000
"""How much of an agent's transcripts is read, the newest first; older ones are read when they are next opened."""
SETTLED_SECONDS: Final = 60.0
"""A transcript that a running gateway wrote so lately may be about to be written."""
_REST: Final = "The rest of the conversation is not affected."


def _examine(installation: Installation) -> Iterator[Finding]:
    if installation.settings.storage.url is not None:
        from gateway.doctor.database_conversations import examined

        yield from examined(installation, MOST_BYTES)
        return
    count = 0
    found: list[Finding] = []
    known = set(installation.settings.agent_ids)
    for folder in sorted(installation.paths.agents.glob("*/sessions")):
        agent = folder.parent.name
        transcripts = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)
        count += len(transcripts)
        if agent not in known and transcripts:
            found.append(_of_nobody(agent, folder, len(transcripts)))
            continue
        found += [*_records(folder), *_lines(installation, transcripts), *_set_aside(folder)]
    yield from found or [
        ok(f"{count} transcript{'s are' if count > 1 else ' is'} whole" if count else "there are no transcripts yet")
    ]


def _of_nobody(agent: str, folder: Path, count: int) -> Finding:
    what = f"{count} transcripts of the agent {agent}, which the settings do not have"
    mend = f"Add it again: homebody agents add {agent}. Or move its folder away: mv {shlex.quote(str(folder.parent))} ~/"
    return Finding(level="note", what=what, where=str(folder), why="Nobody can continue or search them.", mend=mend)


def _records(folder: Path) -> Iterator[Finding]:
    file = SessionFile(folder)
    try:
        records: Records = file.read()
    except FileNotFoundError:
        return
    except Damaged as error:
        why = "The next start makes it again from the transcripts; choices made with /model, /think and the like may be lost."
        mend = f"Restart the gateway. To see where it is damaged: python3 -m json.tool {shlex.quote(str(file.path))}"
        yield Finding(
            level="warning", what=f"the list of sessions cannot be read: {error}", where=str(file.path), why=why, mend=mend
        )
        return
    if file.unreadable:
        what = f"{len(file.unreadable)} changes in the list of sessions cannot be read"
        why = "The next start makes these sessions again from their transcripts."
        yield Finding(level="warning", what=what, where=f"{file.path}.changes", why=why, mend="Restart the gateway.")
    lost = [record for record in records.values() if record.turns and _is_empty(folder / f"{record.session}.jsonl")]
    for record in lost[:5]:
        why = "The agent does not know what was said there. If the disk is not at fault, the file was deleted."
        what = f"the transcript of {record.key} is gone or empty"
        mend = "Copy it back from a backup. The session goes on without it."
        yield Finding(level="warning", what=what, where=str(folder / f"{record.session}.jsonl"), why=why, mend=mend)


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True
    except OSError:  # told by the check of permissions
        return False


def _lines(installation: Installation, transcripts: list[Path]) -> Iterator[Finding]:
    left = MOST_BYTES
    for path in transcripts:
        found = path.stat()
        left -= found.st_size
        if left < 0:
            return
        if installation.holder is not None and time.time() - found.st_mtime < SETTLED_SECONDS:
            continue
        try:
            data = path.read_bytes()
        except OSError:
            continue  # told by the check of permissions
        yield from _of(path, data, installation)


def _of(path: Path, data: bytes, installation: Installation) -> Iterator[Finding]:
    *lines, tail = data.split(b"\n")
    bad = sum(not _is_whole(line) for line in lines)
    if tail:
        held = installation.holder is not None
        yield Finding(
            level="note" if _is_whole(tail) else "warning",
            what="the last line was cut off (by a crash or a power cut)",
            where=str(path),
            why=f"It is set aside when the session is opened next. {_REST}",
            mend="Nothing has to be done." if held else "homebody doctor --fix sets it aside now",
            fix=None if held else partial(_set_tail_aside, path, installation),
        )
    if bad:
        what = f"{bad} of {len(lines)} lines cannot be read"
        mend = f"homebody sessions repair {_key(lines) or path.stem} (the file as it is now is kept beside it)"
        yield Finding(level="warning", what=what, where=str(path), why=f"They are passed over. {_REST}", mend=mend)


def _is_whole(line: bytes) -> bool:
    try:
        decode(line.rstrip(b"\r"))
    except InvalidEntry:
        return False
    return True


def _key(lines: list[bytes]) -> str:
    for line in lines[:1]:
        try:
            return str(getattr(decode(line).body, "key", ""))
        except InvalidEntry:
            return ""
    return ""


async def _set_tail_aside(path: Path, installation: Installation) -> str:
    """Let the transcript's own code do it, with the state held, so that no gateway writes meanwhile."""
    async with installation.alone():
        transcript = await Transcript.load(TranscriptFile(path), SystemClock())
        kept = transcript.torn
    return f"set the torn end of {path} aside as {kept}" if kept else f"completed the last line of {path}"


def _set_aside(folder: Path) -> Iterator[Finding]:
    kept = [path for pattern in ("*.bad-*", "*.torn-*") for path in folder.glob(pattern)]
    if kept:
        size = sum(path.stat().st_size for path in kept)
        mend = f"When you no longer need them: rm {shlex.quote(str(folder))}/*.bad-* {shlex.quote(str(folder))}/*.torn-*"
        what = f"{len(kept)} damaged pieces of transcripts were set aside ({size:,} bytes)"
        yield Finding(level="note", what=what, where=os.fspath(folder), mend=mend)


TRANSCRIPTS = Check(name="transcripts", examine=_examine, seconds=60.0)
