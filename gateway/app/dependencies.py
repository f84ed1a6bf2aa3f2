"""What a gateway is built from: settings, paths, clock, randomness, logs, and whether it connects chat platforms."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace
from pydantic import BaseModel

from agent.tools.web.fetch_protocol import Fetcher
from gateway.api.unix_socket import SOCKET
from gateway.base.api_token import FILE_NAME
from gateway.base.clock import SystemClock
from gateway.base.errors import StorageAway
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, boot_id
from gateway.config.secrets import passwords_in, secrets_of
from gateway.logs.log_setup import Closer
from gateway.logs.redaction import secrets_in
from gateway.logs.secret_filter import SecretFilter, telling_apart
from gateway.models.key_profiles import Profiles
from gateway.net.fetcher import GuardedFetcher
from gateway.settings.root import Settings
from gateway.telemetry.recorder import Telemetry

Opened = TypeVar("Opened")


@dataclass(kw_only=True)
class Dependencies:
    """What a gateway is built from. ``serving``: chat platforms are connected; a conversation in the terminal does without.

    ``shared``: without platforms too, other terminals and commands may connect.
    ``settings`` are those of the start. ``notices``: warnings from loading them. ``logs``: the logging of this process, if it logs.
    """

    settings: Settings
    paths: Paths
    env: Mapping[str, str]
    clock: SystemClock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.SystemRandom)
    serving: bool = False
    shared: bool = False
    command: str = ""
    """The single command that it is opened for."""
    restart_on_stall: bool = False
    logs: Closer | None = None
    notices: tuple[str, ...] = ()
    storage_away: Callable[[StorageAway], Awaitable[None]] | None = None
    """Called while the database does not answer at the start, before each further try. What it raises ends the start."""
    outgoing: SecretFilter = field(default_factory=SecretFilter)
    """Secrets that no outgoing message may contain."""
    fetcher: Fetcher = field(default_factory=GuardedFetcher)
    """Requests web addresses that a model or a stranger chose. Nothing else in the program does."""

    telemetry: Telemetry = field(default_factory=Telemetry)
    """What is counted and timed."""

    @property
    def socket(self) -> Path | None:
        """Where terminals connect; None while the gateway is open for a single command."""
        return self.paths.local / SOCKET if self.serving or self.shared else None

    async def once_storage_answers(
        self, opened: Callable[[], Awaitable[Opened]], holds: Callable[[Holder], None] = lambda _: None
    ) -> Opened:
        """Return what ``opened`` returns. A database that does not answer is waited for where the gateway serves: it may start later.

        ``holds`` gets what other processes are to know of this one meanwhile, and afterwards.
        """
        holder, waited = self.holder(), False
        while True:
            try:
                found = await opened()
            except StorageAway as error:
                if self.storage_away is None:
                    raise
                waited = True
                holds(replace(holder, waits=str(error), mend=error.hint))
                await self.storage_away(error)
            else:
                if waited:
                    holds(holder)
                return found

    def learn(self, secrets: Iterable[str]) -> None:
        """Redact these secrets in logs and replies from now on. Call it before they are used."""
        secrets = list(secrets)
        self.outgoing.learn(telling_apart(secrets))
        if self.logs is not None:
            self.logs.learn(secrets)

    def learn_all(self, settings: Settings) -> None:
        """The same for all secrets in ``settings`` and the files they name. Reads files: call it in a thread."""
        self.learn(known_secrets(settings, self.paths, self.env))

    def holder(self) -> Holder:
        """Describe this process in the lock file, for other processes."""
        started = self.clock.now().isoformat(timespec="seconds")
        return Holder(
            pid=os.getpid(),
            boot=boot_id(),
            started=started,
            socket=str(self.socket or ""),
            command=self.command,
            conversation=not self.serving and not self.command,
        )


_AT_MOST = 65_536
_SUFFIX = "_file"


def known_secrets(settings: Settings, paths: Paths, env: Mapping[str, str]) -> list[str]:
    """Return them all. Unreadable files are skipped; whoever needs them reports the error.

    The address of the database is one only where it holds a password: notices name the database by it.
    """
    files = [paths.state / FILE_NAME, *_files_of(settings.channels)]
    database = settings.storage.url.get_secret_value() if settings.storage.url else ""
    found = [
        *secrets_of(settings),
        *passwords_in(settings.model_dump_json(exclude_unset=True)),
        *passwords_in(database),
        *secrets_in(env),
        *Profiles(paths, settings.auth).secrets(settings.agent_ids),
        *(secret for file in files if (secret := _content(file))),
    ]
    open_address = not any(passwords_in(database)) and "password" not in database.lower()
    return [one for one in found if not (open_address and one == database)]


def _files_of(value: Any) -> Iterator[Path]:
    """Yield the files that a section names under keys such as ``tokenFile``, wherever they stand."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            found = getattr(value, name)
            if name.endswith(_SUFFIX) and isinstance(found, Path):
                yield found.expanduser()
            else:
                yield from _files_of(found)
    elif isinstance(value, Mapping):
        for child in value.values():
            yield from _files_of(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _files_of(child)


def _content(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_AT_MOST).decode("utf-8", "replace").strip()
    except OSError:
        return ""
