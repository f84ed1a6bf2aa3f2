"""The gateway as its owner runs it: its own process, spoken to over Telegram, its socket, HTTP and the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from gateway.base.state_lock import Holder, describe
from tests import programs
from tests.patience import PATIENCE
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OWNER = 4711


class Machine:
    """A person's machine: a home folder, settings, and the commands run on it."""

    def __init__(self, root: Path, telegram: TelegramPeer) -> None:
        self.home = root / "state"
        self.home.mkdir(mode=0o700)
        self.person = root / "person"
        self.person.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.person), "HOMEBODY_HOME": str(self.home)}
        settings = {
            "channels": {"telegram": {"botToken": TOKEN, "apiRoot": telegram.root, "pollTimeoutSeconds": 2, "pacing": False}},
            "gateway": {"port": 0},
        }
        (self.home / "homebody.json").write_text(json.dumps(settings))

    def start(self, *arguments: str) -> programs.Program:
        command = [sys.executable, "-m", "gateway", *arguments]
        return programs.start(
            command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = await asyncio.to_thread(process.communicate)
        return process.wait(), out, err

    @contextlib.asynccontextmanager
    async def gateway(self) -> AsyncIterator[programs.Program]:
        process = self.start("gateway")
        try:
            async with asyncio.timeout(PATIENCE):
                lock = self.home / "state" / "gateway.lock"
                while not (holder := describe(lock)) or not holder.http_port or holder.pid != process.pid:
                    assert process.poll() is None, process.communicate()[1]
                    await asyncio.sleep(0.02)
            self.port = holder.http_port
            yield process
        finally:
            process.terminate()
            await asyncio.to_thread(process.communicate)


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as peer:
        yield peer


@pytest.fixture
def machine(tmp_path: Path, telegram: TelegramPeer) -> Machine:
    return Machine(tmp_path, telegram)


def said(telegram: TelegramPeer) -> list[str]:
    return [text for who, text in telegram.transcript(OWNER) if who == "bot"]


async def test_pairing_on_the_command_line_lets_the_owner_in(machine: Machine, telegram: TelegramPeer) -> None:
    async with machine.gateway() as process:
        await telegram.say(OWNER, "hello")
        await telegram.until(lambda: bool(said(telegram)))
        (text,) = said(telegram)
        found = re.search(r"code is (\w{8})", text)
        assert found is not None
        code, out, _ = await machine.run("pairing", "list", "--json")
        assert (code, found[1] in out) == (0, True)
        code, _, err = await machine.run("pairing", "approve", "telegram", found[1])
        assert code == 0, err
        await telegram.until(lambda: len(said(telegram)) == 2)
        await telegram.say(OWNER, "remember that the spare key is under the blue pot")
        await telegram.until(lambda: len(said(telegram)) == 3)
        assert "Noted" in said(telegram)[-1]
        code, out, _ = await machine.run("agent", "-m", "where is the spare key?", "--json")
        assert (code, "blue pot" in json.loads(out)["reply"]) == (0, True)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait) == 0


async def test_a_running_gateway_is_seen_from_outside(machine: Machine) -> None:
    async with machine.gateway():
        code, out, _ = await machine.run("status", "--json")
        facts = json.loads(out)
        assert (code, facts["running"], "telegram:default" in facts["channels"]) == (0, True, True)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{machine.port}/healthz") as answer:
                assert answer.status == 200
            async with session.get(f"http://127.0.0.1:{machine.port}/status") as answer:
                assert answer.status == 401
            token = (machine.home / "state" / "gateway.token").read_text().strip()
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"http://127.0.0.1:{machine.port}/status", headers=headers) as answer:
                assert (await answer.json())["agents"]["main"]["name"] == "main"
            async with session.post(f"http://127.0.0.1:{machine.port}/hooks/telegram/default", data=b"{}") as answer:
                assert answer.status == 404, "a channel that polls is not called"
        code, out, _ = await machine.run("channels", "status", "--probe", "--json")
        telegram = json.loads(out)["channels"]["telegram:default"]
        assert (code, telegram["state"], telegram["probe"]["ok"]) == (0, "connected", True)
        assert telegram["heard"], "when the platform was last heard from"
        code, _, err = await machine.run("gateway")
        assert (code, "another Homebody process" in err) == (5, True)
    code, out, _ = await machine.run("status")
    assert (code, "No gateway is running" in out) == (1, True)


