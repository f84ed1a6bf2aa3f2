"""``homebody sessions``: the conversations and where they are kept."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation
from gateway.errors import UsageWrong

if TYPE_CHECKING:
    from gateway.sessions.store import SessionStore


@click.group()
def sessions() -> None:
    """List, show and export conversations."""


@sessions.command(name="list")
@click.option("--agent", "agent_id", help="Only this agent's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def list_sessions(invocation: Invocation, agent_id: str | None, as_json: bool) -> None:
    """List the sessions of all agents, the one spoken with last first."""
    rows = [
        {
            "agent": agent,
            "sessionKey": record.key,
            "sessionId": record.session,
            "startedAt": record.started.isoformat(timespec="seconds"),
            "lastInteractionAt": record.spoken.isoformat(timespec="seconds"),
            "turns": record.turns,
            "compactions": record.compactions,
            "transcript": str(store.transcript(record.session)),
        }
        for agent, store in _stores(invocation, agent_id).items()
        for record in store.all()
    ]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        click.echo(f"{row['sessionKey']}  {row['turns']} turns, last {row['lastInteractionAt']}  ({row['sessionId']})")
    if not rows:
        click.echo("No sessions yet. Begin one with: homebody chat")


@sessions.command()
@click.argument("key", default="agent:main:main")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each entry.")
@pass_invocation
def show(invocation: Invocation, key: str, as_json: bool) -> None:
    """Show the conversation of a session key, or of a session id."""
    from agent.entries import Entry, Said, Torn, decode

    path = next(
        (
            store.transcript(record.session)
            for store in _stores(invocation, None).values()
            for record in store.all()
            if key in {record.key, record.session}
        ),
        None,
    )
    if path is None or not path.exists():
        raise UsageWrong(f"there is no session {key!r}", mend="`homebody sessions list` shows them.")
    for line in path.read_bytes().splitlines():
        if as_json:
            click.echo(line.decode("utf-8", "replace"))
            continue
        try:
            entry: Entry = decode(line)
        except Torn:
            click.echo("(a line that cannot be read)")
            continue
        if isinstance(entry.body, Said):
            click.echo(_told(entry.at.isoformat(timespec="minutes"), entry.body.message))
        else:
            click.echo(f"{entry.at:%Y-%m-%d %H:%M}  · {entry.body.kind}")


@sessions.command(name="repair")
@click.argument("key", default="agent:main:main")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def repair_session(invocation: Invocation, key: str, as_json: bool) -> None:
    """Mend the transcript of a session: lines that cannot be read are set aside, with the file as it was."""
    from gateway import admin
    from gateway.lock import StateLock, describe

    state = invocation.paths.state
    holder = describe(state / "gateway.lock")
    if holder is not None and holder.socket:
        facts = asyncio.run(admin.ask(state, "sessions.repair", key=key))
    else:
        invocation.paths.prepare()
        lock = StateLock.acquire(state / "gateway.lock")
        try:
            facts = _repaired(invocation, key)
        finally:
            lock.release()
    if as_json:
        click.echo(json.dumps(facts))
    elif facts["bad"]:
        click.echo(f"{facts['bad']} of {facts['lines']} lines could not be read. The file as it was: {facts['kept']}")
    else:
        click.echo(f"All {facts['lines']} lines can be read; nothing was changed.")


def _repaired(invocation: Invocation, key: str) -> dict[str, Any]:
    from gateway.clock import SystemClock
    from gateway.sessions.repair import repair

    for store in _stores(invocation, None).values():
        if record := store.get(key):
            return repair(store.transcript(record.session), SystemClock().now())
    raise UsageWrong(f"there is no session {key!r}", mend="`homebody sessions list` shows them.")


def _told(at: str, message: Any) -> str:
    who = {"user": "you", "assistant": "agent", "tool": "tool"}[message.role]
    calls = "".join(f" [{call.name}]" for call in getattr(message, "calls", ()))
    return f"{at[:16].replace('T', ' ')}  {who}: {message.text}{calls}"


def _stores(invocation: Invocation, agent_id: str | None) -> dict[str, SessionStore]:
    """Read the sessions of the agents; a running gateway is not disturbed by that."""
    from gateway.clock import SystemClock
    from gateway.sessions.store import SessionStore

    settings = invocation.loaded.settings
    wanted = (settings.agent(agent_id).id,) if agent_id else settings.agent_ids
    stores = {agent: SessionStore(invocation.paths.sessions(agent), SystemClock()) for agent in wanted}

    async def load() -> None:
        for store in stores.values():
            await store.load()

    asyncio.run(load())
    return stores
