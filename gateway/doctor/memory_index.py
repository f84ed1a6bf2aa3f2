"""Checks each agent's memory: which SQLite features run, the embedder, whether the index is in step, and notes that cannot be read."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw
from msgspec.structs import asdict

from gateway.agents.memory_stores import NOBODY, OURS, index_file, open_memory
from gateway.base.clock import SystemClock
from gateway.base.errors import StorageFailed, UsageError, access_hint
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.finding import Check, Finding, ok
from gateway.settings.root import AgentProfile
from memory.errors import IndexBroken
from memory.notes.sources import HARD_LINK, NOT_A_FILE, UNREADABLE, NoteSources, own_files_again
from memory.notes.version_store import VersionStore
from memory.store.sqlite.index_database import AllowedFeatures, detect_features, other_layout
from memory.workspace_memory import WorkspaceMemory

_SHOWN: Final = 3
_BY_WORDS: Final = "Notes are found by their words, and not by their meaning."
READ_ANYWAY: Final = "is not valid UTF-8"
"""What the memory says of a note that it reads as Windows-1252."""
_GUESSED: Final = "The agent reads these lines as Windows-1252; from another encoding, letters with accents become others."
_MENDS: Final = {
    NOT_A_FILE: "Rename it so that it does not end in .md, or remove it.",
    "is a binary file": "Rename it so that it does not end in .md, or save it as UTF-8.",
    READ_ANYWAY: "Save it as UTF-8 in your editor.",
    "a symbolic link is not followed": "Name its target in memorySearch.extraPaths, or delete the link.",
}
"""What mends a note, by words of the memory's remark on it."""
_IN_DATABASE: Final = "agents.defaults.memorySearch.store"
_DATABASE: Final = "Start PostgreSQL, or name another database: homebody config set agents.defaults.memorySearch.store.url"
_PGVECTOR: Final = (
    "Install pgvector on the server of PostgreSQL, and run CREATE EXTENSION vector in the database: docs/postgresql.md"
)
_INSTALL: Final = "Install the requirements again: make install, in the folder that you cloned"


async def _examine(installation: Installation) -> list[Finding]:
    slot = installation.settings.plugins.slots.memory
    if slot != OURS:
        return [ok("memory is switched off" if slot == NOBODY else f"memory is kept by the package {slot}")]
    in_files = [profile for profile in installation.profiles if profile.memory.store.driver == "sqlite"]
    found: list[Finding] = list(await in_thread(_features, in_files[0])) if in_files else []
    for profile in installation.profiles:
        if profile.memory.enabled:
            found += await _of_agent(installation, profile)
    return found


def _features(profile: AgentProfile) -> list[Finding]:
    connection = apsw.Connection(":memory:")
    try:
        features = detect_features(connection, profile.memory.store.vector, AllowedFeatures())
    finally:
        connection.close()
    vectors = {"vec0": "vectors by sqlite-vec", "numpy": "vectors by numpy", "none": "no vectors"}[features.vectors]
    said = f"{features.driver}, {vectors}{', keywords by FTS5' if features.keywords else ''}"
    if features.vectors == "vec0" and features.keywords:
        return [ok(said)]
    switched_off = not profile.memory.store.vector.enabled
    level = "note" if features.vectors == "numpy" or switched_off else "warning"
    why = _BY_WORDS if features.vectors == "none" else "Search still works."
    mend = "homebody config get agents.defaults.memorySearch.store.vector" if switched_off else _INSTALL
    return [Finding(level=level, what=f"{said}: {features.note}", why=why, mend=mend)]  # type: ignore[arg-type]  # one of the levels


async def _of_agent(installation: Installation, profile: AgentProfile) -> list[Finding]:
    if not profile.workspace.is_dir():
        made = "the first start makes it" if not installation.paths.agents.is_dir() else "see the check of permissions"
        return [ok(f"{profile.id}: the workspace {profile.workspace} is not there; {made}")]
    try:
        facts = await _status(installation, profile)
    except UsageError as error:
        return [Finding(level="note", what=str(error), mend=error.hint)]
    except (StorageFailed, IndexBroken) as error:
        mend = error.hint if isinstance(error, StorageFailed) else _DATABASE
        return [Finding(level="warning", what=str(error), where=_IN_DATABASE, why="Notes are not found.", mend=mend)]
    if isinstance(facts, Finding):
        return [facts]
    facts["troubles"] |= await in_thread(_closed_notes, profile)
    return [*await in_thread(_gone_texts, installation, profile), *_of_status(installation, profile, facts)]


def _gone_texts(installation: Installation, profile: AgentProfile) -> list[Finding]:
    index = _file(installation, profile)
    folder = index.with_name(f"{index.stem}.history")
    gone = VersionStore(folder).missing() if folder.is_dir() else []
    if not gone:
        return []
    named = ", ".join(f"{one.name} ({one.path})" for one in gone[:_SHOWN]) + (
        f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
    )
    return [
        Finding(
            level="warning",
            what=f"the history of {profile.id}'s notes lacks texts of the versions {named}",
            where=str(folder),
            why="They cannot be shown or undone, as after a loss of power. The notes themselves are not affected.",
            mend=f"homebody memory diff {gone[-1].name} --agent {profile.id} (which keeps it again if the note still has it), or a backup",
        )
    ]


def _closed_notes(profile: AgentProfile) -> dict[str, str]:
    """Return the notes that this user has no right to read, which the index may still know from before."""
    sources = NoteSources(profile.workspace, profile.memory.extra_paths, shared=profile.settings.shared_paths)
    places = {one.path: sources.workspace / one.path for one in sources.walk() if not one.path.startswith("@")}
    return {path: f"{path} {UNREADABLE}" for path, place in places.items() if place.exists() and not os.access(place, os.R_OK)}


