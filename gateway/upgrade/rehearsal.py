"""A rehearsal of an update: the present state, restored from a backup into a scratch folder, loaded by this program, and one turn in it.

Nothing of it reaches anybody: no channel, mailbox, calendar, MCP server or model provider is in the settings that it runs with, and what
was open in the state is held, as after every restore. A scripted model answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from agent.models.scripted import ScriptedModel
from channels.live import Done, Reply
from channels.terminal.link import Link
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.backup.age_encryption import Keys
from gateway.backup.extraction import Progress
from gateway.backup.manifest import WORKSPACE, Manifest
from gateway.backup.restoring import Target, restore
from gateway.backup.versions import FileVersion, versions_in
from gateway.base.errors import HomebodyError
from gateway.base.paths import Paths
from gateway.config.load import load
from gateway.ledger.snapshot import jobs_of
from gateway.settings.root import Settings

ANSWER: Final = "The rehearsal went well."
_ASKED: Final = "This is a rehearsal. Say so."
_MODEL: Final = "rehearsal/scripted"
_SECONDS: Final = 120.0
_LEFT_OUT: Final = (
    "storage",
    "channels",
    "bindings",
    "broadcast",
    "mail",
    "calendar",
    "mcp",
    "models",
    "auth",
    "gateway",
    "backup",
    "logging",
)
"""Sections of the settings that lead outside, or to places that are in use."""


@dataclass
class Rehearsed:
    """What came of a rehearsal. ``files`` are what was found, by kind and version; ``problems`` are in words."""

    homebody: str
    files: list[dict[str, Any]] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    sessions: int = 0
    jobs: int = 0
    answer: str = ""
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def state_of(home: Path, ledger: Path | None = None) -> list[dict[str, Any]]:
    """Return the versions of a home's files: how many there are of each kind and version, and what becomes of them. Blocking."""
    counts: dict[tuple[str, int | None], list[FileVersion]] = {}
    for one in versions_in(home, ledger):
        counts.setdefault((one.kind, one.found), []).append(one)
    return [
        {
            "kind": kind,
            "version": found,
            "known": files[0].known,
            "files": len(files),
            "example": str(files[0].path.relative_to(home)) if files[0].path.is_relative_to(home) else files[0].path.name,
            "becomes": "refused" if files[0].newer else "migrated" if files[0].older else "read",
        }
        for (kind, found), files in counts.items()
    ]


def rehearse(
    backup: Path,
    keys: Keys,
    scratch: Path,
    *,
    env: Mapping[str, str],
    now: datetime,
    progress: Progress = lambda _files, _bytes: None,
) -> Rehearsed:
    """Rehearse with a backup, in a new folder below ``scratch`` that is deleted again. Blocking.

    Raises:
        BackupUnusable, StorageFailed: it cannot be restored at all.
    """
    folder = Path(tempfile.mkdtemp(prefix="homebody-rehearsal-", dir=scratch))
    result = Rehearsed(homebody=version("homebody"))
    try:
        paths = Paths(folder / "home")
        restored = restore(
            backup, keys, Target(paths=paths, workspaces=folder / WORKSPACE), env=env, now=now, progress=progress
        )
        result.files = [_as_backed_up(one, restored.ledger_version) for one in state_of(paths.home)]
        try:
            asyncio.run(_turn(paths, env, result))
        except (HomebodyError, TimeoutError) as error:
            result.problems.append(f"the gateway cannot run with this state: {str(error) or 'no answer came'}")
        else:
            result.problems += _lost(restored.checked.manifest, paths.state / "ledger.sqlite")
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_backed_up(file: dict[str, Any], ledger: int | None) -> dict[str, Any]:
    """Return the facts of a kind of file as they were in the backup: restoring it brought the ledger to the present version."""
    if file["kind"] != "ledger" or ledger is None or ledger >= file["known"]:
        return file
    return file | {"version": ledger, "becomes": "migrated"}


async def _turn(paths: Paths, env: Mapping[str, str], result: Rehearsed) -> None:
    """Open a gateway on the copy and say something to it. Raises HomebodyError, TimeoutError."""
    settings = quiet_settings(load(paths, env, only_look=True).settings)
    gateway = await Gateway.open(Dependencies(settings=settings, paths=paths, env={}))
    gateway.model_registry.put(_MODEL, ScriptedModel(lambda _request: ANSWER, name=_MODEL))
    started = asyncio.Event()
    running = asyncio.ensure_future(gateway.run(started.set))
    try:
        async with asyncio.timeout(_SECONDS):
            await asyncio.wait([running, asyncio.ensure_future(started.wait())], return_when=asyncio.FIRST_COMPLETED)
            link = gateway.terminal.attach("rehearsal")
            await link.say(_ASKED, key="rehearsal", hints={})
            result.answer = await _answer(link)
            await link.close()
        result.agents = sorted(gateway.agents)
        result.sessions = sum(len(agent.store) for agent in gateway.agents.values())
        result.jobs = sum(job.state != "done" for job in await gateway.ledger.jobs.all())
        result.notices = list(gateway.notices.told)
    finally:
        gateway.stop()
        with contextlib.suppress(HomebodyError):
            await running
        await gateway.close()
    if ANSWER not in result.answer:
        result.problems.append(f"the turn went otherwise than it should: {result.answer[:200] or 'no answer'}")
    if gateway.ledger.warning:
        result.problems.append(f"the ledger could not be used as it was: {gateway.ledger.warning}")


async def _answer(link: Link) -> str:
    """Wait until the turn is done and all that it says has come."""
    said: list[str] = []
    chunks: int | None = None
    async for frame in link.frames():
        if isinstance(frame, Reply):
            said.append(frame.text)
        elif isinstance(frame, Done):
            chunks = int(frame.facts["chunks"])
        if chunks is not None and len(said) >= chunks:
            break
    return "\n".join(said)


def quiet_settings(settings: Settings) -> Settings:
    """Return settings that reach nobody: without what leads outside, and with the scripted model for every agent."""
    given = settings.model_dump(by_alias=True, exclude_unset=True)
    for name in _LEFT_OUT:
        given.pop(name, None)
    agents = given.setdefault("agents", {})
    for agent in (agents.setdefault("defaults", {}), *agents.get("list", ())):
        agent.update({"model": _MODEL, "memorySearch": {"enabled": False}, "heartbeat": {"every": 0}})
        agent.pop("models", None)
        agent.pop("imageModel", None)
    return Settings.model_validate(given).of_profile(settings.profile)


def _lost(manifest: Manifest, ledger: Path) -> Iterator[str]:
    found = jobs_of(ledger)
    for job, about in manifest.jobs.items():
        if found.get(job) != about:
            yield f"the job {job} is {'missing' if job not in found else 'another one'} after the rehearsal"
