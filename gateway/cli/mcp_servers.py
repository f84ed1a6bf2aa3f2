"""``homebody mcp``: adds, lists, shows, tests, approves and removes MCP servers whose tools agents use."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import HomebodyError, UsageError
from gateway.cli.gateway_calls import outcome, taken_over
from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.config.document import Document
    from gateway.config.settings_file import Changed

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_NAME = click.argument("name")
_SECTION = ("mcp", "servers")
_FETCHES = frozenset(
    {"npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "bun", "deno", "uvx", "uv", "pipx", "docker", "podman", "ssh", "sudo", "env"}
)
"""Programs that need more than a confined program is given."""
_UNCONFINED = (
    "⚠️ It is not confined ({why}): it may read your files and use the network as you may. docs/mcp.md says how to confine it."
)
_CONFINED = (
    "It is confined: it sees the system's programs and its own folder. If it needs more: homebody mcp remove {name}, and add it again with "
    "--network, --read PATH or --write PATH, or with --no-sandbox."
)


@click.command(context_settings={"ignore_unknown_options": True})
@_NAME
@click.option("--url", help="The address of a server over HTTP.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of its environment; VALUE may be ${NAME}.")
@click.option("--cwd", help="The folder in which the program starts.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="A header for requests to the address.")
@click.option("--bearer-token", help="A token for the address, best as ${NAME}.")
@click.option("--agent", "agents", multiple=True, help="An agent that may use it (default: the default agent); * for all.")
@click.option("--allow", multiple=True, help="A tool of it that may be used, with *; others may not.")
@click.option("--deny", multiple=True, help="A tool of it that may not be used, with *.")
@click.option("--timeout", type=float, help="Seconds that a call may take.")
@click.option("--trust-read-only", is_flag=True, help="Let tools that the server calls read-only run without a question.")
@click.option("--sandbox/--no-sandbox", default=None, help="Confine the program (default, unless it fetches other programs).")
@click.option("--network", is_flag=True, help="Let the confined program use the network.")
@click.option("--read", multiple=True, metavar="PATH", help="A file or folder that the confined program may read.")
@click.option("--write", multiple=True, metavar="PATH", help="A file or folder that the confined program may read and write.")
@click.option("--no-test", is_flag=True, help="Do not connect to it now.")
@_JSON
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@pass_invocation
def add(invocation: Invocation, /, name: str, command: tuple[str, ...], *, no_test: bool, as_json: bool, **given: Any) -> None:
    """Add the server NAME: a program, as `homebody mcp add files -- npx -y some-server ~/notes`, or an address (--url).

    It is started once to ask what it offers, which is pinned: when it offers something else later, you are asked.
    """
    from gateway.settings.mcp_settings import SERVER_NAME

    _check_name(name, SERVER_NAME)
    if name in invocation.loaded.settings.mcp.servers:
        raise _known_already(name)
    entry = _entry(command, given)
    changed = _change(invocation, lambda document: _with(document, name, entry))
    came = taken_over(invocation)
    facts: dict[str, Any] = {"name": name, "file": str(changed.file), "gateway": came}
    lines = [f"The MCP server {name} was added to {changed.file}. {outcome(came)}"]
    confined = entry.get("sandbox") == "bwrap"
    lines += [_UNCONFINED.format(why=_why_unconfined(command, given["sandbox"]))] if command and not confined else []
    if not no_test:
        try:
            shown = asyncio.run(_asked(_fresh(invocation), "mcp.test", name=name))
        except HomebodyError as error:
            facts["error"] = str(error)
            lines.append(f"⚠️ It cannot be used yet: {error}. {error.hint} Try again with: homebody mcp test {name}".strip())
            lines += [_CONFINED.format(name=name)] if confined and "there is no program" not in str(error) else []
        else:
            facts["server"] = shown
            lines += [_shown(shown), "This is pinned: where it says something else later, you are asked."]
    tell(facts, "\n".join(lines), as_json=as_json)


@click.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, *, as_json: bool) -> None:
    """List the servers, what their tools cost in each request, and whether they work."""
    facts = asyncio.run(_asked(invocation, "mcp.list"))
    tell(facts, _listed(facts), as_json=as_json)


@click.command()
@_NAME
@_JSON
@pass_invocation
def show(invocation: Invocation, name: str, *, as_json: bool) -> None:
    """Show the server NAME with its tools, and what it offers otherwise than approved. Nothing is started."""
    facts = asyncio.run(_asked(invocation, "mcp.show", name=name))
    tell(facts, _shown(facts), as_json=as_json)


@click.command()
@_NAME
@_JSON
@pass_invocation
def test(invocation: Invocation, name: str, *, as_json: bool) -> None:
    """Connect to the server NAME now, and show what it offers. What it offers for the first time is pinned."""
    facts = asyncio.run(_asked(invocation, "mcp.test", name=name))
    tell(facts, f"{name} works.\n{_shown(facts)}", as_json=as_json)


@click.command()
@_NAME
@click.option("--digest", default="", help="Approve only if this is what it offers, as `homebody mcp show` prints it.")
@_JSON
@pass_invocation
def approve(invocation: Invocation, name: str, digest: str, *, as_json: bool) -> None:
    """Approve what the server NAME offered last, so that its new and changed tools can be used."""
    facts = asyncio.run(_asked(invocation, "mcp.approve", name=name, digest=digest))
    tell(facts, f"Approved: {facts['approved']}.\n{_shown(facts)}", as_json=as_json)


@click.command()
@_NAME
@_JSON
@pass_invocation
def remove(invocation: Invocation, name: str, *, as_json: bool) -> None:
    """Remove the server NAME from the settings, and what was approved of it."""
    if name not in invocation.loaded.settings.mcp.servers:
        known = ", ".join(sorted(invocation.loaded.settings.mcp.servers)) or "none"
        raise UsageError(f"there is no MCP server {name!r} in the settings", hint=f"There is: {known}.")

    def edit(document: Document) -> str:
        from gateway.config.edit import without

        return without(document, (*_SECTION, name))

    changed = _change(invocation, edit)
    came = taken_over(invocation)
    asyncio.run(_asked(_fresh(invocation), "mcp.forget", name=name))
    facts = {"name": name, "removed": True, "file": str(changed.file), "gateway": came}
    tell(facts, f"The MCP server {name} was removed from {changed.file}. {outcome(came)}", as_json=as_json)


def _check_name(name: str, pattern: str) -> None:
    """Refuse a name that no server can have. Raises UsageError."""
    import re

    if not re.fullmatch(pattern, name):
        raise UsageError(
            f"{name!r} is no name for an MCP server", hint="It has lower-case letters, figures and -, such as `files`."
        )


def _entry(command: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a new server. Raises UsageError."""
    if bool(command) == bool(given["url"]):
        raise UsageError(
            "a server is either a program or an address",
            hint="homebody mcp add NAME -- COMMAND [ARGUMENT ...], or homebody mcp add NAME --url http://host:port/mcp",
        )
    entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])} if command else {"url": given["url"]}
    asked = given["network"] or given["read"] or given["write"]
    if asked and given["sandbox"] is False:
        raise UsageError("--network, --read and --write say what a confined program may use", hint="Leave --no-sandbox out.")
    if command and (asked or given["sandbox"] or not _why_unconfined(command, given["sandbox"])):
        more = {"network": given["network"], "readPaths": list(given["read"]), "writePaths": list(given["write"])}
        entry |= {"sandbox": "bwrap", **more}
    elif asked or given["sandbox"]:
        raise UsageError("only a program can be confined, not a server over HTTP", hint="Leave out what is for the sandbox.")
    entry |= {
        "env": _pairs("--env", given["env"]),
        "headers": _pairs("--header", given["header"]),
        "cwd": given["cwd"],
        "bearerToken": given["bearer_token"],
        "agents": list(given["agents"]),
        "allow": list(given["allow"]),
        "deny": list(given["deny"]),
        "timeoutSec": given["timeout"],
        "trustReadOnly": given["trust_read_only"],
    }
    return {key: value for key, value in entry.items() if value}


