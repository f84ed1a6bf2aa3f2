"""``homebody models auth``: adds, lists and removes keys of model providers."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import UsageError
from gateway.cli.gateway_calls import outcome, taken_over
from gateway.cli.invocation import Invocation, pass_invocation, say, warn

if TYPE_CHECKING:
    from gateway.models.key_profiles import Profiles

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
FOR_AGENT = click.option("--agent", "agent_id", help="Only for this agent (default: for all agents).")
_LONGEST = 4096


@click.group()
def auth() -> None:
    """Manage keys of model providers. If a provider has several keys, they are tried in order."""


@auth.command()
@click.argument("provider")
@click.option("--id", "profile_id", help="A name for the key, such as anthropic:work (default: PROVIDER:default).")
@click.option("--token", is_flag=True, help="The key is a sign-in that allows chat only; it is never used for embeddings.")
@FOR_AGENT
@AS_JSON
@pass_invocation
def add(  # noqa: PLR0917 -- what click hands in, by name
    invocation: Invocation, provider: str, profile_id: str | None, token: bool, agent_id: str | None, as_json: bool
) -> None:
    """Add a key, or replace the one with this name. It is prompted for, or read from a pipe: never give it as an argument."""
    from gateway.models.key_profiles import Profile, same_provider

    profiles = _profiles(invocation, agent_id)
    known = same_provider(provider)
    _check_provider(invocation, known)
    name = profile_id or f"{known}:default"
    profile = Profile(name, known, "token" if token else "api_key", _secret(known))
    profiles.file(agent_id).put(profile)
    facts = {"id": name, "provider": known, "mode": profile.mode, "agent": agent_id, "file": str(profiles.file(agent_id).path)}
    came = taken_over(invocation)
    unused = _unused(profiles, name, known)
    if as_json:
        click.echo(json.dumps(facts | {"unused": unused or None, "gateway": came}, ensure_ascii=False))
        return
    say(f"The key {name} was saved in {facts['file']}. Test it: homebody models probe {_model_of(known)}")
    if unused:
        say(f"homebody: warning: {unused}", err=True)
    _told_gateway(came)


@auth.command("list")
@FOR_AGENT
@AS_JSON
@pass_invocation
def list_(invocation: Invocation, agent_id: str | None, as_json: bool) -> None:
    """List the saved keys by name. Keys themselves are never shown."""
    warn(invocation.loaded)
    rows = _rows(_profiles(invocation, agent_id), [agent_id] if agent_id else list(invocation.loaded.settings.agent_ids))
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    if not rows:
        say("No keys are saved. Add one: homebody models auth add anthropic", err=True)
    for row in rows:
        left_out = f"  (not used: auth.order.{row['provider']} does not name it)" if row["unused"] else ""
        click.echo(f"{row['id']:32} {row['provider']:12} {row['mode']:8} {row['agent'] or 'all agents'}{left_out}")
    known = {row["id"] for row in rows}
    for provider, order in invocation.loaded.settings.auth.order.items():
        for gone in [one for one in order if one not in known]:
            hint = f"homebody models auth add {provider} --id {gone}"
            say(f"homebody: warning: auth.order.{provider} names {gone}, which does not exist ({hint})", err=True)


@auth.command()
@click.argument("profile_id")
@FOR_AGENT
@AS_JSON
@pass_invocation
def remove(invocation: Invocation, profile_id: str, agent_id: str | None, as_json: bool) -> None:
    """Delete a saved key."""
    profiles = _profiles(invocation, agent_id)
    if not profiles.file(agent_id).remove(profile_id):
        raise UsageError(
            f"there is no key {profile_id!r} in {profiles.file(agent_id).path}",
            hint=_elsewhere(invocation, profiles, profile_id)
            or f"There is: {_profile_names(profiles, agent_id)}. `homebody auth list` lists all.",
        )
    came = taken_over(invocation)
    if as_json:
        click.echo(json.dumps({"id": profile_id, "agent": agent_id, "removed": True, "gateway": came}, ensure_ascii=False))
        return
    click.echo(f"The key {profile_id} was deleted.")
    _told_gateway(came)


def _profile_names(profiles: Profiles, agent_id: str | None) -> str:
    return ", ".join(profiles.file(agent_id).profiles()) or "none"


def _elsewhere(invocation: Invocation, profiles: Profiles, profile_id: str) -> str:
    """The command that removes a key of this name from another file; "" if there is none."""
    for agent in (None, *invocation.loaded.settings.agent_ids):
        if profile_id in profiles.file(agent).profiles():
            return f"homebody models auth remove {profile_id}{f' --agent {agent}' if agent else ''}"
    return ""


def _unused(profiles: Profiles, profile_id: str, provider: str) -> str:
    """Why a saved key is not used; empty if it is used."""
    order = profiles.settings.order.get(provider)
    if not order or profile_id in order:
        return ""
    return f"{profile_id} is not used: auth.order.{provider} does not name it (homebody config unset auth.order.{provider})"


def _told_gateway(came: dict[str, Any] | None) -> None:
    if came is not None and came["complaint"]:
        say(f"homebody: warning: {outcome(came)}", err=True)


def _model_of(provider: str) -> str:
    from agent.models.catalog.known_models import PROVIDERS

    known = PROVIDERS.get(provider)
    return f"{provider}/{(known.default_model if known else '') or 'MODEL'}"


def _profiles(invocation: Invocation, agent_id: str | None) -> Profiles:
    from gateway.models.key_profiles import Profiles

    settings = invocation.loaded.settings
    if agent_id is not None:
        settings.agent(agent_id)  # says which agents there are, if this is none
    return Profiles(invocation.paths, settings.auth)


def _check_provider(invocation: Invocation, provider: str) -> None:
    from difflib import get_close_matches

    from agent.models.catalog.known_models import PROVIDERS

    known = [*invocation.loaded.settings.models.providers, *PROVIDERS]
    if provider not in known:
        near = get_close_matches(provider, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There is: {', '.join(known)}; configure others in models.providers."
        raise UsageError(f"there is no provider {provider!r}", hint=hint)


def _secret(provider: str) -> str:
    from agent.models.catalog.provider_keys import Key

    if sys.stdin.isatty():
        given = str(click.prompt(f"Key for {provider}", hide_input=True, default="", show_default=False))
    else:
        given = sys.stdin.read(_LONGEST)
    secret = given.strip()
    if secret and Key("given", "profile", secret).is_quoted:
        raise UsageError("the key is in quotes, which are not part of it", hint="Give the key without them.")
    if not secret or not Key("given", "profile", secret).is_sendable:
        raise UsageError(
            "this is not a key: it is empty, or contains a space, a line break or a non-ASCII character",
            hint="Copy it again, and enter nothing but the key.",
        )
    return secret


def _rows(profiles: Profiles, agents: list[str]) -> list[dict[str, Any]]:
    files = [(None, profiles.file()), *((agent, profiles.file(agent)) for agent in agents)]
    return [
        {
            "id": one.id,
            "provider": one.provider,
            "mode": one.mode,
            "agent": agent,
            "unused": bool(_unused(profiles, one.id, one.provider)),
        }
        for agent, file in files
        for one in file.profiles().values()
    ]
