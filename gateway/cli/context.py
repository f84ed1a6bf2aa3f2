"""``homebody context``: shows what fills a session's context window."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell


@click.command()
@click.option("--agent", "agent_id", help="The agent (default: the default agent).")
@click.option("--session", help="The session key (default: the owner's main session).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def context(invocation: Invocation, agent_id: str | None, session: str | None, as_json: bool) -> None:
    """Show each part of the next model request: characters, tokens and share."""
    facts = asyncio.run(_facts(invocation, agent_id, session))
    tell(facts, _told(facts), as_json=as_json)


async def _facts(invocation: Invocation, agent_id: str | None, session: str | None) -> dict[str, Any]:
    from gateway.base.state_lock import describe
    from gateway.cli import starting

    if describe(invocation.paths.state / "gateway.lock") is not None:
        found: dict[str, Any] = await starting.ask(invocation.paths.state, "context", agent=agent_id, session=session)
        return found
    from gateway.app.dependencies import Dependencies
    from gateway.app.gateway import Gateway

    house = await Gateway.open(Dependencies(settings=invocation.loaded.settings, paths=invocation.paths, env=os.environ))
    try:
        return await house.status.context(agent_id, session)
    finally:
        await house.close()


def _told(facts: dict[str, Any]) -> str:
    total = sum(part["tokens"] for part in facts["parts"]) or 1
    rows = [f"{'part':24} {'characters':>10} {'tokens':>8} {'share':>6}  cached"]
    rows += [
        f"{part['name'][:24]:24} {part['chars']:>10,} {part['tokens']:>8,} {part['tokens'] / total:>6.0%}  "
        f"{'yes' if part['cached'] else 'no'}"
        for part in facts["parts"]
    ]
    left = facts["turns_left"]
    obstacle = facts["flush_obstacle"]
    rows += [
        "",
        f"{facts['tokens']:,} of {facts['window']:,} tokens; memory is "
        + (f"not flushed: {obstacle}" if obstacle else f"flushed at {facts['flush_at']:,}")
        + ("" if left is None or obstacle else f", in about {left} turns")
        + f"; history is compacted above {facts['compact_above']:,}.",
    ]
    rows += [facts["too_small"]] if facts["too_small"] else []
    return "\n".join(rows)