def _why_unconfined(command: Sequence[str], asked: bool | None) -> str:
    """Say why a program is not confined unless that is asked for; "" where it is."""
    import shutil

    program = command[0].rpartition("/")[2] if command else ""
    if asked is False:
        return "--no-sandbox"
    if program in _FETCHES:
        return f"{program} fetches and starts other programs, which needs the network and your files"
    return "" if shutil.which("bwrap") else "bubblewrap is not installed"


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    found = [one.partition("=") for one in given]
    if odd := next((name for name, sign, _ in found if not sign or not name), None):
        raise UsageError(f"{option} {odd} has no value", hint=f"Write it as {option} NAME=VALUE.")
    return {name: value for name, _, value in found}


def _with(document: Document, name: str, entry: dict[str, Any]) -> str:
    from gateway.config.edit import with_value
    from gateway.config.syntax_tree import plain

    node = plain(document.root)
    for step in _SECTION:  # another command may have added it since the settings were read
        node = node.get(step) if isinstance(node, dict) else None
    if isinstance(node, dict) and name in node:
        raise _known_already(name)
    return with_value(document, (*_SECTION, name), entry)


def _known_already(name: str) -> UsageError:
    return UsageError(f"there already is an MCP server {name!r}", hint=f"homebody mcp remove {name} removes it")


