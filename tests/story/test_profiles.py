"""Two houses of one person, both at work at once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from gateway.base.state_lock import describe
from tests import programs
from tests.patience import PATIENCE
from tests.peers.telegram import TelegramPeer


def start(*arguments: str) -> programs.Program:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "HOMEBODY_HOME")}
    return programs.start(
        [sys.executable, "-m", "gateway", *arguments],
        env=kept | {"HOMEBODY_GATEWAY_PORT": "0", "PYTHONPATH": str(Path.cwd())},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def settle(profile: str, settings: object) -> None:
    home = Path(f"{os.environ['HOMEBODY_HOME']}-{profile}")
    home.mkdir(mode=0o700)
    (home / "homebody.json").touch(mode=0o600)
    (home / "homebody.json").write_text(json.dumps(settings))


async def homebody(*arguments: str) -> str:
    out, _ = await asyncio.to_thread(start(*arguments).communicate)
    return str(out)


async def test_two_profiles_run_at_once_and_each_is_reached_by_its_name() -> None:
    names = ("one", "two")
    gateways = {name: start("--profile", name, "gateway") for name in names}
    locks = {name: Path(f"{os.environ['HOMEBODY_HOME']}-{name}") / "state" / "gateway.lock" for name in names}
    try:
        async with asyncio.timeout(PATIENCE):
            while not all((held := describe(lock)) and held.http_port for lock in locks.values()):
                assert all(process.poll() is None for process in gateways.values())
                await asyncio.sleep(0.02)
        found = {name: json.loads(await homebody("--profile", name, "status", "--json")) for name in names}
        assert {name: facts["pid"] for name, facts in found.items()} == {name: gateways[name].pid for name in names}
        assert len({facts["httpPort"] for facts in found.values()}) == 2
        assert {Path(facts["agents"]["main"]["workspace"]).name for facts in found.values()} == {"homebody-one", "homebody-two"}
        await homebody("--profile", "one", "agent", "-m", "Remember that the boat is blue.")
        assert (await homebody("--profile", "one", "sessions", "list")).startswith("agent:main:main")
        assert (await homebody("--profile", "two", "sessions", "list")).startswith("No sessions yet")
        assert "No gateway is running" in await homebody("status")
    finally:
        for process in gateways.values():
            process.terminate()
        await asyncio.gather(*(asyncio.to_thread(process.communicate) for process in gateways.values()))
    assert [process.returncode for process in gateways.values()] == [0, 0]


async def test_a_stranger_to_the_bot_of_a_profile_gets_the_command_that_lets_them_in_there() -> None:
    async with TelegramPeer() as peer:
        settle("one", {"channels": {"telegram": {"botToken": peer.token, "apiRoot": peer.root, "pollTimeoutSeconds": 1}}})
        gateway = start("--profile", "one", "gateway")
        try:
            await peer.say(42, "hello")
            await peer.until(lambda: len(peer.chats.said(42)) >= 1)
            command = peer.chats.said(42)[0].rpartition("\n")[2].strip("`")
            assert command.startswith("homebody --profile one pairing approve telegram ")
            assert "was approved as the owner" in await homebody(*command.split()[1:])
        finally:
            gateway.terminate()
            await asyncio.to_thread(gateway.communicate)
