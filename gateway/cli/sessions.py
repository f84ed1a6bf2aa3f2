"""``homebody sessions``: lists, shows, exports and repairs conversations; finds the one that ``homebody chat --resume`` continues."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.messages import AssistantMessage, begins_turn
from agent.transcript.entries import InvalidEntry, Said, decode
from gateway.base.errors import StorageFailed, UsageError
from gateway.cli.invocation import Invocation, pass_invocation, say, tell
from gateway.sessions.past_sessions import find, left

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from gateway.sessions.past_sessions import Found
    from gateway.sessions.protocol import SessionStore
    from gateway.sessions.sessions_file import SessionRecord


@click.group()
def sessions() -> None:
    """List, show, search and export conversations."""


@sessions.command(name="list")
@click.option("--agent", "agent_id", help="Only sessions of this agent.")
@click.option("--all", "everything", is_flag=True, help="Include ended and archived sessions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def list_sessions(invocation: Invocation, agent_id: str | None, everything: bool, as_json: bool) -> None:
    """List the sessions of all agents, most recent first."""
    from gateway.agents.memory_stores import owner_zone
    from gateway.sessions.past_sessions import rows

    stores = stores_of(invocation, agent_id)
    listed = rows(stores, everything=everything)
    if as_json:
        click.echo(json.dumps(listed, ensure_ascii=False))
        return
    lines: list[tuple[datetime, str]] = []
    for agent, store in stores.items():
        zone = owner_zone(invocation.loaded.settings.agent(agent))
        lines += [(record.spoken, f"{record.key}  {activity(record, zone)}  ({record.session})") for record in store.all()]
    for _, line in sorted(lines, reverse=True):
        click.echo(line)
    for row in listed:
        if row.get("left"):
            click.echo(f"{row['sessionKey'] or '?'}  left  ({row['sessionId']})")
    if not listed:
        say("No sessions yet. Start one with: homebody chat")


@sessions.command()
@click.argument("key", default="agent:main:main")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each entry.")
@pass_invocation
def show(invocation: Invocation, key: str, as_json: bool) -> None:
    """Show the conversation of a session. KEY is a session key, the end of one, or a session id."""
    from agent.transcript.entries import Said
    from channels.common.control_characters import visible
    from gateway.agents.memory_stores import owner_zone

    found = _found(invocation, key)
    zone = owner_zone(invocation.loaded.settings.agent(found.agent))
    if as_json:
        for line in found.lines():
            click.echo(line.decode("utf-8", "replace"))
        return
    for entry in found.entries():
        if entry is None:
            click.echo("(a line that cannot be read)")
        elif isinstance(entry.body, Said):
            click.echo(visible(_message_text(f"{entry.at.astimezone(zone):%Y-%m-%d %H:%M}", entry.body.message)))
        else:
            click.echo(f"{entry.at.astimezone(zone):%Y-%m-%d %H:%M}  · {entry.body.kind.replace('_', ' ')}")


@sessions.command()
@click.argument("query")
@click.option("--agent", "agent_id", help="Only conversations with this agent.")
@click.option("--tools", is_flag=True, help="Also search the results of tools.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def search(invocation: Invocation, *, query: str, agent_id: str | None, tools: bool, as_json: bool) -> None:
    """Search what was said in all conversations, past ones included.

    All words of QUERY must be in one message; text in quotes is searched as it stands. Capitals do not matter.
    """
    from channels.common.control_characters import visible
    from gateway.api.handlers.session_requests import search_facts

    facts = search_facts(stores_of(invocation, agent_id), query, tools=tools, seconds=float("inf"), most=1000)
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    for found in facts["results"]:
        more = f" ({found['count']} messages, the latest {len(found['hits'])})" if found["count"] > len(found["hits"]) else ""
        click.echo(visible(f"{found['sessionKey'] or '?'}  ({found['sessionId']}){more}"))
        for hit in found["hits"]:
            click.echo(visible(f"  {invocation.local_time(hit['at'])}  {hit['role']}: {hit['excerpt']}"))
    if not facts["results"]:
        say(f"Nothing in {facts['conversations']} conversations matches.")
    for trouble in facts["unreadable"]:
        say(trouble, err=True)


@sessions.command()
@click.argument("key", default="agent:main:main")
@click.option(
    "--format", "form", type=click.Choice(["md", "jsonl"]), help="Output format (default: from the name of --output, else md)."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write to this new file or into this folder; nothing is overwritten.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the file that was written, or all stored entries.")
@pass_invocation
def export(invocation: Invocation, key: str, form: str | None, output: Path | None, *, as_json: bool) -> None:
    """Export a conversation as Markdown, or as JSONL with all stored entries.

    KEY is a session key or a session id, also of an ended session (`homebody sessions list --all`).
    """
    from channels.common.control_characters import visible
    from gateway.agents.memory_stores import owner_zone
    from gateway.sessions.past_sessions import page

    found = _found(invocation, key)
    if as_json and output is None:
        tell({"key": key, "session": found.session, "entries": [json.loads(line) for line in found.lines()]}, "", as_json=True)
        return
    wanted = form or ("jsonl" if output is not None and output.suffix in {".jsonl", ".json"} else "md")
    if wanted == "jsonl":
        text = b"".join(line + b"\n" for line in found.lines())
    else:
        zone = owner_zone(invocation.loaded.settings.agent(found.agent))
        text = (visible("\n\n".join(page(found.entries(), zone))) + "\n").encode("utf-8", "replace")
    if output is None:
        click.echo(text, nl=False)
        return
    target = output / f"{found.session}.{wanted}" if output.is_dir() else output
    _write_new(target, text)
    if as_json:
        tell({"key": key, "session": found.session, "file": str(target), "bytes": len(text)}, "", as_json=True)
    else:
        click.echo(f"Wrote {target} ({len(text):,} bytes).", err=True)


@sessions.command(name="repair")
@click.argument("key", default="agent:main:main")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def repair_session(invocation: Invocation, key: str, as_json: bool) -> None:
    """Repair a session's transcript: unreadable lines are removed, and the original file is kept beside it."""
    from gateway.base.home_lock import whole_home
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    holder = describe(invocation.paths.lock)
    if holder is not None and holder.socket:
        facts = asyncio.run(gateway_calls.ask(invocation.paths.local, "sessions.repair", key=key))
    else:
        invocation.paths.prepare()
        with whole_home(invocation.paths, could_ask=True):
            facts = asyncio.run(_repaired(invocation, key))
    if as_json:
        click.echo(json.dumps(facts))
    elif facts["bad"]:
        click.echo(
            f"{facts['bad']} of {facts['lines']} lines could not be read and were removed. Original file: {facts['kept']}"
        )
    else:
        click.echo(f"All {facts['lines']} lines are readable; nothing was changed.")


