"""``homebody models``: lists models, shows which one each agent uses, and tests it."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import with_commands_as_started
from gateway.cli.invocation import Invocation, pass_invocation, say, warn
from gateway.cli.models_auth import auth

if TYPE_CHECKING:
    from agent.models.catalog.model_listing import Limits
    from agent.models.catalog.provider_keys import Key
    from agent.models.middleware.key_health import KeyHealth
    from gateway.models.key_profiles import Profiles
    from gateway.settings.root import Settings

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_THOUSAND = 1000
_MILLION = 1_000_000


@click.group()
def models() -> None:
    """List, select and test language models."""


models.add_command(auth)


@models.command("list")
@click.option("--all", "everything", is_flag=True, help="Include models of providers that have no key yet.")
@AS_JSON
@pass_invocation
def list_(invocation: Invocation, everything: bool, as_json: bool) -> None:
    """List the known models. Other model ids work too: they are sent to the provider unchanged."""
    from agent.models.catalog.discovery import find_local, served
    from agent.models.catalog.model_listing import offers
    from gateway.models.model_registry import price_list

    settings = _settings(invocation).models
    here = asyncio.run(find_local(os.environ))
    key_source = _profiles(invocation).key_source(invocation.loaded.settings.default_agent)
    own = asyncio.run(served(settings, os.environ, key_source))
    named = [f"{provider}/{name}" for provider, names in own.items() for name in names]
    offered = offers(settings, os.environ, here, key_source, named, prices=price_list(settings), learnt=_learnt(invocation))
    found = [offer for offer in offered if everything or offer.usable or as_json]
    if as_json:
        _print_json([offer.as_json() for offer in found])
        return
    click.echo(f"{'model':44} {'window':>9} {'answer':>8}  USD per 1M tokens, in / out")
    for offer in found:
        price = "not known" if offer.input_price is None else f"{offer.input_price:g} / {offer.output_price:g}"
        click.echo(
            f"{offer.name:44} {_short(offer.window):>9} {_short(offer.max_output):>8}  {price if offer.usable else 'no key'}"
        )
    if not everything:
        say("\nModels that need another key are listed by: homebody models list --all", err=True)


@models.command()
@AS_JSON
@pass_invocation
def status(invocation: Invocation, as_json: bool) -> None:
    """Show each agent's model, and each provider's address and key status. Keys themselves are never shown."""
    facts = asyncio.run(_status(_settings(invocation), _profiles(invocation), _health(invocation), _learnt(invocation)))
    if as_json:
        _print_json(facts)
        return
    for agent in facts["agents"]:
        said = f"{agent['model']} ({_short(agent['window'])} tokens)" if agent["model"] else f"no model: {agent['problem']}"
        click.echo(f"agent {agent['id']}: {said}, {agent['chosen']}")
        if agent["mend"]:
            click.echo(f"  {agent['mend']}")
    from gateway.config.secrets import mask_passwords

    click.echo(f"\n{'provider':12} {'address':56} key")
    for provider in facts["providers"]:
        hint = f": export {provider['variable']}=..." if provider["key"] == "missing" and provider["variable"] else ""
        if not provider["address"]:
            hint = f"  (no address: homebody config set models.providers.{provider['provider']}.baseUrl http://HOST:PORT/v1)"
        click.echo(f"{provider['provider']:12} {mask_passwords(provider['address']):56} {provider['key']}{hint}")
        for key in provider["keys"]:
            click.echo(f"{'':12}   {key['from']}: {_well(key)}")


@models.command()
@click.argument("name", required=False)
@click.option("--agent", "agent_id", help="Test the model of this agent (default: the default agent).")
@AS_JSON
@pass_invocation
def probe(invocation: Invocation, name: str | None, agent_id: str | None, as_json: bool) -> None:
    """Send a model one short request with a tool, and show the result. Costs a few tokens.

    NAME is provider/model or an alias; without it, the agent's own model is tested.
    """
    from gateway.models.model_probe import probed

    facts = asyncio.run(probed(_settings(invocation), name, agent_id, _profiles(invocation)))
    for refused in facts["refused"]:
        say(f"homebody: warning: {refused['from']} was rejected: {refused['why']} {refused['mend']}", err=True)
    if as_json:
        _print_json(facts)
        return
    usage = facts["usage"] or {}
    click.echo(
        f"{facts['model']} answered in {facts['ms']:,} ms (first word after {facts['firstMs']:,} ms): {facts['reply'] or '-'}"
    )
    if facts["key"]:
        click.echo(f"  with the key of {facts['key']}")
    click.echo(f"  window {facts['window']:,} tokens, tokens used {usage.get('input', '?')} in, {usage.get('output', '?')} out")


def _settings(invocation: Invocation) -> Settings:
    warn(invocation.loaded)
    return invocation.loaded.settings


def _profiles(invocation: Invocation) -> Profiles:
    from gateway.models.key_profiles import Profiles

    return Profiles(invocation.paths, invocation.loaded.settings.auth)


def _health(invocation: Invocation) -> KeyHealth:
    from agent.models.middleware.key_health import KeyHealth
    from gateway.base.clock import SystemClock
    from gateway.models.facts_cache import KEY_HEALTH_NAME, KeyHealthFile

    return KeyHealth(SystemClock(), KeyHealthFile(invocation.paths.state / KEY_HEALTH_NAME))


def _learnt(invocation: Invocation) -> Limits:
    from gateway.models.facts_cache import FILE_NAME, ModelFactsCache

    return ModelFactsCache(invocation.paths.state / FILE_NAME).limits


async def _status(settings: Settings, profiles: Profiles, health: KeyHealth, learnt: Limits) -> dict[str, Any]:
    from agent.models.catalog.model_listing import standings
    from agent.models.catalog.provider_keys import keys_of

    key_source = profiles.key_source(settings.default_agent)
    return {
        "agents": [await _standing_of(agent_id, settings, profiles, learnt) for agent_id in settings.agent_ids],
        "providers": [
            {
                **standing.as_json(),
                "keys": [
                    {"from": key.label, "ailing": _ailing(health, key)}
                    for key in keys_of(standing.provider, settings.models, os.environ, key_source)
                ],
            }
            for standing in standings(settings.models, os.environ, key_source)
        ],
    }


def _ailing(health: KeyHealth, key: Key) -> list[dict[str, Any]]:
    return [
        {"model": model, "why": ill.kind, "until": ill.until.isoformat(timespec="seconds")}
        for model, ill in health.ailing(key).items()
    ]


def _well(key: dict[str, Any]) -> str:
    ills = [
        f"paused until {ill['until']} ({ill['why'].replace('_', ' ')}, {'every model' if ill['model'] == '*' else ill['model']})"
        for ill in key["ailing"]
    ]
    return "; ".join(ills) or "well"


async def _standing_of(agent_id: str, settings: Settings, profiles: Profiles, learnt: Limits) -> dict[str, Any]:
    from agent.errors import AgentError
    from agent.models.catalog.model_listing import limits_of
    from agent.models.notebook import NAME as OFFLINE
    from agent.models.notebook.notebook_model import NotebookModel
    from gateway.models.model_probe import placed, wanted_model

    wanted = wanted_model(settings, agent_id)
    chosen = "as configured" if wanted else "chosen automatically"
    try:
        place = await placed(settings, wanted, agent_id, profiles)
    except AgentError as error:
        return {"id": agent_id, "model": None, "window": None, "chosen": chosen, "problem": str(error), "mend": error.hint}
    known = (OFFLINE, NotebookModel.window) if place is None else (place.name, limits_of(place, learnt)[0])
    return {"id": agent_id, "model": known[0], "window": known[1], "chosen": chosen, "problem": None, "mend": ""}


def _short(tokens: int | None) -> str:
    if tokens is None:
        return "?"
    if tokens >= _MILLION:
        return f"{tokens / _MILLION:.3g}M"
    return f"{tokens // _THOUSAND}k" if tokens >= _THOUSAND else str(tokens)


def _print_json(value: Any) -> None:
    from gateway.config.secrets import mask_passwords

    click.echo(json.dumps(mask_passwords(with_commands_as_started(value)), ensure_ascii=False))
