"""Carries out what an owner decided about somebody's wish to be forgotten: in transcripts, notes and what is kept of a group in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec.structs import asdict

from agent.transcript.entries import InvalidEntry, Opened, decode
from agent.transcript.stored_transcript import StoredTranscript
from channels.messages import ChatAddress
from gateway.agents.running_agent import RunningAgent
from gateway.agents.session_contexts import audience_of
from gateway.api.handlers.note_requests import NoteHandlers
from gateway.ledger.forget_requests import ForgetRequest
from gateway.ledger.word_erasure import NAMELESS, Erasure, WordErasurePart
from gateway.queue.lanes import Lanes
from gateway.sessions.forgetting import Speaker, Words, empty, own_lines, take_out, without_lines
from gateway.turns.user_message import name_of
from gateway.turns.worker import Errand
from memory.audience import Audience
from memory.errors import MemoryTrouble
from memory.protocol import Author
from memory.workspace_memory import WorkspaceMemory

log = logging.getLogger(__name__)
_LONGEST_WAIT: Final = 3600.0
"""Seconds that a removal waits for the turns before it in one session."""
SHORTEST_SHOWN: Final = 4
"""Characters of the words as the head of a message shows them, without signs, from which that is looked for too."""
_TRIES: Final = 20
_PAUSE: Final = 0.5
"""Seconds after which rows are looked at again that were not ended."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed: messages of the person, and lines of notes."""

    messages: int
    lines: int


class WordRemoval:
    """Removes words. ``audience`` returns whose a session is by its key; ``overheard`` drops a person's lines of context in memory.

    ``rows`` are those of the ledger.
    """

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        lanes: Lanes[Any],
        audience: Callable[[str], Audience],
        overheard: Callable[[ChatAddress, str], None],
        rows: WordErasurePart,
    ) -> None:
        self._agents = agents
        self._lanes = lanes
        self._audience = audience
        self._overheard = overheard
        self._rows = rows

    async def carry_out(self, request: ForgetRequest) -> Removed:
        """Remove the words, each session's while no turn runs in it. A repeat removes what is left.

        Raises:
            OSError, UsageError: something could not be changed; what was removed stays removed.
        """
        agent, audience = self._agents[request.agent], self._audience(request.session)
        place = ChatAddress.parse(request.place, space=request.space or None)
        name = name_of(request.name, request.person)
        self._overheard(place, name)
        found = await self._rows.subagents(place.address, request.person, lambda readers: readers == asdict(audience))
        labels = tuple(one.label for one in found if one.theirs and not request.phrase and one.label != NAMELESS)
        shown = name_of(request.phrase, "").removesuffix("…")
        if shown != request.phrase and len(shown) >= SHORTEST_SHOWN:
            labels += (shown,)
        words = Words(Speaker(channel=place.channel, id=name_of(request.person, "?"), name=name), request.phrase, labels)
        theirs = {one.session for one in found if one.theirs and not request.phrase}
        transcripts = await asyncio.to_thread(self._transcripts, audience, {one.session for one in found})
        every = [stored for _, some in transcripts.values() for stored in some]
        lines = await asyncio.to_thread(own_lines, every, words)
        gone = 0
        for key, (owner, some) in transcripts.items():
            change = _emptied if key in theirs else partial(take_out, words=words, lines=lines)
            gone += await self._in_lane(owner, key, some, change)
        for one in list(self._agents.values()):
            await asyncio.to_thread(one.workspace.untrusted.rename_sources, words.without_names)
        erasure = Erasure(
            request=request.id,
            conversation=place.address,
            sessions=frozenset(transcripts) | {one.session for one in found},
            person=request.person,
            everything=not request.phrase,
            holds=words.holding(lines),
        )
        await self._from_rows(erasure)
        return Removed(gone, await self._from_notes(agent, audience, words, lines))

    async def clean_indexes(self) -> None:
        """Leave nothing of removed words in the files of the search indexes. What fails is logged."""
        for agent in list(self._agents.values()):
            if not isinstance(agent.memory, WorkspaceMemory):
                continue
            try:
                await agent.memory.leave_no_trace()
            except MemoryTrouble as error:
                log.warning("the memory index of %s may still hold words that were removed: %s", agent.id, error)

    async def _from_rows(self, erasure: Erasure) -> None:
        """Remove the words from the ledger; once more where rows were still needed, such as that of the command itself."""
        for _ in range(_TRIES):
            if not (left := await self._rows.erase(erasure)):
                return
            await asyncio.sleep(_PAUSE)
        log.info("%s rows of the ledger keep words that are to be forgotten, until they are a week old", left)

    async def _in_lane(
        self, agent: RunningAgent, key: str, transcripts: list[StoredTranscript], change: Callable[[StoredTranscript], int]
    ) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            record = agent.store.get(key)
            if record is not None:
                agent.conversations.forget(record.session)
            try:
                done.set_result(sum([await asyncio.to_thread(change, one) for one in transcripts]))
            except Exception as error:  # noqa: BLE001 - whoever waits for it is told
                done.set_exception(error)
            finally:
                if not done.done():
                    done.set_exception(OSError("it was stopped"))

        self._lanes.submit(key, Errand(work))
        async with asyncio.timeout(_LONGEST_WAIT):
            return await done

    def _transcripts(
        self, audience: Audience, subagents: Collection[str]
    ) -> dict[str, tuple[RunningAgent, list[StoredTranscript]]]:
        """Return the transcripts of an audience by the key of their session, with archived ones and those of sub-agents. Blocking."""
        found: dict[str, tuple[RunningAgent, list[StoredTranscript]]] = {}
        for agent in list(self._agents.values()):
            for stored, _ in sorted(agent.store.transcripts.all(), key=lambda one: one[0].session):
                opened = _opening_of(stored)
                if opened is not None and (opened.key in subagents or self._readers(agent, opened) == audience):
                    found.setdefault(opened.key, (agent, []))[1].append(stored)
        return found

    def _readers(self, agent: RunningAgent, opened: Opened) -> Audience:
        """Return whose a transcript is. The key of an isolated session does not say it."""
        kind, _, key = opened.audience.partition(":")
        if key:
            return Audience("group" if kind == "group" else "peer", key)
        record = agent.store.get(opened.key)
        otherwise = self._audience(opened.key)
        return otherwise if record is None else audience_of(record, otherwise)

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


def _opening_of(stored: StoredTranscript) -> Opened | None:
    """Return the first entry of a transcript, which says whose it is; None where it cannot be read."""
    try:
        body = decode(next(iter(stored.lines()), b"")).body
    except (OSError, InvalidEntry):
        return None
    return body if isinstance(body, Opened) else None


def _emptied(stored: StoredTranscript) -> int:
    empty(stored)
    return 0
