"""``homebody todo``: the owner's list of things to do, TODO.md in the workspace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_AGENT = click.option("--agent", "agent_id", help="The agent (default: the default agent).")


@click.group()
def todo() -> None:
    """Show and change the list of things to do: TODO.md in the agent's workspace, a task list as on GitHub.

    ITEM is a number or id of the list, or words of an item. The file may be edited by hand at any time.
    """


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    return _AGENT(_JSON(pass_invocation(command)))


@todo.command(name="list")
@click.option("--section", default="", help="Only this section.")
@click.option("--all", "everything", is_flag=True, help="Also what is done.")
@_common
def list_(invocation: Invocation, agent_id: str | None, section: str, *, everything: bool, as_json: bool) -> None:
    """Show what is to be done."""
    facts = _call(invocation, "todo.list", agent=agent_id, section=section, everything=everything)
    done = sum(one["done"] for one in facts["items"])
    words = facts["told"] or "Nothing is to be done."
    tell(facts, f"{words}\n({done} done; --all shows them)" if done and not everything else words, as_json=as_json)


@todo.command()
@click.argument("text")
@click.option("--section", default="", help="The heading that it stands under; made if there is none.")
@_common
def add(invocation: Invocation, text: str, agent_id: str | None, section: str, *, as_json: bool) -> None:
    """Add TEXT, such as "renew the passport (due 2026-12-01)"."""
    _change(invocation, agent_id, as_json, do="add", text=text, section=section)


@todo.command()
@click.argument("item")
@_common
def done(invocation: Invocation, item: str, agent_id: str | None, *, as_json: bool) -> None:
    """Mark ITEM as done."""
    _change(invocation, agent_id, as_json, do="done", item=item)


@todo.command()
@click.argument("item")
@_common
def undo(invocation: Invocation, item: str, agent_id: str | None, *, as_json: bool) -> None:
    """Mark ITEM as open again."""
    _change(invocation, agent_id, as_json, do="undo", item=item)


@todo.command()
@click.argument("item")
@click.argument("text")
@_common
def edit(invocation: Invocation, item: str, text: str, agent_id: str | None, *, as_json: bool) -> None:
    """Give ITEM another TEXT."""
    _change(invocation, agent_id, as_json, do="edit", item=item, text=text)


@todo.command()
@click.argument("item")
@_common
def remove(invocation: Invocation, item: str, agent_id: str | None, *, as_json: bool) -> None:
    """Take ITEM off the list, with what is nested below it. `homebody memory log TODO.md` can bring it back."""
    _change(invocation, agent_id, as_json, do="remove", item=item)


def _change(invocation: Invocation, agent: str | None, as_json: bool, **given: str) -> None:
    facts = _call(invocation, "todo.change", agent=agent, **given)
    tell(facts, facts["told"], as_json=as_json)


def _call(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    return asyncio.run(_answer(invocation, call, arguments))


async def _answer(invocation: Invocation, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Ask the gateway that runs, or one in this process that opens the agents and starts nothing."""
    from gateway.base.errors import AlreadyRunning
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    state = invocation.paths.local
    holder = describe(invocation.paths.lock)
    if holder is not None and not holder.socket:
        hint = "End it (Ctrl-D), then run the command again, or edit TODO.md in the workspace."
        raise AlreadyRunning("a conversation in a terminal is using this folder", where=str(state), hint=hint)
    if holder is not None:
        found: dict[str, Any] = await gateway_calls.ask(state, call, **arguments)
        return found
    from gateway.app.dependencies import Dependencies
    from gateway.app.gateway import Gateway

    gateway = await Gateway.open(Dependencies(settings=invocation.loaded.settings, paths=invocation.paths, env=os.environ))
    try:
        made: dict[str, Any] = await gateway.agent_calls()[call](**arguments)
        return made
    finally:
        await gateway.close()
