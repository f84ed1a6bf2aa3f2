"""``homebody chat``: a conversation in the terminal, or through a pipe, one message per line."""

from __future__ import annotations

import secrets
import sys

import click

from gateway.base.errors import UsageError, as_started
from gateway.cli.invocation import Invocation, pass_invocation, warn
from gateway.cli.streams import run_until_ended

GREETING = "Type a message. /help lists the commands; Ctrl-D quits."


@click.command()
@click.option("--agent", "agent_id", help="The agent to talk to.")
@click.option("--session", help="The session, such as `travel`.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value="",
    metavar="[KEY]",
    help="Continue an earlier conversation. Without a name, choose from a list (without a terminal: the latest).",
)
@click.option("--model", help="The model that answers, as provider/model.")
@click.option("--plain", is_flag=True, help="Read lines from standard input and print plain replies, even in a terminal.")
@pass_invocation
def chat(
    invocation: Invocation, *, agent_id: str | None, session: str | None, resume: str | None, model: str | None, plain: bool
) -> int:
    """Talk to your agent in this terminal. Without a terminal, each line of standard input is a message."""
    if resume is not None and session:
        raise UsageError("--resume and --session cannot be used together", hint="Give only one of them.")
    warn(invocation.loaded)
    interactive = not plain and sys.stdin.isatty() and sys.stdout.isatty()
    greeting = GREETING
    if resume is not None:
        session, text = _resumed(invocation, resume, agent_id, ask=interactive)
        greeting = f"{text}\n{GREETING}"
    hints = {name: value for name, value in (("agent", agent_id), ("session", session), ("model", model)) if value}
    return run_until_ended(_interactive(invocation, hints, greeting) if interactive else _piped(invocation, hints))


def _resumed(invocation: Invocation, wish: str, agent_id: str | None, *, ask: bool) -> tuple[str, str]:
    """Return the key of the session to continue, and its last messages as text."""
    from gateway.agents.memory_stores import owner_zone
    from gateway.cli.sessions import latest, offered, session_named, stores_of, where_it_was

    stores = stores_of(invocation, agent_id)
    settings = invocation.loaded.settings
    zone = owner_zone(settings.agent(agent_id or settings.default_agent))
    records = latest(stores)
    if not records:
        raise UsageError("there is no earlier conversation", hint="Start one with: homebody chat")
    chosen = session_named(stores, wish) if wish else records[0]
    if not wish and ask and len(records) > 1:
        lines = offered(records, zone)
        click.echo("\n".join(lines))
        number = click.prompt("Which one?", type=click.IntRange(1, len(lines)), default=1)
        chosen = records[number - 1]
    return chosen.key, where_it_was(stores, chosen, zone)


def _new_key() -> str:
    return secrets.token_hex(12)


async def _piped(invocation: Invocation, hints: dict[str, str]) -> int:
    from channels.terminal.plain import converse
    from gateway.cli.agent import agent_meant
    from gateway.cli.attached import attached

    async with attached(invocation, f"pipe-{secrets.token_hex(6)}", agent=agent_meant(hints)) as link:
        return await converse(
            link,
            source=sys.stdin.buffer,
            out=sys.stdout.buffer,
            err=sys.stderr.buffer,
            new_key=_new_key,
            hints=hints,
            rewrite=as_started,
        )


async def _interactive(invocation: Invocation, hints: dict[str, str], greeting: str) -> int:
    from channels.terminal.console import ChatConsole
    from gateway.base.clock import SystemClock
    from gateway.cli.agent import agent_meant
    from gateway.cli.attached import attached
    from gateway.cli.conversations import Conversations
    from gateway.commands.table import COMMANDS, OTHER_NAMES

    clock = SystemClock()
    async with attached(invocation, agent=agent_meant(hints), lasting=clock) as link:
        conversation = ChatConsole(
            link,
            clock=clock,
            new_key=_new_key,
            history=invocation.paths.home / "history",
            commands={f"/{command.name}": command.help for command in COMMANDS.values()},
            choices={f"/{command.name}": command.choices for command in COMMANDS.values()},
            greeting=greeting,
            rewrite=as_started,
            hints=hints,
            aliases=[f"/{name}" for name in (*OTHER_NAMES, "start")],
            sessions=Conversations(invocation, hints.get("agent")),
            pasted=invocation.paths.home / "pasted",
        )
        return await conversation.run()