async def test_a_killed_gateway_neither_repeats_nor_forgets(machine: Machine, telegram: TelegramPeer) -> None:
    settings = json.loads((machine.home / "homebody.json").read_text())
    settings["channels"]["telegram"]["allowFrom"] = [str(OWNER)]
    (machine.home / "homebody.json").write_text(json.dumps(settings))
    async with machine.gateway() as process:
        await telegram.say(OWNER, "remember that the gate code is 4711")
        await telegram.until(lambda: bool(said(telegram)))
        async with asyncio.timeout(PATIENCE):
            while json.loads((await machine.run("status", "--json"))[1])["outbox"].get("sent") != 1:
                pass
        process.kill()
        await asyncio.to_thread(process.wait)
    async with machine.gateway():
        await telegram.say(OWNER, "what is the gate code?")
        await telegram.until(lambda: any("4711" in text and "Noted" not in text for text in said(telegram)))
    assert sum("Noted" in text for text in said(telegram)) == 1, [text[:60] for text in said(telegram)]
    notes = "".join(path.read_text() for path in (machine.person / "homebody" / "memory").glob("2*.md"))
    assert notes.count("4711") == 1


def standing(pid: int) -> None:
    """Wait until a process has stopped."""
    while "T" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]:
        time.sleep(0.001)


def not_listening(holder: Holder | None) -> bool:
    return holder is not None and not holder.http_port and not Path(holder.socket).exists()


async def stopped_before_it_listens(machine: Machine) -> programs.Program:
    """Return a gateway that has the state, does not listen, and stands still; one that was quicker than this test is begun anew."""
    lock = machine.home / "state" / "gateway.lock"
    while True:
        gateway = machine.start("gateway")
        while describe(lock) is None:
            assert gateway.poll() is None, gateway.communicate()[1]
            await asyncio.sleep(0.001)
        gateway.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(standing, gateway.pid)  # from then on what the lock says holds
        holder = describe(lock)
        if not_listening(holder):
            return gateway
        gateway.send_signal(signal.SIGCONT)
        gateway.send_signal(signal.SIGTERM)
        await asyncio.to_thread(gateway.communicate)


async def test_commands_wait_for_a_gateway_that_starts(machine: Machine) -> None:
    gateway = await stopped_before_it_listens(machine)
    try:
        waiting = [machine.start(*command) for command in (("agent", "-m", "hello"), ("status", "--json"))]
        for process in waiting:
            assert process.stderr is not None
            told: list[str] = []
            while not any("is starting; waiting up to 60 seconds" in line for line in told):
                told.append(await asyncio.to_thread(process.stderr.readline))
                assert told[-1], f"it ended without waiting: {told}"
        gateway.send_signal(signal.SIGCONT)
        (said, agent_told), (facts, status_told) = [await asyncio.to_thread(process.communicate) for process in waiting]
        assert [process.returncode for process in waiting] == [0, 0], (agent_told, status_told)
        assert said.strip()
        assert json.loads(facts)["running"] is True
    finally:
        gateway.send_signal(signal.SIGCONT)
        gateway.send_signal(signal.SIGTERM)
        await asyncio.to_thread(gateway.communicate)


async def test_being_told_again_and_again_to_end_changes_nothing(machine: Machine) -> None:
    async with machine.gateway() as process:
        while process.poll() is None:
            process.terminate()
            await asyncio.sleep(0.001)
        assert process.returncode == 0


async def test_who_asks_on_the_command_line_during_a_pause_is_told_of_it_and_answered_afterwards(machine: Machine) -> None:
    starts = machine.home / "state" / "starts.json"
    starts.parent.mkdir(mode=0o700)
    starts.write_text(json.dumps([(time.time(), False)] * 3))
    async with machine.gateway():
        process = machine.start("agent", "-m", "hello")
        assert process.stderr is not None
        while told := await asyncio.to_thread(process.stderr.readline):
            if "I am paused" in told:
                break
        assert told
        assert (await machine.run("resume"))[0] == 0
        out, _ = await asyncio.to_thread(process.communicate)
        assert (process.wait(), out.startswith("Hello.")) == (0, True), out