async def _repaired(invocation: Invocation, key: str) -> dict[str, Any]:
    from gateway.base.clock import SystemClock
    from gateway.sessions.past_sessions import repair
    from gateway.storage.open_storage import open_storage

    settings, clock = invocation.loaded.settings, SystemClock()
    storage = await open_storage(invocation.paths, settings.storage, clock)
    try:
        for agent in settings.agent_ids:
            store = storage.sessions(agent)
            await store.load()
            if record := store.get(key):
                return await asyncio.to_thread(repair, store.transcript(record.session), clock.now())
    finally:
        await storage.close()
    raise UsageError(f"there is no session {key!r}", hint="`homebody sessions list` lists all sessions.")


def _found(invocation: Invocation, key: str) -> Found:
    from gateway.sessions.past_sessions import find

    stores = stores_of(invocation, None)
    ends = [record.key for store in stores.values() for record in store.all() if record.key.endswith(f":{key.lower()}")]
    found = find(stores, key) or (find(stores, ends[0]) if len(ends) == 1 else None)
    if found is None:
        raise UsageError(f"there is no session {key!r}", hint="`homebody sessions list --all` lists all sessions.")
    return found


def _write_new(target: Path, text: bytes) -> None:
    """Write a new file with mode 0600."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{target} already exists", hint="Nothing was written. Choose another file name.") from error
    except OSError as error:
        raise StorageFailed.from_os(error, "write the export", target) from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)


def _message_text(at: str, message: Any) -> str:
    who = {"user": "you", "assistant": "agent", "tool": "tool"}[message.role]
    calls = "".join(f" [{call.name}]" for call in getattr(message, "calls", ()))
    return f"{at}  {who}: {message.text}{calls}"


def stores_of(invocation: Invocation, agent_id: str | None) -> dict[str, SessionStore]:
    """Read the agents' sessions. This is safe while a gateway is running."""
    from gateway.base.clock import SystemClock
    from gateway.storage.open_storage import sessions_to_read

    settings = invocation.loaded.settings
    wanted = (settings.agent(agent_id).id,) if agent_id else settings.agent_ids
    sessions = sessions_to_read(invocation.paths, settings.storage, SystemClock())
    stores = {agent: sessions(agent) for agent in wanted}

    async def load() -> None:
        for store in stores.values():
            await store.load()

    asyncio.run(load())
    return stores


