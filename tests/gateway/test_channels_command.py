"""``homebody channels status``, as a program, against the peers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import gateway
from tests import programs
from tests.peers import discord, slack, telegram

ROOT = Path(gateway.__file__).parents[1]


async def status(home: Path, settings: dict[str, Any], *options: str) -> tuple[int, str]:
    (home / "homebody.json").write_text(json.dumps({"channels": settings}))
    env = {"PATH": os.environ["PATH"], "HOME": f"{home}-person", "HOMEBODY_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-m", "gateway", "channels", "status", *options]
    ran = await asyncio.to_thread(programs.run, command, env=env, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


async def test_nothing_set_up_says_how_to_begin(tmp_path: Path) -> None:
    code, told = await status(tmp_path, {})
    assert (code, "homebody setup telegram" in told) == (0, True)
    assert "config set" not in told, "a token in the history of the shell, no owner, and no test"


async def test_a_probe_asks_each_platform(tmp_path: Path) -> None:
    async with discord.DiscordPeer() as d, slack.SlackPeer() as s, telegram.TelegramPeer() as t:
        given = {
            "telegram": {"botToken": t.token, "apiRoot": t.root},
            "discord": {"token": d.token, "apiRoot": d.root, "guilds": {"800000000000000007": {}}},
            "slack": {"botToken": s.bot_token, "appToken": s.app_token, "apiRoot": s.root, "dm": {"policy": "disabled"}},
        }
        code, told = await status(tmp_path, given, "--probe", "--json")
    facts = json.loads(told)
    assert (code, facts["running"]) == (0, False)
    assert {name: one["probe"]["ok"] for name, one in facts["channels"].items()} == {
        "telegram:default": True,
        "discord:default": True,
        "slack:default": True,
    }
    assert facts["channels"]["discord:default"]["groups"] == 1
    assert facts["channels"]["slack:default"]["dmPolicy"] == "disabled"


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_refused_token_is_told_with_what_mends_it(tmp_path: Path, *, as_json: bool) -> None:
    async with discord.DiscordPeer() as peer:
        given = {"discord": {"token": "wrong", "apiRoot": peer.root}}
        code, told = await status(tmp_path, given, "--probe", *(["--json"] if as_json else []))
    assert code == 1
    assert "not accepted" in told
    assert "discord.com/developers" in told
    assert "wrong" not in told


async def test_a_policy_that_lets_nobody_in_is_told(tmp_path: Path) -> None:
    code, told = await status(tmp_path, {"telegram": {"botToken": "1:a", "dmPolicy": "open"}})
    assert code == 0
    assert 'needs "*" in allowFrom' in told


async def test_what_the_settings_choose_for_groups_is_shown(tmp_path: Path) -> None:
    group = {"model": "x/y", "language": "German", "welcome": False, "tools": {"deny": ["exec"]}}
    given = {"telegram": {"botToken": telegram.TOKEN, "groups": {"-5": group, "-6": {"welcome": "Hi"}, "-7": {}}}}
    _, told = await status(tmp_path, given)
    assert [line.strip() for line in told.splitlines() if "group -" in line] == [
        "group -5: model x/y, language German, fewer tools, no welcome",
        "group -6: a welcome of its own",
    ]
