"""``homebody skills``: which skills an agent has, why others are left out, and approving, installing and removing them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.base.errors import UsageError
from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from gateway.skills.catalog import SkillCatalog

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_AGENT = click.option("--agent", "agent_id", help="The agent (default: the default agent).")
_YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.group()
def skills() -> None:
    """Show, check, install, approve and remove skills: instructions that an agent reads when it needs them."""


@skills.command(name="list")
@_AGENT
@_JSON
@pass_invocation
def list_(invocation: Invocation, agent_id: str | None, as_json: bool) -> None:
    """List all skills that were found, and whether the agent is given them."""
    from gateway.skills import skill_words

    found = _catalog(invocation, agent_id).scan()
    tell({"skills": [skill_words.facts(one) for one in found]}, skill_words.listed(found), as_json=as_json)


@skills.command()
@click.argument("name")
@_AGENT
@_JSON
@pass_invocation
def show(invocation: Invocation, name: str, agent_id: str | None, as_json: bool) -> None:
    """Show the skill NAME: what it is for, where it lies, its files, and what it lacks."""
    from gateway.skills import skill_words
    from gateway.skills.choosing import named

    one = named(_catalog(invocation, agent_id), name)[0]
    tell(skill_words.details(one), skill_words.shown(one), as_json=as_json)


@skills.command()
@_AGENT
@_JSON
@pass_invocation
def check(invocation: Invocation, agent_id: str | None, as_json: bool) -> None:
    """Say of each skill that the agent is not given why, and what to do."""
    from gateway.skills import skill_words

    found = _catalog(invocation, agent_id).scan()
    left = [skill_words.facts(one) for one in found if one.state != "ready"]
    tell(
        {"ready": [one.name for one in found if one.state == "ready"], "left": left},
        skill_words.checked(found),
        as_json=as_json,
    )


@skills.command()
@click.argument("path", type=click.Path(path_type=Path))
@_YES
@_JSON
@pass_invocation
def install(invocation: Invocation, path: Path, yes: bool, as_json: bool) -> None:
    """Copy the skill in the folder PATH for all agents, and approve it. What is copied is shown first."""
    from gateway.skills import install as installing
    from gateway.skills import skill_words
    from gateway.skills.catalog import managed_folder
    from gateway.skills.trust import SkillTrust

    invocation.paths.prepare()
    one, managed = installing.candidate(path.expanduser()), managed_folder(invocation.paths)
    target = managed / one.header.name
    if not yes:
        _explained("install", as_json=as_json)
        does = "replaces the one that is installed" if target.exists() else "is copied"
        say(f"{one.header.name}: {one.header.description}\nIt {does}: {one.folder} -> {target}")
        say("\n".join(skill_words.file_lines(one.content.files)))
        _confirm("install", "The agent will follow what SKILL.md says. Did you read it, and install it?")
    installing.install(one, managed, SkillTrust(invocation.paths.state))
    done = {"name": one.header.name, "path": str(target), "digest": one.content.digest}
    tell(
        done,
        f"Installed {one.header.name} in {target}. homebody skills check says whether it lacks something.",
        as_json=as_json,
    )


@skills.command()
@click.argument("name")
@click.option("--digest", help="Approve only if this is its digest (or its beginning, of 8 figures or more).")
@_AGENT
@_YES
@_JSON
@pass_invocation
def approve(invocation: Invocation, *, name: str, digest: str | None, agent_id: str | None, yes: bool, as_json: bool) -> None:
    """Approve the skill NAME as it is now. When a file of it changes, you are asked again."""
    from gateway.skills import skill_words
    from gateway.skills.choosing import approvable, named

    catalog = _catalog(invocation, agent_id)
    one = approvable(named(catalog, name), digest)
    if not yes and one.state != "ready":
        _explained("approve", as_json=as_json)
        say(skill_words.shown(one))
        _confirm("approve", f"The agent will follow what {one.folder / 'SKILL.md'} says. Did you read it, and approve it?")
    if one.place != "bundled":
        invocation.paths.prepare()
        catalog.trust.approve(one.name, one.digest)
    tell({"name": one.name, "digest": one.digest}, f"Approved {one.name} as it is now.", as_json=as_json)


@skills.command()
@click.argument("name")
@_AGENT
@_YES
@_JSON
@pass_invocation
def remove(invocation: Invocation, name: str, agent_id: str | None, yes: bool, as_json: bool) -> None:
    """Delete the installed skill NAME and withdraw its approval. Of one that lies elsewhere the approval alone is withdrawn."""
    from gateway.skills import install as installing
    from gateway.skills.choosing import named

    catalog = _catalog(invocation, agent_id)
    found = named(catalog, name)
    installed = next((one for one in found if one.place == "managed"), None)
    if installed is None and all(one.place == "bundled" for one in found):
        key = f"skills.entries.{name}.enabled"
        raise UsageError(
            f"{name} comes with Homebody and is not removed", hint=f"Switch it off: homebody config set {key} false"
        )
    if not yes:
        _explained("remove", as_json=as_json)
        does = f"Delete {installed.folder}, and withdraw" if installed else "Withdraw"
        _confirm("remove", f"{does} the approval of {name}?")
    if installed is not None:
        installing.remove(installed.folder)
    catalog.trust.withdraw(name)
    kept = [str(one.folder) for one in found if one.place in {"workspace", "extra"}]
    rest = f" What lies in {', '.join(kept)} was not deleted; it counts again once you approve it." if kept else ""
    what = "Removed" if installed else "Withdrew the approval of"
    tell({"name": name, "removed": installed is not None, "kept": kept}, f"{what} {name}.{rest}", as_json=as_json)


def _catalog(invocation: Invocation, agent: str | None) -> SkillCatalog:
    from gateway.settings.root import SettingsStore
    from gateway.skills.catalog import SkillCatalog
    from gateway.skills.trust import SkillTrust

    settings = invocation.loaded.settings
    chosen = settings.agent(agent or settings.default_agent).id
    return SkillCatalog(chosen, SettingsStore(settings), invocation.paths, SkillTrust(invocation.paths.state), os.environ)


def _confirm(command: str, question: str) -> None:
    """Ask, and go on only after a yes. Raises UsageError where nobody can answer."""
    try:
        said = click.confirm(question)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo()
        told = f"skills {command} asks before it does something, and there was no answer"
        raise UsageError(told, hint="Add --yes where a program runs it.") from None
    if not said:
        raise click.Abort


def _explained(command: str, *, as_json: bool) -> None:
    """Refuse to ask where nobody can answer."""
    if as_json:
        raise UsageError(f"skills {command} asks before it does something", hint="Add --yes where a program runs it.")
