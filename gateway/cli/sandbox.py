"""``homebody sandbox``: what commands of an agent can see, write and reach, and whether that holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

_AGENT = click.option("--agent", "agent_id", help="The agent (default: the default agent).")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_RUNGS = {
    "bwrap": "confined by bubblewrap",
    "landlock": "confined by Landlock",
    "off": "not confined: every one is asked about",
}


@click.group()
def sandbox() -> None:
    """Show and check what commands of an agent can see, write and reach (docs/confinement.md)."""


@sandbox.command()
@_AGENT
@_JSON
@pass_invocation
def explain(invocation: Invocation, *, agent_id: str | None, as_json: bool) -> None:
    """Show what a command can see, write, reach and use, for each origin of a turn, and why."""
    facts = _ask_gateway(invocation, "explain", agent_id)
    tell(facts, "\n".join(_explained(facts)), as_json=as_json)


@sandbox.command()
@_AGENT
@_JSON
@pass_invocation
def check(invocation: Invocation, *, agent_id: str | None, as_json: bool) -> int:
    """Run a command that tries to reach what it must not. Exit code 1 if it reached anything, or commands are not confined."""
    facts = _ask_gateway(invocation, "check", agent_id)
    tell(facts, "\n".join(_checked(facts)), as_json=as_json)
    return 0 if facts["holds"] else 1


def _ask_gateway(invocation: Invocation, what: str, agent: str | None) -> dict[str, Any]:
    """Ask the gateway that runs, as its surroundings decide (a systemd unit, a container); otherwise try it from here."""
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    name = agent or invocation.loaded.settings.default_agent
    holder = describe(invocation.paths.lock)
    if holder is not None and holder.socket:
        found: dict[str, Any] = asyncio.run(gateway_calls.ask(invocation.paths.local, f"sandbox.{what}", agent=name))
        return found
    return asyncio.run(_from_here(invocation, what, name))


async def _from_here(invocation: Invocation, what: str, agent: str) -> dict[str, Any]:
    from gateway.sandbox.command_sandbox import CommandSandbox

    settings = invocation.loaded.settings
    made = CommandSandbox(invocation.paths, lambda: settings)
    try:
        return await (made.explain(agent) if what == "explain" else made.check(agent))
    finally:
        await made.close()


def _explained(facts: dict[str, Any]) -> Iterator[str]:
    yield f"Commands of the agent {facts['agent']} (workspace {facts['workspace']}, access {facts['workspaceAccess']})"
    for names, said in _alike(facts["origins"]):
        yield f"\nIn turns of {names} they are {_RUNGS[said['rung']] if said['runs'] else 'not run at all'}."
        if said["reason"]:
            yield f"  why:    {said['reason']}"
        if said["hint"]:
            yield f"  mend:   {said['hint']}"
        for key, title in (
            ("reads", "read"),
            ("writes", "write"),
            ("reaches", "reach"),
            ("hidden", "hidden"),
            ("lacks", "but"),
        ):
            if said.get(key):
                yield f"  {title + ':':7} {'; '.join(said[key])}"
    for path, reason in facts["refusedPaths"].items():
        yield f"  ! {path} is not given to commands: {reason}"
    limits = facts["limits"]
    tmp = f", /tmp {limits['tmpMb']} MB in memory" if limits["tmpMb"] else ""
    yield (
        f"\nLimits: {limits['timeoutSeconds']:.0f} s, {limits['processes']} processes, {limits['memoryMb']} MB of memory, "
        f"{limits['fileMb']} MB a file, {limits['cpuSeconds']} s of processor time a process{tmp}."
    )
    yield "Which commands run without a question: homebody approvals rules"


def _alike(origins: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Put origins with the same answer together."""
    results: list[tuple[list[str], dict[str, Any]]] = []
    for origin, said in origins.items():
        same = next((names for names, known in results if known == said), None)
        if same is None:
            results.append(([origin], said))
        else:
            same.append(origin)
    for names, said in results:
        yield ", ".join(names), said


def _checked(facts: dict[str, Any]) -> Iterator[str]:
    yield f"Commands of the agent {facts['agent']} are {_RUNGS[facts['rung']]}."
    if facts["problem"]:
        yield f"  {facts['problem']}"
    if facts["hint"]:
        yield f"  {facts['hint']}"
    yield f"  {'tried':32} {'confined':24} unconfined"
    for name, seen in facts["canaries"].items():
        confined = "not tried" if seen["confined"] is None else seen["confined"] or "nothing"
        yield f"  {name.replace('_', ' '):32} {confined:24} {seen['unconfined'] or 'nothing'}"
    yield "It holds." if facts["holds"] else "It does not hold."
