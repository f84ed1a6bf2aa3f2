"""A channel that was off comes back when its owner says so: over the gateway's socket, by the command line, with the real bot."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gateway
from gateway.base.errors import HomebodyError, UsageError
from tests import programs
from tests.gateway.test_telegram_house import ANNA, TOKEN, Home
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.app.gateway import Gateway

ROOT = Path(gateway.__file__).parents[1]
NAME = "telegram:default"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer() as peer:
        yield Home(tmp_path, peer)


async def until_state(house: Gateway, wanted: str) -> None:
    while NAME not in house.channel_supervisor or house.channel_supervisor[NAME].facts()["state"] != wanted:  # noqa: ASYNC110  (nobody announces it)
        await asyncio.sleep(0.02)


async def run(home: Home, *words: str) -> tuple[int, str]:
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home.root),
        "HOMEBODY_HOME": str(home.root / "home"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-W", "ignore", "-m", "gateway", "channels", *words]
    ran = await asyncio.to_thread(programs.run, command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return ran.returncode, ran.stdout


async def test_a_token_that_is_valid_again_is_used_when_the_owner_says_so(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    home.peer.token = "1000:BBTheTokenIsNotValidForAWhile00000000"
    async with home.lived_in() as house:
        await until_state(house, "broken")
        facts = house.channel_supervisor[NAME].facts()
        assert facts["mend"].endswith(f"or immediately with: homebody channels restart {NAME}")
        home.peer.token = TOKEN
        await home.peer.say(ANNA, "are you there?")
        code, told = await run(home, "restart", "telegram")
        assert (code, told.strip()) == (0, f"{NAME} is reconnecting. See its state with: homebody channels status")
        assert await home.says(1) == ["re: are you there?"]
        assert house.channel_supervisor[NAME].facts()["state"] == "connected"
    assert f"{NAME} is connected as @homebody_test_bot" in caplog.messages


async def test_a_running_channel_begins_anew_and_loses_nothing(home: Home) -> None:
    async with home.lived_in() as house:
        await home.peer.say(ANNA, "one")
        assert await home.says(1) == ["re: one"]
        code, _ = await run(home, "restart", NAME)
        assert code == 0
        await home.peer.say(ANNA, "two")
        assert await home.says(2) == ["re: one", "re: two"]
        assert not house.channel_supervisor[NAME].broken


async def test_a_channel_that_is_not_there_is_told_with_those_that_are(home: Home) -> None:
    async with home.lived_in() as house:
        await until_state(house, "connected")
        code, told = await run(home, "restart", "slack")
    assert code == UsageError.exit_code
    assert f"no channel 'slack' is configured There is: {NAME}." in " ".join(told.split())
    code, told = await run(home, "restart", "telegram")
    assert code == HomebodyError.exit_code
    assert "no gateway is running" in told


async def test_who_asks_to_be_let_in_is_in_the_log_with_the_command(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with home.lived_in():
        await home.peer.say(666, "let me in", name="Ida")
        [told] = await home.says(1, chat=666)
    (line,) = [one for one in caplog.messages if "pairing request" in one]
    assert line.startswith(f"pairing request on {NAME} (sender 666): homebody pairing approve telegram ")
    assert line.rpartition(" ")[2] in told
