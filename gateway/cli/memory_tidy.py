"""``homebody memory tidy``: shows what a model proposes for tidying the notes, and carries out what the owner accepts."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

_KINDS = {
    "merge": "lines that say the same",
    "contradiction": "lines that contradict each other",
    "stale": "something that no longer holds",
    "promote": "a lasting fact for MEMORY.md",
}

_ANSWERS = {form: word[0] for word in ("yes", "no", "later", "quit") for form in (word, word[0])}


@click.command()
@click.option("--agent", help="Agent whose notes are tidied; the default agent if omitted.")
@click.option("--dry-run", is_flag=True, help="Show the proposals and decide nothing; they are kept for the next time.")
@click.option("--yes", is_flag=True, help="Accept all proposals.")
@click.option("--again", is_flag=True, help="Ask the model anew, even if proposals wait.")
@click.option(
    "--limit-usd",
    type=click.FloatRange(0),
    help="Most that it may cost, with what tidying has cost today; memorySearch.tidy.limitUsd if omitted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def tidy(invocation: Invocation, /, agent: str | None, limit_usd: float | None, **options: bool) -> None:
    """Let a model propose how to tidy the notes, and decide on each proposal.

    It looks for lines that say the same, that contradict each other or that no longer hold, and for lasting facts in daily notes. Only your
    own notes are shown to it, and nothing is changed before you accept it. What you accept can be undone with homebody memory undo.
    """
    settings = invocation.loaded.settings
    name = agent or settings.default_agent
    limit = settings.agent(name).memory.tidy.limit_usd if limit_usd is None else limit_usd
    _tidy(invocation, name, limit, options)


def _how(options: dict[str, bool]) -> str:
    """Return who decides: "all", "nobody" or "owner"."""
    if options["dry_run"]:
        return "nobody"
    if options["yes"]:
        return "all"
    return "owner" if sys.stdin.isatty() and not options["as_json"] else "nobody"


def _tidy(invocation: Invocation, agent: str, limit: float, options: dict[str, bool]) -> None:
    """Ask for proposals, and have them carried out; while the owner decides, no event loop keeps Ctrl-C back."""
    from gateway.cli.gateway_calls import ask_or_open

    as_json, decides = options["as_json"], _how(options)
    if not as_json:
        click.echo("Looking through the notes; this may take a minute.", err=True)
    found = asyncio.run(ask_or_open(invocation, "memory.tidy", agent=agent, again=options["again"], limit_usd=limit))
    proposals = found["proposals"]
    accept, dismiss = _decided(proposals, decides, quiet=as_json)
    results: dict[str, Any] = {"results": [], "waiting": len(proposals)}
    if accept or dismiss:
        results = asyncio.run(ask_or_open(invocation, "memory.tidyDecide", agent=agent, accept=accept, dismiss=dismiss))
    rest = f"{found['notShown']} notes were too many to be shown at once." if found["notShown"] else ""
    facts = {**found, "dismissed": dismiss, **results}
    unread = [f"Left out: {path}: {why.removeprefix(f'{path} ')}." for path, why in found.get("unread", {}).items()]
    why = found.get("noPromotions")
    promotions = f"No facts of daily notes are proposed for MEMORY.md, which was not shown to the model. {why}." if why else ""
    told = [_told(proposals, results, dismiss, decides, refused=found.get("refused", 0)), *unread, promotions, rest]
    tell(facts, "\n".join(filter(None, told)), as_json=as_json)


def _decided(proposals: Sequence[dict[str, Any]], decides: str, *, quiet: bool) -> tuple[list[str], list[str]]:
    accept: list[str] = []
    dismiss: list[str] = []
    for number, one in enumerate(proposals, 1):
        if not quiet:
            why = f" ({one['why']})" if one["why"] else ""
            say(f"\n{number} of {len(proposals)}: {_KINDS[one['kind']]}{why}")
            for line in one["diff"].splitlines():
                click.secho(_visible(line), fg={"-": "red", "+": "green"}.get(line[:1]), dim=line.startswith("@@"))
            for words, names in (("Lost", one.get("lost")), ("In none of the lines", one.get("added"))):
                if names:
                    click.secho(f"Check this. {words}: {_visible(', '.join(names))}", fg="yellow")
        answer = {"all": "y", "nobody": "l"}.get(decides) or _asked(decided=len(accept) + len(dismiss))
        if answer == "q":
            break
        if answer in {"y", "n"}:
            (accept if answer == "y" else dismiss).append(one["id"])
    return accept, dismiss


def _asked(*, decided: int) -> str:
    """Ask about one proposal. Raises click.Abort on Ctrl-C, with what becomes of those before."""
    try:
        return str(click.prompt("Apply it? y: yes, n: no and never again, l: later, q: stop here", value_proc=_letter))
    except click.Abort:
        if decided:
            click.echo("\nNothing was applied and nothing dismissed: with q, what you decided so far is carried out.", err=True)
        raise


def _letter(said: str) -> str:
    letter = _ANSWERS.get(said.strip().casefold())
    if letter is None:
        raise click.BadParameter("answer with y, n, l or q")
    return letter


def _told(
    proposals: Sequence[dict[str, Any]], results: dict[str, Any], dismiss: Sequence[str], decides: str, *, refused: int
) -> str:
    if not proposals and refused:
        what = "The model's only proposal" if refused == 1 else f"All {refused} proposals of the model"
        return f"{what} could not be used: not well formed, or about lines that were not shown."
    if not proposals:
        return "There is nothing to tidy."
    done = [one for one in results["results"] if one["done"]]
    lines = [f"\n{len(done)} applied, {len(dismiss)} dismissed, {results['waiting']} waiting."]
    lines += [f"Not applied: {one['reason']}." for one in results["results"] if not one["done"]]
    if versions := [version for one in done for version in one["versions"]]:
        lines.append(f"Each can be undone: homebody memory undo {versions[-1]} (versions {', '.join(versions)}).")
    if decides == "nobody":
        lines.append("Decide on them in a terminal with homebody memory tidy, or accept all with --yes.")
    return "\n".join(lines)


def _visible(line: str) -> str:
    from channels.common.control_characters import visible

    return visible(line)
