"""``homebody api``: tokens for programs that call the gateway as they call OpenAI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import UsageError, unknown_agent
from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from gateway.base.client_tokens import ClientTokens

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_OFF = "The API is off. Switch it on: homebody config set gateway.openai.enabled true"


@click.group()
def api() -> None:
    """Let programs talk to your agents as they talk to OpenAI (docs/api.md)."""


@api.group()
def tokens() -> None:
    """Make, list and revoke the tokens of programs."""


@tokens.command()
@click.argument("name")
@click.option("--owner", is_flag=True, help="What comes with it counts as yours: your memory, your rights.")
@click.option("--guest", metavar="PERSON", help="What comes with it is a guest's of this name, with notes of their own.")
@click.option("--agent", "agent_id", help="The only agent that it may use (default: all).")
@_JSON
@pass_invocation
def add(invocation: Invocation, *, name: str, owner: bool, guest: str | None, agent_id: str | None, as_json: bool) -> None:
    """Make the token NAME for one program, and show it once. Say whose it is: --owner or --guest PERSON."""
    from gateway.base.clock import SystemClock

    if owner == (guest is not None):
        hint = f"homebody api tokens add {name} --owner, or: homebody api tokens add {name} --guest anna"
        raise UsageError("say whose token it is", hint=hint)
    known = invocation.loaded.settings.agent_ids
    if agent_id is not None and agent_id not in known:
        raise unknown_agent(agent_id, sorted(known))
    made, secret = _store(invocation).add(
        name, role="owner" if owner else "guest", guest=guest or "", agent=agent_id or "", now=SystemClock().now()
    )
    _shown(invocation, made.facts | {"token": secret}, f"The token {name} was made.", as_json=as_json)


@tokens.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, as_json: bool) -> None:
    """Show the tokens, without their secrets."""
    found = _store(invocation).all()
    enabled = invocation.loaded.settings.gateway.openai.enabled
    lines = [
        f"{one.name}  {(one.guest and f'guest {one.guest}') or 'owner'}  {one.agent or 'all agents'}  "
        f"since {invocation.local_time(one.created_at)}"
        for one in found
    ]
    if not found:
        lines = ["There are no tokens. Make one: homebody api tokens add NAME --owner"]
    tell(
        {"enabled": enabled, "tokens": [one.facts for one in found]},
        "\n".join(lines if enabled else [*lines, _OFF]),
        as_json=as_json,
    )


@tokens.command()
@click.argument("name")
@_JSON
@pass_invocation
def rotate(invocation: Invocation, name: str, as_json: bool) -> None:
    """Give the token NAME a new secret. The former one stops at once; its conversations stay."""
    made, secret = _store(invocation).rotate(name)
    _shown(invocation, made.facts | {"token": secret}, f"The token {name} has a new secret.", as_json=as_json)


@tokens.command()
@click.argument("name")
@_JSON
@pass_invocation
def revoke(invocation: Invocation, name: str, as_json: bool) -> None:
    """Revoke the token NAME at once. What was asked with it before is answered nevertheless."""
    tell(_store(invocation).revoke(name).facts, f"The token {name} was revoked.", as_json=as_json)


def _store(invocation: Invocation) -> ClientTokens:
    from gateway.base.client_tokens import ClientTokens

    return ClientTokens(invocation.paths.state)


def _shown(invocation: Invocation, facts: dict[str, Any], what: str, *, as_json: bool) -> None:
    """Show a new secret, and how it is used."""
    url = base_url(invocation)
    lines = [
        what,
        f"Token:    {facts['token']}",
        f"Base URL: {url}",
        f"Model:    homebody{'/' + facts['agent'] if facts['agent'] else ''}",
        "The token is shown only now.",
    ]
    if not invocation.loaded.settings.gateway.openai.enabled:
        lines.append(_OFF)
    tell(facts | {"baseUrl": url}, "\n".join(lines), as_json=as_json)


def base_url(invocation: Invocation) -> str:
    """Return the address for programs on this machine, or by a name that the settings know."""
    import os

    from gateway.base.state_lock import describe

    settings = invocation.loaded.settings.gateway.under(os.environ)
    holder = describe(invocation.paths.lock)
    port = (holder.http_port if holder is not None else None) or settings.port or "PORT"
    host = next((one for one in settings.allowed_hosts if settings.bind == "lan"), "127.0.0.1")
    named = host.rpartition("]")[2].count(":")
    return f"http://{host if named else f'{host}:{port}'}/v1"
