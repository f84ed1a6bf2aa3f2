"""Saved keys in ``auth-profiles.json``: one file for all agents, and one for each agent with keys of its own.

An agent's own keys come first. A changed file is read again, so that a key added on the command line is used immediately by a
running gateway.
"""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from agent.models.catalog.provider_keys import Key, KeySource
from gateway.base.atomic_file import stamp_of, write_atomically
from gateway.base.errors import StorageFailed
from gateway.base.paths import Paths
from gateway.settings.auth_settings import AuthSettings, Mode

log = logging.getLogger(__name__)

FILE_NAME = "auth-profiles.json"
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class Profile:
    """One key with its name. ``secret`` is excluded from its repr."""

    id: str
    provider: str
    mode: Mode
    secret: str = field(repr=False)


class ProfileFile:
    """One file of keys with mode 0600. ``learn`` is called with each secret before it is returned."""

    def __init__(self, path: Path, learn: Callable[[Iterable[str]], None] = lambda _: None) -> None:
        self.path = path
        self._learn = learn
        self._read: dict[str, Profile] = {}
        self._stamp: tuple[int, int, int] | None = None

    def profiles(self) -> Mapping[str, Profile]:
        """Return the keys by id, in the order in which they were added. An unreadable file is logged and counts as empty."""
        stamp = stamp_of(self.path)
        if stamp != self._stamp:
            self._stamp, self._read = stamp, self._load() if stamp else {}
            self._learn(one.secret for one in self._read.values())
        return self._read

    def put(self, profile: Profile) -> None:
        """Add a key or replace the one of that id. Raises StorageFailed."""
        self._write({**self._strictly(), profile.id: profile})

    def remove(self, profile_id: str) -> bool:
        """Delete a key; return whether it existed. Raises StorageFailed."""
        kept = dict(self._strictly())
        found = kept.pop(profile_id, None) is not None
        if found:
            self._write(kept)
        return found

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what changes when the file does; None where there is none."""
        return stamp_of(self.path)

    def _load(self) -> dict[str, Profile]:
        try:
            if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
                log.warning("%s was readable by other users; its mode was changed to 0600", self.path)
                self.path.chmod(_PRIVATE)
            return dict(_parsed(json.loads(self.path.read_text("utf-8"))))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("%s cannot be read (%s): its keys are not used", self.path, type(error).__name__)
            return {}

    def _strictly(self) -> dict[str, Profile]:
        """The keys in the file before a change. Raises StorageFailed if the file is unreadable, because writing would lose its keys."""
        if self.stamp() is None:
            return {}
        try:
            return dict(_parsed(json.loads(self.path.read_text("utf-8"))))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise StorageFailed(
                "this file of keys cannot be read",
                where=str(self.path),
                hint=f"Repair it, or move it away and add the keys again: mv {self.path} {self.path}.broken",
            ) from error

    def _write(self, profiles: Mapping[str, Profile]) -> None:
        listed = {one.id: {"type": one.mode, "provider": one.provider, "key": one.secret} for one in profiles.values()}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self.path, json.dumps({"version": 1, "profiles": listed}, indent=2), durable=True)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the keys", self.path) from error


def _parsed(raw: Any) -> Iterator[tuple[str, Profile]]:
    for name, one in raw["profiles"].items():
        mode = one.get("type", "api_key")
        secret = str(one.get("key") or one.get("token") or "").strip()
        if mode not in get_args(Mode) or not secret:
            log.warning("the key %s is ignored: its type is neither api_key nor token", name)
            continue
        yield str(name), Profile(str(name), same_provider(str(one["provider"])), mode, secret)


def same_provider(name: str) -> str:
    """Return the id of a provider that people call differently."""
    from agent.models.catalog.known_models import SAME_PROVIDER

    return SAME_PROVIDER.get(name.lower(), name)


class Profiles:
    """All saved keys by agent and provider, in the order given by the settings.

    ``learn`` is called with each secret before it is returned, so that the logs redact it.
    """

    def __init__(
        self, paths: Paths, settings: AuthSettings, *, learn: Callable[[Iterable[str]], None] = lambda _: None
    ) -> None:
        self._paths = paths
        self._learn = learn
        self.settings = settings
        self._files: dict[str | None, ProfileFile] = {}

    def file(self, agent: str | None = None) -> ProfileFile:
        """Return the key file of an agent, or the one for all agents."""
        if (found := self._files.get(agent or None)) is None:
            path = (self._paths.agent(agent) if agent else self._paths.home) / FILE_NAME
            found = self._files[agent or None] = ProfileFile(path, self._learn)
        return found

    def key_source(self, agent: str) -> KeySource:
        """Return what answers with an agent's keys for a provider."""
        return lambda provider: self.keys(agent, provider)

    def keys(self, agent: str, provider: str) -> list[Key]:
        """Return an agent's keys for a provider."""
        return [Key(f"profile {one.id}", "profile", one.secret) for one in self._of(agent, provider)]

    def for_embeddings(self, agent: str) -> Callable[[str], str | None]:
        """Return what answers with a key that also opens a provider's embeddings: a sign-in for chat does not."""
        return lambda provider: next((one.secret for one in self._of(agent, provider) if one.mode == "api_key"), None)

    def ordered(self, provider: str) -> bool:
        """Whether the settings give an order for the keys of a provider."""
        return bool(self.settings.order.get(provider))

    def stamp(self, agent: str) -> object:
        """Return what changes when the keys of an agent do."""
        return self.file(agent).stamp(), self.file().stamp()

    def secrets(self, agents: Sequence[str]) -> list[str]:
        """Return every secret in the files, so that none is shown anywhere."""
        files = [self.file(), *(self.file(agent) for agent in agents)]
        return [one.secret for file in files for one in file.profiles().values()]

    def _of(self, agent: str, provider: str) -> list[Profile]:
        known = {**self.file().profiles(), **self.file(agent).profiles()}
        ids = dict.fromkeys((*self.file(agent).profiles(), *(i for i in self.settings.profiles if i in known), *known))
        wanted = self.settings.order.get(provider)
        chosen = [known[one] for one in (wanted or ids) if one in known]
        return [self._as_noted(one) for one in chosen if one.provider == provider]

    def _as_noted(self, profile: Profile) -> Profile:
        """The settings may say that a key covers chat only; they cannot widen what the file says."""
        noted = self.settings.profiles.get(profile.id)
        narrower = noted is not None and noted.mode == "token"
        return Profile(profile.id, profile.provider, "token", profile.secret) if narrower else profile