def _change(invocation: Invocation, edit: Any) -> Changed:
    from gateway.base.clock import SystemClock
    from gateway.config.settings_file import change

    return change(invocation.paths, os.environ, SystemClock().now(), edit)


def _fresh(invocation: Invocation) -> Invocation:
    """Return the same invocation without cached settings, so that they are read again."""
    from dataclasses import replace

    return replace(invocation)


async def _asked(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    """Make a call to the gateway that runs, or do it here if none does."""
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    holder = describe(invocation.paths.lock)
    if holder is not None and holder.socket:
        found: dict[str, Any] = await gateway_calls.ask(invocation.paths.local, call, **arguments)
        return found
    from gateway.base.clock import SystemClock
    from gateway.mcp.requests import McpRequests
    from gateway.mcp.servers import McpServers

    settings = invocation.loaded.settings
    servers = McpServers(settings.mcp, invocation.paths.state, SystemClock(), lambda text: click.echo(text, err=True))
    try:
        answer: dict[str, Any] = await McpRequests(servers, lambda: settings).calls()[call](**arguments)
        return answer
    finally:
        await servers.close()


def _listed(facts: dict[str, Any]) -> str:
    if not facts["servers"]:
        return "There are no MCP servers. Add one: homebody mcp add NAME -- COMMAND, or --url ADDRESS (docs/mcp.md)"
    lines: list[str] = []
    for one in facts["servers"]:
        if not one["enabled"]:
            lines.append(f"{one['name']}: off")
            continue
        lines.append(
            f"{one['name']}: {one['state']}, {one['tools']} tools, {one['tokens']:,} tokens, for {', '.join(one['agents'])}"
        )
        lines.append(f"  {one['where']}")
        lines += _confinement(one)
        lines += [f"  ⚠️ {one['error']}"] if one["error"] else []
        lines += [_waits(one)] if one["difference"] else []
        lines += [f"  Never asked what it offers: homebody mcp test {one['name']}"] if one["pinned"] is None else []
    total = sum(one.get("tokens", 0) for one in facts["servers"])
    if total > facts["toolBudgetTokens"]:
        lines.append(
            f"Agents whose servers take more than {facts['toolBudgetTokens']:,} tokens together find the tools with tool_search."
        )
    return "\n".join(lines)


def _confinement(facts: dict[str, Any]) -> list[str]:
    """Say what the program of a server may see; nothing of a server over HTTP."""
    if facts["sandbox"] is None:
        return []
    if facts["sandbox"] == "off":
        return ["  not confined: it may do what your user may"]
    more = [f"reads {', '.join(facts['readPaths'])}"] if facts["readPaths"] else []
    more += [f"writes {', '.join(facts['writePaths'])}"] if facts["writePaths"] else []
    return [f"  confined: {'; '.join(['with the network' if facts['network'] else 'no network', *more])}"]


def _waits(facts: dict[str, Any]) -> str:
    name, digest = facts["name"], facts["digest"]
    line = f"  🔐 It offers something else than you approved: {facts['difference']}."
    return f"{line} Look: homebody mcp show {name}. Approve: homebody mcp approve {name} --digest {digest}"


def _shown(facts: dict[str, Any]) -> str:
    title = f", {facts['title']}" if facts["title"] else ""
    lines = [f"{facts['name']}: {facts['state']}{title}", f"  {facts['where']}", *_confinement(facts)]
    lines += [f"  {_tool_line(one)}" for one in facts["offers"]]
    if facts["resources"] or facts["prompts"]:
        kinds = [kind for kind in ("resources", "prompts") if facts[kind]]
        lines.append(f"  {' and '.join(kinds)} (mcp_read)")
    lines += [f"  left out: {one['tool']}: {one['why']}" for one in facts["leftOut"]]
    lines += [f"  ⚠️ {facts['error']}"] if facts["error"] else []
    if facts["difference"]:
        lines += [_waits(facts), *(f"    {_tool_line(one)}" for one in facts["waiting"])]
    return "\n".join(lines)


def _tool_line(facts: dict[str, Any]) -> str:
    hints = [] if facts.get("allowed", True) else ["not allowed by the settings"]
    hints += ["changed: cannot be used"] if facts.get("changed") else []
    hints += ["says that it only reads"] if facts["saysReadOnly"] else []
    about = " ".join(facts["description"].split())
    suffix = f" ({', '.join(hints)})" if hints else ""
    arguments = " | ".join(facts["argumentTexts"])
    return f"{facts['tool']}: {about[:300]}{suffix}" + (f"\n      arguments: {arguments[:600]}" if arguments else "")
