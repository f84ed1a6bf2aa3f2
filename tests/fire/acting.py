"""What happens without a person: jobs that fell due while no house was there, webhooks that are called until they are taken, sub-agents."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import apsw
import httpx

from channels.messages import ChatAddress
from gateway.base.clock import SystemClock
from gateway.base.state_lock import describe
from gateway.hooks.credentials import hash_of
from gateway.ledger.hooks import Hook, HookRules
from gateway.ledger.job_rows import NewJob
from gateway.ledger.sqlite import SqliteLedger
from gateway.schedules.schedule import At, to_text
from gateway.sessions.store import SessionStore
from tests.fire.world import STATE

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tests.fire.scenarios import Verdict
    from tests.fire.world import World

TOKEN = "a token that only this house and its caller know"
LATE = timedelta(seconds=20)
"""How long ago the jobs were due: well within the time in which they are made up for."""


async def jobs_and_hooks(root: Path) -> None:
    """Add jobs that are due and hooks to the house in a folder, which nobody runs now. They report to the person's chat."""
    clock = SystemClock()
    chat = ChatAddress.parse(await _address(root))
    ledger = await SqliteLedger.open(root / STATE / "ledger.sqlite", clock)
    due = clock.now() - LATE
    for job in (
        NewJob(
            agent="main", name="alpha", schedule="", kind="prompt", text="please do alpha", session="isolated", deliver=chat
        ),
        NewJob(agent="main", name="fig", schedule="", kind="prompt", text="tell me fig", session="main", deliver=chat),
        NewJob(agent="main", name="plants", schedule="", kind="message", text="water the plants", deliver=chat),
    ):
        await ledger.jobs.add(_at(job, due), due, "UTC")
    rules = {
        "quince": HookRules(kind="prompt", text="Answer it.", deliver=chat.address),
        "pear": HookRules(kind="message", text="{said}", deliver=chat.address),
    }
    for name, rule in rules.items():
        hook = Hook(
            id=name, name=name, agent="main", rules=rule, token_hash=hash_of(TOKEN), secret=None, created_at=due, changed_at=due
        )
        assert await ledger.hooks.add(hook)
    await ledger.close()


async def _address(root: Path) -> str:
    store = SessionStore(root / "state/agents/main/sessions", SystemClock())
    await store.load()
    return store.all()[0].address


def _at(job: NewJob, due: datetime) -> NewJob:
    return replace(job, schedule=to_text(At(due)))


async def call_hooks(world: World) -> None:
    """Call each hook until it is taken, and once more, as services do that got no answer."""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        for name, body in world.posts.items():
            for _ in range(2):
                while not await _taken(client, world.root, name, body):  # noqa: ASYNC110 -- another program's doing
                    await asyncio.sleep(0.02)
            world.posted.add(name)


async def _taken(client: httpx.AsyncClient, root: Path, name: str, body: dict[str, str]) -> bool:
    holder = describe(root / STATE / "gateway.lock")
    if holder is None or not holder.http_port:
        return False
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Idempotency-Key": f"the only one of {name}",
        "Content-Type": "application/json",
    }
    with contextlib.suppress(httpx.HTTPError):  # it is killed, or not there yet
        url = f"http://127.0.0.1:{holder.http_port}/hooks/in/{name}"
        return (await client.post(url, content=json.dumps(body), headers=headers)).is_success
    return False


async def each_once(world: World, verdict: Verdict) -> None:
    """Each job fired once, each call was stored once, and no sub-agent is still waited for."""
    db = apsw.Connection(str(world.root / STATE / "ledger.sqlite"))
    try:
        counts = {
            "firings": "SELECT count(*) FROM job_run",
            "messages of jobs": "SELECT count(*) FROM inbox WHERE account = 'schedule'",
            "calls of hooks": "SELECT count(*) FROM inbox WHERE account = 'hook'",
            "jobs that are not over": "SELECT count(*) FROM job WHERE state = 'active'",
            "sub-agents that are not over": "SELECT count(*) FROM subagent WHERE state = 'open'",
        }
        found = {what: db.execute(query).fetchone() for what, query in counts.items()}
    finally:
        db.close()
    wanted = {
        "firings": 3,
        "messages of jobs": 2,
        "calls of hooks": 1,
        "jobs that are not over": 0,
        "sub-agents that are not over": 0,
    }
    for what, count in wanted.items():
        if found[what] != (count,):
            verdict.wrong("automation", f"{what}: {found[what]} instead of {count}")