async def _status(installation: Installation, profile: AgentProfile) -> dict[str, Any] | Finding:
    deep = not installation.offline
    if installation.gateway_runs:
        found: dict[str, Any] = await installation.ask("memory.status", agent=profile.id, deep=deep)
        return found
    if profile.memory.store.driver == "postgres":
        async with _opened(installation, profile) as memory:
            return asdict(await memory.status(deep=deep))
    file = _file(installation, profile)
    if not file.exists():
        return ok(f"{profile.id}: there is no index yet; the next start makes it")
    if damage := await in_thread(_damage, file):
        return Finding(
            level="warning",
            what=f"the index of {profile.id} is {damage}",
            where=str(file),
            why="Notes are not found. Your notes themselves are not affected: the index is made from them.",
            mend=f"homebody memory index --agent {profile.id}",
            fix=partial(_rebuild, installation, profile),
        )
    installation.refuse_root()
    async with _opened(installation, profile) as memory:
        return asdict(await memory.status(deep=deep))


def _file(installation: Installation, profile: AgentProfile) -> Path:
    return Path(str(index_file(profile, installation.paths)).replace("{agentId}", profile.id))


def _damage(file: Path) -> str:
    try:
        db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            said = db.pragma("quick_check", 1)
            other = other_layout(db) if said == "ok" else ""
        finally:
            db.close()
    except apsw.Error as error:
        return f"damaged: {error}"
    if said != "ok":
        return f"damaged: {said}"
    return f"of another version ({other})" if other else ""


@asynccontextmanager
async def _opened(installation: Installation, profile: AgentProfile) -> AsyncIterator[WorkspaceMemory]:
    memory, _ = open_memory(
        profile,
        installation.settings,
        installation.paths,
        env=installation.env,
        clock=SystemClock(),
        random=Random(),  # noqa: S311 - only used to spread retries
        tell=lambda _: None,
    )
    try:
        yield memory
    finally:
        await memory.close()


def _of_status(installation: Installation, profile: AgentProfile, facts: dict[str, Any]) -> Iterator[Finding]:
    agent = profile.id
    yield from _unreadable(profile, facts["troubles"])
    if profile.memory.store.driver == "postgres" and facts["note"]:
        yield Finding(level="warning", what=f"{agent}: {facts['note']}", where=facts["store"], why=_BY_WORDS, mend=_PGVECTOR)
    if changed := facts["changed_files"]:
        named = ", ".join(changed[:_SHOWN]) + (f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else "")
        yield Finding(
            level="note",
            what=f"{len(changed)} {'note' if len(changed) == 1 else 'notes'} of {agent} changed since the last indexing: {named}",
            why="What changed is indexed before the next search, and not found until then.",
            mend=f"homebody memory index --agent {agent}",
            fix=partial(_rebuild, installation, profile),
        )
    if facts["trouble"]:
        mend = f"homebody memory status --deep --agent {agent}"
        yield Finding(level="warning", what=f"{agent}: {facts['trouble']}", why=_BY_WORDS, mend=mend)
    if facts["probe"] not in (None, "ok"):
        what = f"the embedder {facts['provider']}/{facts['model']} of {agent} does not answer: {facts['probe']}"
        yield Finding(level="warning", what=what, why=_BY_WORDS, mend=f"homebody memory status --deep --agent {agent}")
    elif facts["missing_vectors"] and facts["provider"] != "none":
        what = f"{facts['missing_vectors']} of {facts['chunks']} passages of {agent} have no vector yet"
        yield Finding(level="note", what=what, why=_BY_WORDS, mend=f"homebody memory index --agent {agent}")
    if facts["provider"] == "none":
        mend = "How to add an embedder: homebody memory status"
        yield Finding(level="note", what=f"{agent} searches its notes by keyword only", why=_BY_WORDS, mend=mend)
    else:
        yield ok(f"{agent}: {facts['files']} notes, {facts['search']}, embedder {facts['provider']}/{facts['model']}")


def _unreadable(profile: AgentProfile, troubles: dict[str, str]) -> Iterator[Finding]:
    for path, trouble in list(troubles.items())[:_SHOWN]:
        place = profile.workspace / path
        mend = next((mend for words, mend in _MENDS.items() if words in trouble), "Run: homebody memory status")
        if UNREADABLE in trouble:
            mend = access_hint(place, "u+r") or f"ls -l {shlex.quote(str(place))}"
        elif HARD_LINK in trouble:
            mend = f"This makes files of their own of all such notes: {own_files_again(profile.workspace)}"
        why = (
            _GUESSED if READ_ANYWAY in trouble else "The agent does not know what it says, and answers as if it were not there."
        )
        what = trouble.removeprefix(f"{path} ")
        yield Finding(level="warning", what=what, where=str(place), why=why, mend=mend)
    if (more := len(troubles) - _SHOWN) > 0:
        named = ", ".join(list(troubles)[_SHOWN : 4 * _SHOWN])
        what = f"{more} more notes of {profile.id} cannot be read as they are: {named}{', …' if more > 3 * _SHOWN else ''}"
        yield Finding(level="warning", what=what, mend="homebody memory status")


async def _rebuild(installation: Installation, profile: AgentProfile) -> str:
    if installation.gateway_runs:
        facts = await installation.ask("memory.sync", agent=profile.id)
        return f"indexed the notes of {profile.id} ({facts['changed']} changed)"
    installation.refuse_root()
    async with _opened(installation, profile) as memory:
        synced = await memory.sync(vectors=False)
    return f"indexed the notes of {profile.id} ({synced.changed} changed)"


MEMORY = Check(name="memory", examine=_examine, seconds=60.0)
