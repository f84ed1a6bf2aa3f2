"""Opens an agent's memory: workspace, index, and the embedder selected by settings and keys."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import SecretStr

from agent.context.workspace_files import HEARTBEAT, PROMPT_FILES, RITUAL, workspace_templates
from gateway.base.clock import SystemClock
from gateway.base.errors import UsageError
from gateway.base.paths import Paths
from gateway.config.secrets import revealed
from gateway.models.key_profiles import Profiles
from gateway.routing.routed_message import is_isolated
from gateway.routing.router import is_owners
from gateway.settings.root import AgentProfile, Settings
from gateway.storage.open_storage import sessions_to_read
from memory.audience import OWNER
from memory.embedding.endpoint import EMBEDDING_PROVIDERS, KeyRing, ProviderAccess
from memory.embedding.protocol import Embedder
from memory.embedding.selection import EmbedderDependencies, Selection, select_embedder
from memory.notes.transcript_source import Transcripts
from memory.protocol import KeptMemory, Recorded
from memory.store.index_handle import IndexEngine
from memory.workspace_memory import WorkspaceMemory

if TYPE_CHECKING:
    from memory.embedding.engines.model_download import DownloadProgress

log = logging.getLogger(__name__)

Meter: TypeAlias = "Callable[[Embedder], Embedder]"
OURS = "memory-core"
NOBODY = "none"
ENTRY_POINTS = "homebody.memories"
"""Where other packages put their memories: name = what ``plugins.slots.memory`` says, value =
``make(*, agent, workspace, settings, clock, tell) -> memory.protocol.KeptMemory``; ``settings`` is ``plugins.memory.<name>``."""


def unmetered(embedder: Embedder) -> Embedder:
    """Count nothing: for a single command."""
    return embedder


def owner_zone(profile: AgentProfile) -> ZoneInfo:
    """Return the owner's time zone: the one in the settings, or the machine's."""
    if profile.settings.user_timezone:
        return ZoneInfo(profile.settings.user_timezone)
    return machine_zone()


def machine_zone() -> ZoneInfo:
    """Return the machine's time zone."""
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
    present: Callable[[], Settings] | None = None,
    profiles: Profiles | None = None,
    meter: Meter = unmetered,
    recorded: Recorded | None = None,
    sessions: Transcripts | None = None,
) -> KeptMemory | None:
    """Make an agent's memory, or None if its settings turn memory off. See ``open_memory``.

    Raises:
        UsageError: no installed package provides the memory that the settings name.
    """
    slot = settings.plugins.slots.memory
    if slot == NOBODY or not profile.memory.enabled:
        return None
    if slot == OURS:
        memory, choice = open_memory(
            profile,
            settings,
            paths,
            env=env,
            clock=clock,
            random=random,
            tell=tell,
            present=present,
            profiles=profiles,
            meter=meter,
            recorded=recorded,
            sessions=sessions,
        )
        log.info("memory of %s: %s", profile.id, choice.reason)
        return memory
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if slot not in found:
        raise UsageError(
            f"no installed package provides the memory {slot!r} (available: {', '.join([OURS, NOBODY, *sorted(found)])})",
            where="plugins.slots.memory",
            hint="Install its package, or run: homebody config set plugins.slots.memory memory-core",
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
    progress: DownloadProgress | None = None,
    present: Callable[[], Settings] | None = None,
    profiles: Profiles | None = None,
    meter: Meter = unmetered,
    recorded: Recorded | None = None,
    sessions: Transcripts | None = None,
) -> tuple[WorkspaceMemory, Selection]:
    """Make the memory of an agent and say which embedder it has and why. Opens nothing and loads nothing yet.

    ``present`` returns the current settings, so that a changed key is sent with the next call; ``profiles`` are the saved keys;
    ``meter`` wraps the embedder in a budget. ``recorded`` is that of ``NoteHistory``. ``sessions`` are the transcripts to be searched;
    without them those of the settings' storage.
    """
    around = EmbedderDependencies(
        keys=_key_ring(profile.id, present or (lambda: settings), profiles or Profiles(paths, settings.auth), env),
        clock=clock,
        random=random.random,
        cache_dir=paths.home / "models",
        tell=tell,
        progress=progress,
    )
    choice = select_embedder(profile.memory, around)
    memory = WorkspaceMemory(
        profile.workspace,
        index_file(profile, paths),
        profile.memory,
        agent=profile.id,
        clock=clock,
        embedder=None if choice.embedder is None else meter(choice.embedder),
        batch=choice.batch,
        sessions=sessions or sessions_to_read(paths, settings.storage, clock)(profile.id).transcripts.searched(),
        own_session=is_searched,
        zone=owner_zone(profile),
        tell=tell,
        template=template_lines(),
        journal=(*PROMPT_FILES, HEARTBEAT, RITUAL),
        shared=profile.settings.shared_paths,
        recorded=recorded,
        engine=_engine(profile, settings),
    )
    return memory, choice


def _engine(profile: AgentProfile, settings: Settings) -> IndexEngine | None:
    if profile.memory.store.driver != "postgres":
        return None
    from gateway.storage.index_connections import index_in_postgres

    return index_in_postgres(profile, settings.storage)


def is_searched(session: str, readers: str) -> bool:
    """Return whether a transcript is the owner's, by the key of its session; for an isolated one it must say so itself."""
    return is_owners(session) and (readers == OWNER.kind or not is_isolated(session))


@cache
def template_lines() -> frozenset[str]:
    """Return the lines of the memory templates, stripped."""
    folder = workspace_templates()
    files = [folder / "MEMORY.md", *(folder / "memory").iterdir()]
    return frozenset(line.strip() for file in files for line in file.read_text("utf-8").splitlines() if line.strip())


def embedder_key(profile: AgentProfile, settings: Settings, paths: Paths, env: Mapping[str, str]) -> object:
    """Return what identifies an agent's embedder, for comparison: provider, model, address and where its key is stored.

    The key itself is not part of it: it is looked up for each call.
    """
    keys = _key_ring(profile.id, lambda: settings, Profiles(paths, settings.auth), env)
    choice = select_embedder(
        profile.memory, EmbedderDependencies(keys=keys, clock=SystemClock(), random=float, cache_dir=paths.home, tell=_unheard)
    )
    places = {name: (access.base_url, access.headers) for name in EMBEDDING_PROVIDERS for access in [keys.providers(name)]}
    return choice.reason, None if choice.embedder is None else choice.embedder.fingerprint, places


def _key_ring(agent: str, present: Callable[[], Settings], profiles: Profiles, env: Mapping[str, str]) -> KeyRing:
    def access(name: str) -> ProviderAccess:
        provider = present().models.providers.get(name)
        if provider is None:
            return ProviderAccess()
        key = next((SecretStr(secret) for _, secret in provider.keys), None)
        return ProviderAccess(api_key=key, base_url=provider.base_url, headers=_plain(provider.headers))

    return KeyRing(profile=profiles.for_embeddings(agent), providers=access, environ=env)


def _unheard(_: str) -> None:
    """Discard a notice: here an embedder is only described, not used."""


def _plain(headers: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in headers.items()}