OFFERED = 9
SHOWN_CHARS = 400
LINE_CHARS = 60
_LIST = "`homebody sessions list` lists all sessions."


def latest(stores: Mapping[str, SessionStore]) -> list[SessionRecord]:
    """Return the sessions that have messages, most recent first."""
    records = [record for store in stores.values() for record in store.all()]
    return sorted(records, key=lambda record: record.spoken, reverse=True)


def session_named(stores: Mapping[str, SessionStore], wish: str) -> SessionRecord:
    """Return the session with this key or id, or whose key contains it.

    Raises:
        UsageError: there is none, or several; or the session has ended (only ``/undo`` restores it).
    """
    found = find(stores, wish)
    if found is not None and found.record is not None:
        return found.record
    if any(one.session == wish for one in left(stores)):
        raise UsageError(
            f"the session {wish} has ended",
            hint="`/undo` in the chat restores the one that ended last; `homebody sessions show` prints it.",
        )
    records = latest(stores)
    exact = [record for record in records if record.key.endswith(f":{wish.lower()}")]
    near = exact or [record for record in records if wish.lower() in record.key]
    if len(near) == 1:
        return near[0]
    if near:
        raise UsageError(
            f"{wish!r} matches several sessions: {', '.join(record.key for record in near[:OFFERED])}",
            hint="Be more exact.",
        )
    raise UsageError(f"there is no session {wish!r}", hint=_LIST)


def offered(records: list[SessionRecord], zone: ZoneInfo) -> list[str]:
    """Return the latest sessions as numbered lines to choose from."""
    return [f"{number}. {record.key}  ({activity(record, zone)})" for number, record in enumerate(records[:OFFERED], 1)]


def activity(record: SessionRecord, zone: ZoneInfo) -> str:
    """Return a session's number of turns and the time of its last message, in the owner's time zone."""
    turns = "1 turn" if record.turns == 1 else f"{record.turns} turns"
    return f"{turns}, last {record.spoken.astimezone(zone):%a %d %b %H:%M}"


def where_it_was(stores: Mapping[str, SessionStore], record: SessionRecord, zone: ZoneInfo) -> str:
    """Return the last messages of a session as text."""
    head = f"{record.key}, last message on {record.spoken.astimezone(zone):%a %d %b at %H:%M}."
    found = find(stores, record.key)
    words = [] if found is None else _last_words(found)
    return "\n".join([head, *words])


def _last_words(found: Found) -> list[str]:
    answer = ""
    try:
        lines = found.lines()
    except StorageFailed:
        return []
    for line in reversed(lines):
        try:
            body = decode(line).body
        except InvalidEntry:
            continue
        message = body.message if isinstance(body, Said) else None
        if isinstance(message, AssistantMessage) and message.text and not answer:
            answer = message.text
        elif message is not None and begins_turn(message) and message.text:
            return [f"› {_short(message.text, LINE_CHARS)}", *([_short(answer, SHOWN_CHARS)] if answer else [])]
    return []


def _short(text: str, most: int) -> str:
    line = text.strip() if most > LINE_CHARS else " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
