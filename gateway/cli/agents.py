"""``homebody agents``: lists, adds and removes agents, and shows what works now."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import UsageError
from gateway.cli.gateway_calls import ask, outcome, taken_over
from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway.config.document import Document
    from gateway.config.settings_file import Changed
    from gateway.settings.root import Settings
    from gateway.settings.routing_settings import BindingMatch

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_LIST = ("agents", "list")


@click.group()
def agents() -> None:
    """Add, list and remove agents. Each has its own workspace, sessions and memory."""


@agents.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, *, as_json: bool) -> None:
    """List the agents, with the number of routing rules (bindings) for each."""
    settings = invocation.loaded.settings
    rows = [_row(invocation, settings, agent) for agent in settings.agent_ids]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        default = ", the default" if row["default"] else ""
        count = row["bindings"]
        rules = f", {count} {'routing rule' if count == 1 else 'routing rules'}" if count else ""
        click.echo(f"{row['id']} ({row['name']}{default}): {row['workspace']}{rules}")


@agents.command()
@click.argument("agent_id", metavar="ID")
@click.option("--name", help="Display name; in groups the agent also answers to it.")
@click.option("--workspace", help="Folder for its files (default: ~/homebody-ID).")
@click.option("--model", help="Its model, as provider/model.")
@_JSON
@pass_invocation
def add(
    invocation: Invocation, agent_id: str, *, name: str | None, workspace: str | None, model: str | None, as_json: bool
) -> None:
    """Add the agent ID (lower-case letters, digits, - and _) to the settings file. Comments in the file are kept."""
    from gateway.models.missing_providers import missing_providers
    from gateway.settings.root import AGENT_ID, MAIN

    settings = invocation.loaded.settings
    if not re.fullmatch(AGENT_ID, agent_id):
        hint = "An id has lower-case letters, digits, - and _, and starts with a letter or digit, such as `work`."
        raise UsageError(f"{agent_id!r} is not a valid agent id", hint=hint)
    _check_free(settings, agent_id)
    wanted = {"id": agent_id, "name": name, "workspace": workspace, "model": model}
    entry = {key: value for key, value in wanted.items() if value}

    def edit(document: Document) -> str:
        from gateway.config.edit import with_value

        present = _present(invocation, document)
        _check_free(present, agent_id)
        if listed := len(present.agents.list):
            return with_value(document, (*_LIST, listed), entry)
        # main, which is there without being named, would be gone otherwise
        return with_value(document, _LIST, [{"id": MAIN}, entry])

    taken = None if workspace else _used_elsewhere(invocation, settings, agent_id)
    if taken is not None:
        entry["workspace"] = f"~/homebody-agent-{agent_id}"
    changed = _change(invocation, edit)
    came = taken_over(invocation)
    facts = _row(_fresh(invocation), _fresh(invocation).loaded.settings, agent_id)
    missing = missing_providers(_fresh(invocation).loaded.settings) if model else []
    for problem in missing:
        say(f"homebody: warning: {problem.as_text()}", err=True)
    facts |= {"file": str(changed.file), "gateway": came, "warnings": [problem.as_json() for problem in missing]}
    lead = f"homebody config set 'bindings[{len(settings.bindings)}]' '{{agentId: {agent_id}, match: {{channel: telegram}}}}'"
    apart = f", because {taken} belongs to another home (a profile of that name)" if taken else ""
    _tell(
        facts,
        f"Agent {agent_id} was added to {changed.file}. Its workspace is {facts['workspace']}{apart}. {outcome(came)}\n"
        f"Talk to it: homebody chat --agent {agent_id}. Route a channel to it: {lead}",
        as_json=as_json,
    )


def _used_elsewhere(invocation: Invocation, settings: Settings, agent_id: str) -> Path | None:
    """Return the usual workspace of a new agent if an agent of another home, such as a profile of that name, has it already."""
    from gateway.config.homes_beside import shared_workspaces
    from gateway.settings.root import AgentEntry

    more = [*settings.agents.list, AgentEntry(id=agent_id)]
    wanted = settings.model_copy(update={"agents": settings.agents.model_copy(update={"list": more})})
    found = (one for one in shared_workspaces(wanted, invocation.paths, os.environ) if one.agent == agent_id)
    shared = next(found, None)
    return shared.workspace if shared is not None else None


@agents.command()
@_JSON
@pass_invocation
def tree(invocation: Invocation, *, as_json: bool) -> None:
    """Show what works now: conversations with a turn and their sub-agents, with age, tokens and cost."""
    import asyncio

    from gateway.base.state_lock import describe
    from gateway.cli.gateway_calls import ask
    from gateway.subagents.tree_text import NOTHING, tree_text

    holder = describe(invocation.paths.lock)
    if holder is None or not holder.socket:
        nothing: dict[str, Any] = {"agents": [], "sessions": [], "subagents": []}
        tell(nothing, f"No gateway is running. {NOTHING}", as_json=as_json)
        return
    facts = asyncio.run(ask(invocation.paths.local, "agents.tree"))
    settings = invocation.loaded.settings
    names = {agent: settings.agent(agent).name for agent in settings.agent_ids}
    tell(facts, tree_text(facts, names).replace("**", "").replace("`", ""), as_json=as_json)


@agents.command()
@click.argument("agent_id", metavar="ID")
@_JSON
@pass_invocation
def remove(invocation: Invocation, agent_id: str, *, as_json: bool) -> None:
    """Remove the agent ID and its routing rules from the settings file. Its files and conversations are not deleted."""
    settings = invocation.loaded.settings
    _removable(settings, agent_id)
    rules: list[int] = []
    places: list[str] = []
    files = [str(settings.agent(agent_id).workspace), *(str(path) for path in _places(invocation, agent_id) if path.exists())]

    def edit(document: Document) -> str:
        from gateway.config.document import read_document
        from gateway.config.edit import without

        present = _present(invocation, document)
        rules[:] = [place for place, rule in enumerate(present.bindings) if rule.agent_id.lower() == agent_id]
        places[:] = [_place_of(present.bindings[rule].match) for rule in rules]
        text = without(document, (*_LIST, _removable(present, agent_id)))
        for rule in reversed(rules):
            text = without(read_document(text, document.file), ("bindings", rule))
        return text

    if settings.storage.url is not None:
        files.append("its conversations in PostgreSQL")
    if settings.agent(agent_id).memory.store.driver == "postgres":
        files.append("its search index in PostgreSQL")
    changed = _change(invocation, edit)
    came = taken_over(invocation)
    heir = _fresh(invocation).loaded.settings.default_agent
    facts = {
        "id": agent_id,
        "removed": True,
        "bindings": len(rules),
        "places": places,
        "answeredBy": heir,
        "kept": files,
        "file": str(changed.file),
        "gateway": came,
    }
    count = "its routing rule" if len(rules) == 1 else f"its {len(rules)} routing rules"
    gone = f" and {count}" if rules else ""
    inherited = (
        f"The agent {heir} answers there from now on, unless another rule says otherwise: {', '.join(places)}.\n"
        if places
        else ""
    )
    if heir != settings.default_agent:
        inherited += f"The default agent, which answers where no rule says otherwise, is {heir} from now on.\n"
    _tell(
        facts,
        f"Removed agent {agent_id}{gone} from {changed.file}. Kept: {', '.join(files)}. {outcome(came)}\n"
        f"{inherited}"
        f"To delete its conversations and its search index, too: homebody agents forget {agent_id}",
        as_json=as_json,
    )


@agents.command()
@click.argument("agent_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
@pass_invocation
def forget(invocation: Invocation, agent_id: str, *, yes: bool, as_json: bool) -> None:
    """Delete conversations and search index of the agent ID, which was removed. Its notes and other files are not deleted."""
    from msgspec.structs import replace

    from gateway.base.home_lock import running_in
    from gateway.storage import agent_deletion, index_removal

    settings = invocation.loaded.settings
    if not re.fullmatch(r"[\w-]+", agent_id):
        raise UsageError(f"{agent_id!r} is no id of an agent")
    if agent_id in settings.agent_ids:
        raise UsageError(f"{agent_id!r} is in the settings", hint=f"Remove it first: homebody agents remove {agent_id}")
    for gateway in running_in(invocation.paths.home):
        working = asyncio.run(ask(replace(invocation.paths, gateway=gateway).local, "status"))["agents"]
        if agent_id in working:
            raise UsageError(f"{agent_id!r} still ends what it does", hint="Try again in a minute.")
    kept = agent_deletion.kept_of(invocation.paths, settings.storage, agent_id)
    indexes = index_removal.indexes_of(invocation.paths, settings, agent_id)
    things = [f"{kept.transcripts} conversations ({kept.where})"] if kept.sessions or kept.transcripts else []
    things += [f"the search index ({where})" for where in indexes]
    if things:
        if not yes:
            click.confirm(f"Delete of {agent_id}: {', '.join(things)}?", abort=True, err=True)
        index_removal.remove_indexes(invocation.paths, settings, agent_id)
        kept = agent_deletion.forget(invocation.paths, settings.storage, agent_id)
    facts = {
        "id": agent_id,
        "sessions": kept.sessions,
        "transcripts": kept.transcripts,
        "where": kept.where,
        "indexes": indexes,
    }
    none = f"There are no conversations of {agent_id}, and no search index."
    tell(facts, f"Deleted of {agent_id}: {', '.join(things)}." if things else none, as_json=as_json)


def _present(invocation: Invocation, document: Document) -> Settings:
    """Return the settings of the file that is being changed, which others may have changed since it was read. Raises SettingsError."""
    from pathlib import Path

    from gateway.base.errors import SettingsError
    from gateway.config.load import check

    checked = check(document.text, Path(document.file), os.environ, invocation.paths)
    if checked.settings is None:
        raise SettingsError(checked.problems, where=document.file, hint="Nothing was written.")
    return checked.settings


def _check_free(settings: Settings, agent_id: str) -> None:
    """Raise UsageError where there is an agent of this id."""
    if agent_id in settings.agent_ids:
        raise UsageError(
            f"there already is an agent {agent_id!r}",
            hint=f"There is: {', '.join(settings.agent_ids)}. `homebody agents list` describes them.",
        )


def _removable(settings: Settings, agent_id: str) -> int:
    """Return the place of an agent in the list. Raises UsageError where it is not there, or is the only one."""
    if agent_id not in settings.agent_ids:
        hint = f"There is: {', '.join(settings.agent_ids)}. `homebody agents list` describes them."
        raise UsageError(f"there is no agent {agent_id!r} in the settings", hint=hint)
    if len(settings.agent_ids) == 1:
        raise UsageError(
            f"{agent_id!r} is the only agent, and at least one is needed",
            hint="Add another one first: homebody agents add ID",
        )
    return next(place for place, entry in enumerate(settings.agents.list) if entry.id == agent_id)


def _place_of(match: BindingMatch) -> str:
    """Return what a routing rule names, in words."""
    ids = (("account", match.account_id), ("server", match.guild_id), ("workspace", match.team_id), ("topic", match.thread))
    peer = [f"{match.peer.kind} {match.peer.id}"] if match.peer is not None else []
    return " ".join((match.channel, *peer, *(f"{name} {value}" for name, value in ids if value is not None)))


def _row(invocation: Invocation, settings: Settings, agent: str) -> dict[str, Any]:
    profile = settings.agent(agent)
    model = profile.settings.model
    return {
        "id": agent,
        "name": profile.name,
        "default": agent == settings.default_agent,
        "workspace": str(profile.workspace),
        "model": model.primary if model is not None and not isinstance(model, str) else model,
        "sessions": str(invocation.paths.sessions(agent)),
        "bindings": sum(rule.agent_id.lower() == agent for rule in settings.bindings),
    }


def _places(invocation: Invocation, agent: str) -> Sequence[Path]:
    """The agent's folders in the state directory."""
    memory = invocation.paths.home / "memory"
    return [invocation.paths.sessions(agent).parent, *sorted(memory.glob(f"{agent}.sqlite"))]


def _change(invocation: Invocation, edit: Any) -> Changed:
    from gateway.base.clock import SystemClock
    from gateway.config.settings_file import change

    return change(invocation.paths, os.environ, SystemClock().now(), edit)


def _fresh(invocation: Invocation) -> Invocation:
    """Return the same invocation without cached settings, so that they are read again."""
    from dataclasses import replace

    return replace(invocation)


def _tell(facts: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    tell(facts, sentence, as_json=as_json)
