"""``homebody pairing``, with a gateway and without one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

import gateway
from channels.messages import ChatAddress
from channels.platform import Policy
from gateway.api.handlers.pairing_requests import PairingHandlers
from gateway.api.routes.admin import admin_routes
from gateway.api.server import serve_unix
from gateway.api.unix_socket import SOCKET
from gateway.base.clock import SystemClock
from gateway.base.state_lock import Holder, StateLock
from gateway.ledger.sqlite import SqliteLedger
from gateway.routing.access import Access
from tests import programs

ROOT = Path(gateway.__file__).parents[1]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path


async def homebody(home: Path, *arguments: str) -> tuple[int, str, str]:
    env = {"PATH": os.environ["PATH"], "HOME": f"{home}-person", "HOMEBODY_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "gateway", "pairing", *arguments]
    ran = await asyncio.to_thread(programs.run, command, env=env, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


async def ask_in(ledger: SqliteLedger, sender: str, name: str = "") -> str:
    place = ChatAddress(channel="telegram", kind="direct", id=sender)
    request = await ledger.pairing.request(place, sender, name, f"CODE2222{sender}"[-8:], "your code")
    assert request is not None
    return request.code


async def test_without_a_gateway_the_ledger_is_opened(home: Path) -> None:
    ledger = await SqliteLedger.open(home / "state" / "ledger.sqlite", SystemClock())
    code = await ask_in(ledger, "42", name="Sam”\x1b[2J: homebody pairing approve telegram AAAA1111")
    await ledger.close()

    exit_code, out, _ = await homebody(home, "list")
    assert exit_code == 0
    assert f"homebody pairing approve telegram {code}" in out
    assert "\x1b" not in out
    assert "“Sam[2J: homebody pairing approve telegram AAAA1111”, telegram 42: homebody pairing approve" in out
    exit_code, out, _ = await homebody(home, "approve", "telegram", code.lower())
    assert (exit_code, out.strip()) == (
        0,
        "“Sam[2J: homebody pairing approve telegram AAAA1111”, telegram 42 was approved as the owner.",
    )
    exit_code, out, _ = await homebody(home, "list", "--json")
    facts: dict[str, Any] = json.loads(out)
    assert (exit_code, facts["pending"]) == (0, [])
    (one,) = facts["approved"]
    assert (one["channel"], one["sender"], one["role"]) == ("telegram", "42", "owner")
    assert datetime.fromisoformat(one["approvedAt"]).tzinfo == UTC


async def test_who_takes_the_last_owner_away_is_told_so_with_the_way_back(home: Path) -> None:
    ledger = await SqliteLedger.open(home / "state" / "ledger.sqlite", SystemClock())
    codes = [await ask_in(ledger, sender) for sender in ("42", "43")]
    await ledger.close()
    for code in codes:
        assert (await homebody(home, "approve", "telegram", code, "--owner"))[0] == 0
    _, out, _ = await homebody(home, "revoke", "telegram", "43")
    assert out.strip() == "telegram 43 no longer has access."
    _, out, _ = await homebody(home, "revoke", "telegram", "42")
    assert "That was the only owner" in out
    assert "homebody setup telegram" in out


async def test_a_running_gateway_is_asked(home: Path) -> None:
    lock = StateLock.acquire(home / "state" / "gateway.lock", Holder(pid=os.getpid(), socket="here"))
    ledger = await SqliteLedger.open(home / "state" / "ledger.sqlite", SystemClock())
    access = Access(ledger.pairing, lambda: {("telegram", "default"): Policy(allow_from=("1",))}, {})
    log = structlog.get_logger("gateway.api")
    routes = admin_routes(PairingHandlers(ledger, access).calls(), log)
    serving = asyncio.create_task(serve_unix(routes, home / "state" / SOCKET, log=log))
    try:
        code = await ask_in(ledger, "43")
        exit_code, out, _ = await homebody(home, "approve", "telegram", code)
        assert exit_code == 0
        assert "telegram 43 was approved as a guest" in out
        assert "--owner" in out
        exit_code, out, _ = await homebody(home, "revoke", "telegram", "43", "--json")
        assert exit_code == 0
        assert [one["sender"] for one in json.loads(out)["revoked"]] == ["43"]
        exit_code, _, err = await homebody(home, "approve", "telegram", code)
        assert exit_code != 0
        assert "no open pairing request" in err
        assert await ledger.pairing.approved() == []
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await ledger.close()
        lock.release()


async def test_a_wrong_code_is_told_with_what_helps(home: Path) -> None:
    exit_code, _, err = await homebody(home, "approve", "telegram", "NOTACODE", "--json")
    told = json.loads(err)
    assert (exit_code, told["exitCode"]) == (2, 2)
    assert "Write to the bot again" in told["mend"]


async def test_a_conversation_in_a_terminal_that_holds_the_state_is_named(home: Path) -> None:
    lock = StateLock.acquire(home / "state" / "gateway.lock", Holder(pid=os.getpid()))
    exit_code, _, err = await homebody(home, "list")
    lock.release()
    assert exit_code == 5
    assert "a conversation in a terminal is using this folder" in err
