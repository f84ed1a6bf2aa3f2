"""What a gateway is built from: settings, paths, clock, randomness, logs, and whether it connects chat platforms."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.api.unix_socket import SOCKET
from gateway.app.known_secrets import known_secrets
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, boot_id
from gateway.logs.redaction import Redactor
from gateway.logs.wiring import Closer
from gateway.outbound.secret_filter import telling_apart
from gateway.settings.root import Settings


@dataclass(kw_only=True)
class Dependencies:
    """What a gateway is built from. ``serving``: chat platforms are connected; a conversation in the terminal does without.

    ``settings`` are those of the start. ``notices``: warnings from loading them. ``logs``: the logging of this process, if it logs.
    """

    settings: Settings
    paths: Paths
    env: Mapping[str, str]
    clock: SystemClock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.SystemRandom)
    serving: bool = False
    restart_on_stall: bool = False
    logs: Closer | None = None
    notices: tuple[str, ...] = ()
    outgoing: Redactor = field(default_factory=Redactor)
    """Secrets that no outgoing message may contain."""

    @property
    def socket(self) -> Path | None:
        """Where terminals connect; None while the gateway is open for a single conversation."""
        return self.paths.state / SOCKET if self.serving else None

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
        return Holder(pid=os.getpid(), boot=boot_id(), started=started, socket=str(self.socket or ""))
