"""Carries out what an owner decided about somebody's wish to be forgotten: in transcripts, notes and what is kept of a group in memory."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent.transcript.entries import InvalidEntry, Opened, decode
from channels.messages import ChatAddress
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.note_requests import NoteHandlers
from gateway.ledger.forget_requests import ForgetRequest
from gateway.queue.lanes import Lanes
from gateway.sessions.forgetting import Speaker, Words, own_lines, take_out, without_lines
from gateway.turns.quoting import name_of
from gateway.turns.worker import Errand
from memory.audience import Audience
from memory.protocol import Author

log = logging.getLogger(__name__)
_LONGEST_WAIT: Final = 3600.0
"""Seconds that a removal waits for the turns before it in one session."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed: messages of the person, and lines of notes."""

    messages: int
    lines: int


class WordRemoval:
    """Removes words. ``audience`` returns whose a session is by its key; ``overheard`` drops a person's lines of context in memory."""

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        lanes: Lanes[Any],
        audience: Callable[[str], Audience],
        overheard: Callable[[ChatAddress, str], None],
    ) -> None:
        self._agents = agents
        self._lanes = lanes
        self._audience = audience
        self._overheard = overheard

    async def carry_out(self, request: ForgetRequest) -> Removed:
        """Remove the words, each session's while no turn runs in it. A repeat removes what is left.

        Raises:
            OSError, UsageError: something could not be changed; what was removed stays removed.
        """
        agent, audience = self._agents[request.agent], self._audience(request.session)
        place = ChatAddress.parse(request.place, space=request.space or None)
        name = name_of(request.name, request.person)
        words = Words(Speaker(channel=place.channel, id=name_of(request.person, "?"), name=name), request.phrase)
        self._overheard(place, name)
        transcripts = await asyncio.to_thread(self._transcripts, agent, audience)
        lines = await asyncio.to_thread(own_lines, [path for paths in transcripts.values() for path in paths], words)
        counts = [await self._in_lane(agent, key, paths, words, lines) for key, paths in transcripts.items()]
        return Removed(sum(counts), await self._from_notes(agent, audience, words, lines))

    async def _in_lane(self, agent: RunningAgent, key: str, paths: list[Path], words: Words, lines: list[str]) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            record = agent.store.get(key)
            if record is not None:
                agent.conversations.forget(record.session)
            try:
                done.set_result(sum([await asyncio.to_thread(take_out, path, words, lines) for path in paths]))
            except Exception as error:  # noqa: BLE001 - whoever waits for it is told
                done.set_exception(error)
            finally:
                if not done.done():
                    done.set_exception(OSError("it was stopped"))

        self._lanes.submit(key, Errand(work))
        async with asyncio.timeout(_LONGEST_WAIT):
            return await done

    def _transcripts(self, agent: RunningAgent, audience: Audience) -> dict[str, list[Path]]:
        """Return the transcripts of an audience by the key of their session, archived ones included. Blocking."""
        found: dict[str, list[Path]] = {}
        folder = agent.store.transcript("x").parent
        for path in sorted([*folder.glob("*.jsonl"), *folder.glob("archive/*.jsonl.gz")]):
            key = _key_of(path)
            if key and self._audience(key) == audience:
                found.setdefault(key, []).append(path)
        return found

    async def _from_notes(self, agent: RunningAgent, audience: Audience, words: Words, lines: list[str]) -> int:
        """Remove lines of the audience's notes. The history of the notes keeps them, so that an owner may undo it."""
        notes, gone = NoteHandlers(self._agents), 0
        for row in (await notes.files(agent.id))["files"]:
            if row["kind"] != "note" or not row["path"].startswith(f"{audience.folder}/"):
                continue
            page = await notes.read(agent.id, row["path"])
            if not page["editable"]:
                log.warning("%s is left as it is: it %s", row["path"], page["why"])
                continue
            text, count = without_lines(page["text"], words, lines)
            if count:
                by = Author("owner", "a wish to be forgotten")
                await notes.write(agent.id, row["path"], text, page["hash"], by=by)
                gone += count
        return gone


def _key_of(path: Path) -> str:
    """Return the key of the session that a transcript is of; empty where its first line does not say."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            body = decode(file.readline()).body
    except (OSError, InvalidEntry, EOFError):
        return ""
    return body.key if isinstance(body, Opened) else ""
