"""``homebody agent``: sends one message and prints the reply."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import USAGE, HomebodyError, UsageError
from gateway.cli.invocation import Invocation, pass_invocation, say, warn
from gateway.cli.streams import run_until_ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from channels.terminal.link import Link


@click.command()
@click.option("-m", "--message", help="The message. Default, or with -: read standard input.")
@click.option("--agent", "agent_id", help="The agent that answers.")
@click.option("--session", help="The session, such as `travel` or `agent:main:main`.")
@click.option("--model", help="The model that answers, as provider/model.")
@click.option("--json", "as_json", is_flag=True, help="Print the reply and its details as one JSON object.")
@pass_invocation
def agent(
    invocation: Invocation,
    *,
    message: str | None,
    agent_id: str | None,
    session: str | None,
    model: str | None,
    as_json: bool,
) -> int:
    """Send one message and print the reply. Works with or without a running gateway."""
    text = message if message not in (None, "-") else sys.stdin.buffer.read().decode("utf-8", "replace")
    if not text.strip():
        raise UsageError("the message is empty", hint='Give a message: homebody agent -m "..."')
    warn(invocation.loaded)
    hints = {name: value for name, value in (("agent", agent_id), ("session", session), ("model", model)) if value}
    facts = run_until_ended(_ask(invocation, text, hints))
    code = int(facts.pop("exit", 0))
    facts.pop("chunks", None)
    facts.pop("replyKeys", None)
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    elif facts["reply"]:
        say(f"homebody: {facts['reply']}" if code == USAGE else facts["reply"], err=code != 0)
        if code == 0 and facts.get("model") and facts["model"] != facts.get("chosen", facts["model"]):
            click.echo(f"({facts['model']} answered instead of {facts['chosen']}.)", err=True)
    return code


def agent_meant(hints: Mapping[str, str]) -> str:
    """Return the agent that the hints of a message name, by itself or in a session's key; "" where they name none."""
    session = hints.get("session", "").split(":")
    return hints.get("agent") or (session[1] if session[0] == "agent" and len(session) > 1 else "")


async def _ask(invocation: Invocation, text: str, hints: Mapping[str, str]) -> dict[str, Any]:
    from gateway.cli.attached import attached

    async with attached(invocation, f"agent-{secrets.token_hex(6)}", agent=agent_meant(hints)) as link:
        key = secrets.token_hex(12)
        frames = asyncio.create_task(answered(link, key))
        try:
            await link.say(text, key=key, hints=hints)
            return await frames
        finally:
            frames.cancel()


async def answered(link: Link, key: str) -> dict[str, Any]:
    """Wait until the message ``key`` was answered and its whole reply has arrived; return the turn's result summary.

    That the gateway is paused is said on stderr meanwhile.

    Raises:
        HomebodyError: the message was rejected, or the gateway stopped first.
    """
    from channels.live import PAUSE_NOTICE, Reply
    from channels.terminal.link import Exchange
    from gateway.api.api_client import KINDS

    exchange = Exchange(key)
    async for frame in link.frames():
        if exchange.hear(frame) and isinstance(frame, Reply) and frame.key.startswith(PAUSE_NOTICE):
            say(frame.text, err=True)
        if exchange.rejected is not None:
            kind = KINDS.get(exchange.rejected.exit, HomebodyError)
            raise kind(exchange.rejected.reason, hint=exchange.rejected.hint)
        if exchange.over and exchange.done is not None:
            return dict(exchange.done.facts)
    raise HomebodyError(
        "the gateway stopped before it answered",
        hint="Your message is saved; `homebody chat` shows the reply.",
    )
