"""What happens without a person: jobs that fell due while no house was there, webhooks that are called until they are taken, sub-agents.

And what comes again: jobs that repeat, heartbeats, messages held in quiet hours, a hook that was paused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import apsw
import httpx
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.api import api_client
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError
from gateway.base.state_lock import describe
from gateway.hooks.credentials import hash_of
from gateway.ledger.heartbeat_rows import HeartbeatState
from gateway.ledger.hook_rows import Hook, HookKind, HookRules
from gateway.ledger.job_rows import NewJob
from gateway.ledger.rows import NewOutbound, Unasked
from gateway.ledger.sqlite import SqliteLedger
from gateway.schedules.schedule import At, Every, to_text
from gateway.sessions.store import sessions_in
from gateway.settings.quiet_hours import DailyHours, UnaskedRule
from tests.fire.world import STATE

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tests.fire.scenarios import Verdict
    from tests.fire.world import World

TOKEN = "a token that only this house and its caller know"
LATE = timedelta(seconds=20)
"""How long ago the jobs were due: well within the time in which they are made up for."""
MISSED = 2
"""How many instants before that the jobs missed which repeat."""
_HOUR = timedelta(hours=1)
_PAUSED = 403
_RULES: tuple[tuple[HookKind, str], ...] = (("prompt", "Answer it."), ("message", "{said}"))
_HEARTBEATS = "SELECT count(*) FROM inbox WHERE account = 'schedule' AND skey LIKE '%:heartbeat:%'"
_WAITING_JOBS = "SELECT count(*) FROM job WHERE state = 'active' AND next_at > CAST(unixepoch('subsec') * 1000000 AS INTEGER)"


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
    answers, sends = (HookRules(kind=kind, text=text, deliver=chat.address) for kind, text in _RULES)
    await _add_hook(ledger, "quince", answers, due)
    await _add_hook(ledger, "pear", sends, due)
    await ledger.close()


async def what_repeats(root: Path) -> None:
    """Add two jobs that repeat and have missed instants, a heartbeat that is due, two held messages, a hook and a paused one."""
    clock = SystemClock()
    chat = ChatAddress.parse(await _address(root))
    ledger = await SqliteLedger.open(root / STATE / "ledger.sqlite", clock)
    due = clock.now() - LATE
    for job in (
        NewJob(
            agent="main", name="gamma", schedule="", kind="prompt", text="please do gamma", session="isolated", deliver=chat
        ),
        NewJob(agent="main", name="cat", schedule="", kind="message", text="feed the cat", deliver=chat),
    ):
        repeats = Every(int(_HOUR.total_seconds()), due - 5 * _HOUR)
        await ledger.jobs.add(replace(job, schedule=to_text(repeats)), due - MISSED * _HOUR, "UTC")
    await ledger.heartbeats.put("main", HeartbeatState(last=due - _HOUR))
    (root / "person/homebody/HEARTBEAT.md").write_text("# Heartbeat\n\n- tell me hop\n")
    now = clock.now()
    night = DailyHours(start=f"{now - _HOUR:%H:%M}", end=f"{now + _HOUR:%H:%M}")
    for name in ("first", "second"):
        mark = Unasked(agent="main", source=f"job:{name}", name=name, rule=UnaskedRule(zone=ZoneInfo("UTC"), quiet=night))
        await ledger.outbox.enqueue([NewOutbound(conversation=chat, text=f"the {name} that was held", key=name, unasked=mark)])
    assert (await ledger.tally()).held == len(("first", "second"))
    answers, sends = (HookRules(kind=kind, text=text, deliver=chat.address) for kind, text in _RULES)
    await _add_hook(ledger, "quince", answers, due)
    await _add_hook(ledger, "damson", sends, due, state="paused")
    await ledger.close()


async def _add_hook(ledger: SqliteLedger, name: str, rules: HookRules, at: datetime, **more: Any) -> None:
    hook = Hook(
        id=name,
        name=name,
        agent="main",
        rules=rules,
        token_hash=hash_of(TOKEN),
        secret=None,
        created_at=at,
        changed_at=at,
        **more,
    )
    assert await ledger.hooks.add(hook)


async def _address(root: Path) -> str:
    store = sessions_in(root / "state/agents/main/sessions", SystemClock())
    await store.load()
    return store.all()[0].address


def _at(job: NewJob, due: datetime) -> NewJob:
    return replace(job, schedule=to_text(At(due)))


async def call_hooks(world: World) -> None:
    """Call each hook until it is taken, and once more, as services do that got no answer."""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as web:
        for name, body in world.posts.items():
            for _ in range(2):
                while not await _taken(web, world.root, name, body):  # noqa: ASYNC110 -- another program's doing
                    await asyncio.sleep(0.02)
            world.posted.add(name)


async def resume_and_call(world: World) -> None:
    """Call the paused hook until it is refused, resume it as the command line does, and then call the hooks."""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as web:
        while await _called(web, world.root, "damson", world.posts["damson"]) != _PAUSED:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    while True:
        with contextlib.suppress(HomebodyError, OSError, ValueError):  # it is killed, or not there yet
            await api_client.ask(world.root / STATE, "hooks.resume", name="damson")
            break
        await asyncio.sleep(0.02)
    await call_hooks(world)


async def _taken(web: httpx.AsyncClient, root: Path, name: str, body: dict[str, str]) -> bool:
    return 200 <= await _called(web, root, name, body) < 300


async def _called(web: httpx.AsyncClient, root: Path, name: str, body: dict[str, str]) -> int:
    """Return the status of the answer; 0 where there was none."""
    holder = describe(root / STATE / "gateway.lock")
    if holder is None or not holder.http_port:
        return 0
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Idempotency-Key": f"the only one of {name}",
        "Content-Type": "application/json",
    }
    with contextlib.suppress(httpx.HTTPError):  # it is killed, or not there yet
        url = f"http://127.0.0.1:{holder.http_port}/hooks/in/{name}"
        return (await web.post(url, content=json.dumps(body), headers=headers)).status_code
    return 0


async def each_once(world: World, verdict: Verdict) -> None:
    """Each job fired once, each call was stored once, and no sub-agent is still waited for."""
    wanted = {
        "firings": ("SELECT count(*) FROM job_run", 3),
        "messages of jobs": ("SELECT count(*) FROM inbox WHERE account = 'schedule'", 2),
        "calls of hooks": ("SELECT count(*) FROM inbox WHERE account = 'hook'", 1),
        "jobs that are not over": ("SELECT count(*) FROM job WHERE state = 'active'", 0),
        "sub-agents that are not over": ("SELECT count(*) FROM subagent WHERE state = 'open'", 0),
    }
    _count(world, verdict, wanted)


async def each_once_of_many(world: World, verdict: Verdict) -> None:
    """Of several missed instants the latest fired, once; one heartbeat came; what was held was sent once; the hook is no longer paused."""
    wanted = {
        "firings": ("SELECT count(*) FROM job_run WHERE state = 'fired'", 2),
        "instants left out": ("SELECT count(*) FROM job_run WHERE state = 'skipped'", 2),
        "messages of jobs": ("SELECT count(*) FROM inbox WHERE account = 'schedule' AND skey NOT LIKE '%:heartbeat:%'", 1),
        "heartbeats": (_HEARTBEATS, 1),
        "calls of hooks": ("SELECT count(*) FROM inbox WHERE account = 'hook'", 1),
        "jobs that wait for their next time": (_WAITING_JOBS, 2),
        "messages that are held": ("SELECT count(*) FROM unasked WHERE state <> 'queued'", 0),
        "hooks that are paused": ("SELECT count(*) FROM hook WHERE state = 'paused'", 0),
    }
    _count(world, verdict, wanted)


def heartbeat_was_given_up(world: World) -> bool:
    return bool(_asked(world, f"{_HEARTBEATS} AND state = 'failed'"))


def _count(world: World, verdict: Verdict, wanted: dict[str, tuple[str, int]]) -> None:
    for what, (query, count) in wanted.items():
        if (found := _asked(world, query)) != count:
            verdict.wrong("automation", f"{what}: {found} instead of {count}")


def _asked(world: World, query: str) -> Any:
    db = apsw.Connection(str(world.root / STATE / "ledger.sqlite"))
    try:
        found: Any = db.execute(query).fetchone()
    finally:
        db.close()
    return found[0]
