"""Making the memory of an agent: its index, and the embedder that its settings and keys allow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

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
        keys=KeyRing(providers=providers, environ=env),
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
