"""``homebody chat``: a conversation in the terminal, or line by line through a pipe."""

from __future__ import annotations

import asyncio
import secrets
import sys

import click

from gateway.cli.invocation import Invocation, pass_invocation, warn


@click.command()
@click.option("--agent", "agent_id", help="Which agent to talk to.")
@click.option("--session", help="Which session, such as `travel`.")
@click.option("--model", help="Which model answers, as provider/model.")
@click.option("--plain", is_flag=True, help="Read lines from standard input and print replies, even in a terminal.")
@pass_invocation
def chat(invocation: Invocation, *, agent_id: str | None, session: str | None, model: str | None, plain: bool) -> int:
    """Talk to your agent here. Without a terminal, each line of standard input is a message."""
    warn(invocation.loaded)
    hints = {name: value for name, value in (("agent", agent_id), ("session", session), ("model", model)) if value}
    interactive = not plain and sys.stdin.isatty() and sys.stdout.isatty()
    return asyncio.run(_interactive(invocation, hints) if interactive else _piped(invocation, hints))


def _new_key() -> str:
    return secrets.token_hex(12)


async def _piped(invocation: Invocation, hints: dict[str, str]) -> int:
    from channels.terminal.plain import converse
    from gateway.cli.attached import attached

    async with attached(invocation, f"pipe-{secrets.token_hex(6)}") as link:
        return await converse(
            link,
            source=sys.stdin.buffer,
            out=sys.stdout.buffer,
            err=sys.stderr.buffer,
            new_key=_new_key,
            hints=hints,
        )


async def _interactive(invocation: Invocation, hints: dict[str, str]) -> int:
    from channels.terminal.console import Conversation
    from gateway.cli.attached import attached
    from gateway.clock import SystemClock
    from gateway.commands import COMMANDS

    async with attached(invocation) as link:
        conversation = Conversation(
            link,
            clock=SystemClock(),
            new_key=_new_key,
            history=invocation.paths.home / "history",
            commands={f"/{command.name}": command.help for command in COMMANDS.values()},
            choices={f"/{command.name}": command.choices for command in COMMANDS.values()},
            greeting="Say something. /help shows what else there is; Ctrl-D leaves.",
            hints=hints,
        )
        return await conversation.run()
