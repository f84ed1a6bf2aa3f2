"""Backups of a house that answers, runs jobs and sends mail, and is killed at durable steps: each passes a drill, and lacks nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.backup.age_encryption import Keys, key_file
from gateway.base.errors import HomebodyError
from gateway.base.paths import Paths
from gateway.cli.backup_work import drilled, make
from gateway.cli.invocation import Invocation
from gateway.mail.send_records import OUTGOING, SendRecord, SendRecords
from tests.fire.loop import Fire
from tests.fire.scenarios import SCENARIOS
from tests.fire.world import Kill, Nursery, missing_tools
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fire.world import World

log = logging.getLogger(__name__)
pytestmark = pytest.mark.skipif("Linux with pidfd" in missing_tools(), reason="there are no kills without Linux")
PLACES = (
    "before-accept:2",
    "after-step:1",
    "after-claim:2",
    "before-transcript:4",
    "after-transcript:7",
    "before-sessions:2",
    "after-sessions:2",
    "before-end_call:1",
    "before-finish:1",
    "after-finish:2",
    "after-sending:1",
    "before-sent:2",
)


TRIED = int(os.environ.get("HOMEBODY_FIRE_BACKUPS", "3"))
"""How many of the places are tried, drawn by the day; 12 tries them all."""


class Backups:
    """Makes backups of a house as long as it lives, and mail beside it; tries each one out when the house is dead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.root: Path | None = None
        self.made: list[Path] = []
        self.counts: Counter[str] = Counter()
        self.drills = 0

    def begin(self, root: Path) -> None:
        self.root = root
        self.made.clear()
        self._monkeypatch.setenv("HOME", str(root / "person"))
        self._over.clear()
        self._threads = [threading.Thread(target=self._back_up), threading.Thread(target=self._send_mail)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def invocation(self) -> Invocation:
        assert self.root is not None
        return Invocation(home=self.root / "state")

    def _back_up(self) -> None:
        while not self._over.is_set():
            try:
                self.made.append(self._make())
            except HomebodyError:  # the house was killed while it was asked, or has just taken the lock
                time.sleep(0.05)

    def _make(self) -> Path:
        return make(self.invocation, target=None, no_secrets=False, recipients=(), passphrase="", progress=lambda *_: None)[
            0
        ].path

    def _send_mail(self) -> None:
        assert self.root is not None
        records = SendRecords(self.root / "state/state" / OUTGOING)
        number = 0
        while not self._over.is_set():
            number += 1
            record = SendRecord(
                key=f"{number:032x}",
                account="a",
                state="prepared",
                message_id=f"<{number}@x>",
                sender="a@x",
                recipients=("b@x",),
                summary="s",
                details="d",
                made=datetime.now(UTC).isoformat(),
                wish="w",
            )
            records.prepare(record, b"Subject: s\r\n\r\nbody")
            for state in ("doubt", "accepted", "filed"):
                record = records.advance(record, state)
            time.sleep(0.02)

    def try_out(self, root: Path) -> None:
        """Do it in a thread, as a command would in a process: the event loop of the peers runs in this one."""
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self._try_out, root).result()

    def _try_out(self, root: Path) -> None:
        """Make another backup of the dead house; then drill the first one and the last two."""
        self.end()
        self.made.append(self._make())
        keys = Keys(files=(key_file(Paths(root / "state")),))
        for path in (self.made[0], *self.made[-2:]):
            report = drilled(self.invocation, path, scratch=root, keys=keys, progress=lambda *_: None)
            assert report.differences == [], f"{root}: {report.differences}"
            assert report.compared_with_home
            self.counts.update(report.counts)
            self.drills += 1
        self.made.clear()


@parametrize_some(1, "name", ["by itself", "steered"])
async def test_a_backup_of_a_house_that_is_killed_lacks_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backups = Backups(monkeypatch)
    scenario = SCENARIOS[name]
    prepared = scenario.prepare

    async def prepare(root: Path) -> None:
        if prepared is not None:
            await prepared(root)
        backups.begin(root)

    async def call(world: World) -> None:
        try:
            await (scenario.caller(world) if scenario.caller is not None else asyncio.sleep(0))
            await asyncio.Event().wait()
        finally:  # the world is over
            backups.end()

    tried = 0
    async with Nursery.opened() as nursery:
        fire = Fire(tmp_path, nursery)
        await fire.grow([scenario])
        for place in random.Random(f"{datetime.now(UTC):%j} {name}").sample(PLACES, min(TRIED, len(PLACES))):
            before = backups.drills
            try:
                hit = await fire.run(
                    replace(scenario, prepare=prepare, caller=call), (Kill.parse(place),), between=backups.try_out
                )
            finally:
                backups.end()
            assert hit == (backups.drills > before)
            tried += hit
        assert fire.failures == [], "backups disturb nothing"
    log.info("%d drills after %d kills: %s", backups.drills, tried, dict(backups.counts))
