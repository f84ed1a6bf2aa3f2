"""How many messages a second 1, 2 and 4 gateways of a cluster answer, and what of PostgreSQL that takes.

    PYTHONPATH=. .venv/bin/python benchmarks/cluster_throughput.py [--messages 800] [--gateways 1 2 4]

Eight agents with a bot each are shared out among the gateways, which are processes of their own, with an instant model. All messages are
written at once. The peer of Telegram and PostgreSQL run on the same machine: what a gateway costs beside another one is seen by ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent.models.scripted import ScriptedModel
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.telegram import TelegramPeer
from tests.postgres_server import server

AGENTS = [f"a{number}" for number in range(8)]
FIRST, CHATS = 5000, 10
PATIENCE = 600.0
_COUNTERS = (
    "SELECT xact_commit, (SELECT wal_bytes FROM pg_stat_wal), (SELECT wal_fpi FROM pg_stat_wal), "
    "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) FROM pg_stat_database WHERE datname = current_database()"
)


async def gateway(name: str, folder: Path) -> None:
    """Be one gateway until the input ends."""
    settings = Settings.model_validate(json.loads((folder / "settings.json").read_text()))
    env = {"HOMEBODY_GATEWAY": name, "HOMEBODY_HOME": str(folder / "home"), "HOME": str(folder)}
    deps = Dependencies(settings=settings, paths=Paths.find(env), env=env, clock=SystemClock(), serving=True)
    house = await Gateway.open(deps)
    house.model_registry.put("scripted/model", ScriptedModel(lambda request: request.messages[-1].text.splitlines()[-1]))
    running = asyncio.ensure_future(house.run())
    await asyncio.to_thread(sys.stdin.read)
    print(time.process_time(), flush=True)
    house.stop()
    await running
    await house.close()


def settings_of(peers: dict[str, TelegramPeer], url: str, folder: Path) -> dict[str, Any]:
    """Return the settings of all gateways."""
    rules = {"pacing": False, "dmPolicy": "open", "allowFrom": ["*"]}
    return {
        "storage": {"url": url},
        "cluster": {"enabled": True, "leaseSeconds": 30},
        "agents": {
            "defaults": {"model": "scripted/model", "memorySearch": {"enabled": False}, "heartbeat": {"every": 0}},
            "list": [{"id": name, "workspace": str(folder / name)} for name in AGENTS],
        },
        "bindings": [{"agentId": name, "match": {"channel": "telegram", "accountId": name}} for name in AGENTS],
        "channels": {
            "telegram": {"accounts": {n: {"botToken": p.token, "apiRoot": p.root, **rules} for n, p in peers.items()}}
        },
        "messages": {"queue": {"mode": "followup"}},
        "gateway": {"port": 0},
        "logging": {"consoleLevel": "info"},
    }


def said(peer: TelegramPeer) -> int:
    """Return how many answers a bot gave, without what is said of the queue."""
    return sum(text.startswith("m ") for chat in range(FIRST, FIRST + CHATS) for text in peer.chats.said(chat))


async def measure(count: int, messages: int) -> float:
    """Measure so many gateways; return the messages a second."""
    import psycopg

    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder, database = Path(place), f"bench{count}"
        db = await psycopg.AsyncConnection.connect(server().url(), autocommit=True)
        await db.execute(f"CREATE DATABASE {database}".encode())
        await db.close()
        async with contextlib.AsyncExitStack() as stack:
            peers = {
                name: await stack.enter_async_context(
                    TelegramPeer(token=f"{number}000:AAExampleTokenOfThePeerOnLoopback00", checked=False)
                )
                for number, name in enumerate(AGENTS, 1)
            }
            (folder / "settings.json").write_text(json.dumps(settings_of(peers, server().url(database), folder)))
            command, pipe = (sys.executable, __file__, "--folder", place), asyncio.subprocess.PIPE
            env = {**os.environ, "PYTHONPATH": "."}
            processes = [
                await asyncio.create_subprocess_exec(*command, "--be", f"g{number}", stdin=pipe, stdout=pipe, env=env)
                for number in range(count)
            ]
            try:
                return await _measured(peers, processes, messages, server().url(database))
            finally:
                await asyncio.gather(*(one.communicate(b"") for one in processes))


async def _measured(peers: dict[str, TelegramPeer], processes: list[Any], messages: int, url: str) -> float:
    import psycopg

    for peer in peers.values():  # all of them are connected, and each holds its share
        await peer.say(FIRST - 1, "m warm up")
    await asyncio.gather(*(peer.until(lambda peer=peer: bool(peer.chats.said(FIRST - 1)), PATIENCE) for peer in peers.values()))  # type: ignore[misc]
    await asyncio.sleep(45.0)  # a gateway takes a share of the others' at the next rounds
    db = await psycopg.AsyncConnection.connect(url, autocommit=True)
    held = await (await db.execute("SELECT count(*) FROM homebody.cluster_holder GROUP BY gateway")).fetchall()
    before = await (await db.execute(_COUNTERS)).fetchone()
    began = time.perf_counter()
    for number in range(messages // len(peers)):
        for peer in peers.values():
            await peer.say(FIRST + number % CHATS, f"m {number}")
    wanted = messages // len(peers) * len(peers)
    while sum(map(said, peers.values())) < wanted and time.perf_counter() - began < PATIENCE:  # noqa: ASYNC110 - of the peers' lists
        await asyncio.sleep(0.1)
    took = time.perf_counter() - began
    await asyncio.sleep(1.0)
    after = await (await db.execute(_COUNTERS)).fetchone()
    await db.close()
    assert before is not None
    assert after is not None
    answered = sum(map(said, peers.values()))
    commits, wal = (after[0] - before[0]) / answered, (after[1] - before[1]) / answered / 1024
    print(
        f"{len(processes)} gateways (tokens {sorted(n for (n,) in held)}): {answered / took:.1f} messages/s, {wanted - answered} lost; "
        f"{commits:.1f} transactions and {wal:.1f} KiB of WAL a message, {after[3] - 1} connections",
        flush=True,
    )
    return answered / took


def main() -> None:
    """Read the command line and measure."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--messages", type=int, default=800)
    options.add_argument("--gateways", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--be", help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.be:
        asyncio.run(gateway(given.be, given.folder))
        return
    rates = [asyncio.run(measure(count, given.messages)) for count in given.gateways]
    print("ratios: " + ", ".join(f"{count}: {rate / rates[0]:.2f}" for count, rate in zip(given.gateways, rates, strict=True)))


if __name__ == "__main__":
    main()
