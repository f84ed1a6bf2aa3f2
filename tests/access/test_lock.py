"""One process owns the state."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import gateway
from channels.errors import AgentAway
from gateway.api.api_client import ask
from gateway.app.dependencies import Dependencies
from gateway.base.errors import STATE_HELD, AlreadyRunning, GatewayNotResponding, StorageAway, StorageFailed
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, StateLock, boot_id, describe
from gateway.cli.gateway_calls import once_it_listens
from gateway.settings.root import Settings

ROOT = Path(gateway.__file__).parents[1]
HOLD = """
import sys, time
from pathlib import Path
from gateway.base.state_lock import Holder, StateLock
lock = StateLock.acquire(Path(sys.argv[1]), Holder(pid=4711, started="2026-03-01T12:00:00+00:00", socket="/x/gateway.sock"))
print("held", flush=True)
time.sleep(60)
"""


def start(path: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True, env=env)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def end(holder: subprocess.Popen[str], how: int) -> None:
    holder.send_signal(how)
    holder.wait()
    assert holder.stdout is not None
    holder.stdout.close()


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "gateway.lock"
    holder = start(path)
    try:
        with pytest.raises(AlreadyRunning, match=r"process \(4711") as caught:
            StateLock.acquire(path)
        assert caught.value.exit_code == STATE_HELD == 5
        assert caught.value.hint
        found = describe(path)
        assert found is not None
        assert (found.pid, found.socket) == (4711, "/x/gateway.sock")
    finally:
        end(holder, signal.SIGTERM)


def test_a_killed_holder_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "gateway.lock"
    end(start(path), signal.SIGKILL)
    assert describe(path) is None
    StateLock.acquire(path).release()


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = StateLock.acquire(tmp_path / "gateway.lock")
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    lock.release()
    try:
        assert describe(tmp_path / "gateway.lock") is None
    finally:
        child.communicate(b"")


def test_what_the_holder_says_can_be_renewed(tmp_path: Path) -> None:
    path = tmp_path / "gateway.lock"
    lock = StateLock.acquire(path, Holder(pid=1, socket="/a/long/path/to/a/socket"))
    lock.write(Holder(pid=2, http_port=18790))
    assert describe(path) == Holder(pid=2, http_port=18790)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lock.release()
    lock.release()
    assert describe(path) is None


@pytest.mark.parametrize(
    ("content", "read"),
    [("", Holder()), ("not json", Holder()), ("[]", Holder()), ('{"pid": 1, "later": 2}', Holder(pid=1))],
)
def test_a_description_that_cannot_be_read_still_says_that_it_is_held(tmp_path: Path, content: str, read: Holder) -> None:
    """Fields of a later version are passed over."""
    path = tmp_path / "gateway.lock"
    lock = StateLock.acquire(path)
    path.write_text(content)
    assert describe(path) == read
    lock.release()


def test_looking_never_keeps_anybody_from_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "gateway.lock"
    StateLock.acquire(path).release()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            describe(path)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(30):
            StateLock.acquire(path).release()
    finally:
        over.set()
        watcher.join()


def test_there_is_no_holder_where_there_is_no_lock(tmp_path: Path) -> None:
    assert describe(tmp_path / "gateway.lock") is None


@pytest.mark.parametrize("bad", ["folder", "link"])
def test_a_place_that_cannot_be_locked_is_a_clear_error(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "gateway.lock"
    made: Any = path.mkdir() if bad == "folder" else path.symlink_to(tmp_path / "elsewhere")
    assert made is None
    with pytest.raises(StorageFailed, match="state lock"):
        StateLock.acquire(path)


def test_the_boot_is_named_or_not_known() -> None:
    assert boot_id() == boot_id()


async def test_waiting_for_a_gateway_ends_when_it_lets_go_or_takes_too_long(tmp_path: Path) -> None:
    path = tmp_path / "state" / "gateway.lock"
    tries: list[int] = []
    told: list[str] = []

    async def in_vain() -> None:
        tries.append(1)
        if len(tries) == 3:
            lock.release()
        raise GatewayNotResponding("nobody")

    async def unreached() -> None:
        raise AgentAway("the agent bob is with another gateway: cellar cannot be reached", held=True)

    lock = StateLock.acquire(path, Holder(pid=4711, socket="/x"))
    with pytest.raises(GatewayNotResponding):
        await once_it_listens(path, in_vain, tell=told.append)
    assert (len(tries), told) == (3, []), "the state is free: there is nobody to wait for"
    lock = StateLock.acquire(path, Holder(pid=4711, socket="/x"))
    with pytest.raises(GatewayNotResponding):
        await once_it_listens(path, in_vain, longest=0, tell=told.append)
    assert len(tries) == 4
    with pytest.raises(AgentAway):
        await once_it_listens(path, unreached, longest=0.2, tell=told.append)
    assert told == [], "the gateway here runs: nobody is waited for"
    lock.release()


async def test_a_gateway_that_waits_for_its_database_says_so_to_commands(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "home")
    paths.prepare()
    lock = StateLock.acquire(paths.lock, Holder(pid=4711, socket="/x"))
    tries: list[str] = []
    told: list[str] = []

    async def opened() -> str:
        if len(tries) == 2:
            return "opened"
        raise StorageAway("connection refused", where="postgresql://db/house", hint="Start PostgreSQL.")

    async def meanwhile(_error: StorageAway) -> None:
        with pytest.raises(GatewayNotResponding) as caught:
            await ask(paths.local, "status")
        tries.append(caught.value.message)
        assert caught.value.hint == "Start PostgreSQL."
        if len(tries) == 2:
            with pytest.raises(GatewayNotResponding):
                await once_it_listens(paths.lock, partial(ask, paths.local, "status"), longest=2.5, tell=told.append)

    deps = Dependencies(settings=Settings(), paths=paths, env={}, serving=True, storage_away=meanwhile)
    assert await deps.once_storage_answers(opened, lock.write) == "opened"
    assert tries == ["the gateway waits for its database: postgresql://db/house: connection refused"] * 2
    assert told
    assert "waits for its database: postgresql://db/house" in told[0]
    with pytest.raises(GatewayNotResponding, match="does not answer"):
        await ask(paths.local, "status")
    lock.release()
