"""Making the memory of an agent: whose it is, its index, and the embedder that its settings and keys allow."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from gateway.auth.profiles import Profiles
from gateway.config.secrets import revealed
from gateway.errors import UsageWrong
from memory.embedding.choice import Choice, Surroundings, choose
from memory.embedding.keys import KeyRing, ProviderAccess
from memory.workspace import WorkspaceMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from pydantic import SecretStr

    from gateway.clock import SystemClock
    from gateway.config.settings import AgentProfile, Settings
    from gateway.paths import Paths
    from memory.embedding.download import Progress
    from memory.protocol import KeptMemory

log = logging.getLogger(__name__)

OURS = "memory-core"
NOBODY = "none"
ENTRY_POINTS = "homebody.memories"
"""Where other packages put their memories: name = what ``plugins.slots.memory`` says, value =
``make(*, agent, workspace, settings, clock, tell) -> memory.protocol.KeptMemory``; ``settings`` is ``plugins.memory.<name>``."""


def owner_zone(profile: AgentProfile) -> ZoneInfo:
    """Return the owner's time zone: the one in the settings, or the machine's."""
    if profile.settings.user_timezone:
        return ZoneInfo(profile.settings.user_timezone)
    from tzlocal import get_localzone_name

    return ZoneInfo(get_localzone_name() or "UTC")


def index_file(profile: AgentProfile, paths: Paths) -> Path:
    """Return where the index of an agent is; the name may hold ``{agentId}``."""
    chosen = profile.memory.store.path
    return Path(chosen).expanduser() if chosen else paths.memory / "{agentId}.sqlite"


def keep_memory(
    profile: AgentProfile,
    settings: Settings,
    paths: Paths,
    *,
    env: Mapping[str, str],
    clock: SystemClock,
    random: Random,
    tell: Callable[[str], None],
) -> KeptMemory | None:
    """Make the memory that fills the slot for an agent; None where it is to have none.

    Raises:
        UsageWrong: no installed package brings the memory that the settings name.
    """
    slot = settings.plugins.slots.memory
    if slot == NOBODY or not profile.memory.enabled:
        return None
    if slot == OURS:
        memory, choice = open_memory(profile, settings, paths, env=env, clock=clock, random=random, tell=tell)
        log.info("memory of %s: %s", profile.id, choice.reason)
        return memory
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if slot not in found:
        raise UsageWrong(
            f"no installed package brings the memory {slot!r} (there is: {', '.join([OURS, NOBODY, *sorted(found)])})",
            where="plugins.slots.memory",
            mend="Install its package beside homebody, or run `homebody config set plugins.slots.memory memory-core`.",
        )
    make = found[slot].load()
    kept: KeptMemory = make(
        agent=profile.id,
        workspace=profile.workspace,
        settings=revealed(settings.plugins.memory.get(slot, {})),
        clock=clock,
        tell=tell,
    )
    return kept


def open_memory(
    profile: AgentProfile,
    settings: Settings,
    paths: Paths,
    *,
    env: Mapping[str, str],
    clock: SystemClock,
    random: Random,
    tell: Callable[[str], None],
    progress: Progress | None = None,
) -> tuple[WorkspaceMemory, Choice]:
    """Make the memory of an agent and say which embedder it has and why. Opens nothing and loads nothing yet."""
    providers = {
        name: ProviderAccess(api_key=provider.api_key, base_url=provider.base_url, headers=_plain(provider.headers))
        for name, provider in settings.models.providers.items()
    }
    around = Surroundings(
        keys=KeyRing(profile=Profiles(paths, settings.auth).for_embeddings(profile.id), providers=providers, environ=env),
        clock=clock,
        random=random.random,
        cache_dir=paths.home / "models",
        tell=tell,
        progress=progress,
    )
    choice = choose(profile.memory, around)
    memory = WorkspaceMemory(
        profile.workspace,
        index_file(profile, paths),
        profile.memory,
        agent=profile.id,
        clock=clock,
        embedder=choice.embedder,
        batch=choice.batch,
        sessions=paths.sessions(profile.id),
        zone=owner_zone(profile),
        tell=tell,
    )
    return memory, choice


def _plain(headers: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in headers.items()}
