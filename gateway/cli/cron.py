"""``homebody cron``: reminders and tasks on a schedule."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.ledger.protocol import Ledger

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_NAME_WIDTH = 30
_EXAMPLES = """\b
Examples:
  homebody cron add "tomorrow at 9" "Water the plants"
  homebody cron add "in 20 minutes" "Take the bread out"
  homebody cron add "every weekday at 7:30" "What is on today?" --task
  homebody cron add "0 18 * * 5" "Sum up my week." --task --name week
"""


class _Amount(click.ParamType[float]):
    """A finite amount from 0 on."""

    name = "usd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See ``click.ParamType``."""
        try:
            amount = float(value)
        except ValueError:
            amount = math.nan
        if not 0 <= amount < math.inf:
            self.fail(f"{value!r} is no amount in US dollars, such as 0.50.", param, ctx)
        return amount


def _settable(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that ``add`` and ``change`` share."""
    options = (
        click.option("--name", help="Its name (default: the beginning of the text)."),
        click.option(
            "--to", metavar="WHERE", help="owner (your latest chat; default), none, or an address (homebody channels chats)."
        ),
        click.option("--session", type=click.Choice(["isolated", "main"]), help="Conversation of a task (default: isolated)."),
        click.option("--zone", help="Time zone of its times, such as Europe/Berlin (default: yours)."),
        click.option("--model", help="Model of a task (default: the agent's)."),
        click.option("--tools", metavar="NAMES", help="Tools that a task may use, with commas (default, or *: the agent's)."),
        click.option("--usd", "daily_usd", type=_Amount(), help="What it may cost a day, in US dollars."),
        click.option("--tokens", "daily_tokens", type=click.IntRange(min=0), help="How many tokens it may use a day."),
        click.option(
            "--urgent/--not-urgent", default=None, help="Send it in quiet hours, too (default: reminders at one time)."
        ),
        click.option(
            "--catch-up",
            "catch_up_seconds",
            type=click.IntRange(min=0),
            metavar="SECONDS",
            help="How late a missed time is made up (default: 24 h for reminders, 2 h for tasks).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group()
def cron() -> None:
    """Reminders and tasks on a schedule.

    A reminder sends its text as it is. A task sends its text to an agent as a prompt, and then the agent's answer to you. docs/jobs.md
    explains both. You can also ask the agent: "remind me tomorrow at 9 to water the plants". JOB is the id or the name of a job.
    """


@cron.command(epilog=_EXAMPLES)
@click.argument("when")
@click.argument("text")
@click.option("--task", is_flag=True, help="The text is a prompt for the agent.")
@click.option("--agent", help="The agent (default: the default agent).")
@_settable
@_JSON
@pass_invocation
def add(invocation: Invocation, /, when: str, text: str, task: bool, as_json: bool, **given: Any) -> None:
    """Add a reminder or a task: TEXT at WHEN.

    WHEN is a time, an interval or a cron expression.
    """
    facts = _call(invocation, "jobs.add", when=when, text=text, kind="task" if task else "reminder", **_given(given))
    tell(facts, facts["told"], as_json=as_json)
    _say_if_nobody_sends(invocation)


@cron.command(name="list")
@click.option("--agent", help="Only those of this agent.")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@_JSON
@pass_invocation
def list_(invocation: Invocation, agent: str | None, everything: bool, as_json: bool) -> None:
    """List the jobs by their next time."""
    found = _call(invocation, "jobs.list", agent=agent, everything=everything, brief=not as_json)["jobs"]
    none = 'There are no jobs. Add one: homebody cron add "tomorrow at 9" "Water the plants"'
    tell(found, "\n".join(_rows(found, invocation)) or none, as_json=as_json)
    if any(job["state"] == "active" for job in found):
        _say_if_nobody_sends(invocation)


@cron.command()
@click.argument("job")
@_JSON
@pass_invocation
def show(invocation: Invocation, job: str, as_json: bool) -> None:
    """Show all of JOB."""
    facts = _call(invocation, "jobs.show", job=job)
    tell(facts["job"], _shown(facts, invocation), as_json=as_json)


@cron.command()
@click.argument("job")
@click.option("--when", help="A new time, interval or cron expression.")
@click.option("--text", help="A new text.")
@click.option("--kind", type=click.Choice(["reminder", "task"]), help="Make it a reminder or a task.")
@_settable
@_JSON
@pass_invocation
def change(invocation: Invocation, /, job: str, as_json: bool, **given: Any) -> None:
    """Change JOB. What is not given stays as it is."""
    facts = _call(invocation, "jobs.change", job=job, **_given(given))
    tell(facts, facts["told"], as_json=as_json)


@cron.command()
@click.argument("job")
@_JSON
@pass_invocation
def run(invocation: Invocation, job: str, as_json: bool) -> None:
    """Start JOB now. Its schedule stays as it is. Needs a running gateway."""
    from gateway.base.errors import HomebodyError
    from gateway.base.state_lock import describe

    if describe(invocation.paths.lock) is None:
        raise HomebodyError("no gateway is running, so nothing can run now", hint="Start it: homebody start")
    facts = _call(invocation, "jobs.run", job=job)
    tell(facts, facts["told"], as_json=as_json)


@cron.command()
@click.argument("job")
@_JSON
@pass_invocation
def pause(invocation: Invocation, job: str, as_json: bool) -> None:
    """Pause JOB."""
    facts = _call(invocation, "jobs.pause", job=job)
    tell(facts, f"{facts['told']}\nTo go on: homebody cron resume {facts['job']['id']}", as_json=as_json)


@cron.command()
@click.argument("job")
@_JSON
@pass_invocation
def resume(invocation: Invocation, job: str, as_json: bool) -> None:
    """Resume JOB. Times that passed meanwhile are not made up."""
    facts = _call(invocation, "jobs.resume", job=job)
    tell(facts, facts["told"], as_json=as_json)


@cron.command()
@click.argument("job")
@_JSON
@pass_invocation
def remove(invocation: Invocation, job: str, as_json: bool) -> None:
    """Remove JOB and its log."""
    facts = _call(invocation, "jobs.remove", job=job)
    tell(facts, facts["told"], as_json=as_json)


@cron.command()
@click.argument("job")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many.")
@_JSON
@pass_invocation
def log(invocation: Invocation, job: str, limit: int, as_json: bool) -> None:
    """Show the latest runs of JOB, the newest first."""
    facts = _call(invocation, "jobs.log", job=job, limit=limit)
    lines = [f"  {one}" for one in facts["lines"]] or ["  It has not run yet."]
    tell(facts, "\n".join([facts["told"], *lines]), as_json=as_json)


def _say_if_nobody_sends(invocation: Invocation) -> None:
    from gateway.base.state_lock import describe
    from gateway.cli.attached import NOBODY_SENDS

    if describe(invocation.paths.lock) is None:
        say(NOBODY_SENDS, err=True)


def _call(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    """Ask the gateway, or the ledger itself; what is due is then done when a gateway starts."""
    from gateway.api.handlers.job_requests import stored_jobs
    from gateway.cli.gateway_calls import call_ledger

    settings = invocation.loaded.settings

    def handlers(ledger: Ledger) -> Any:
        return stored_jobs(ledger, settings).calls()

    return call_ledger(invocation, handlers, call, **arguments)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _rows(jobs: list[dict[str, Any]], invocation: Invocation) -> list[str]:
    if not jobs:
        return []
    several = len({job["agent"] for job in jobs}) > 1
    rows = [("ID", "NEXT", "KIND", *(["AGENT"] if several else []), "NAME", "WHEN")]
    for job in jobs:
        due = invocation.local_time(job["nextAt"] or "") or ("ended" if job["state"] == "done" else job["state"])
        name = job["name"] if len(job["name"]) <= _NAME_WIDTH else f"{job['name'][: _NAME_WIDTH - 1]}…"
        rows.append((job["id"], due, job["kind"], *([job["agent"]] if several else []), name, job["words"]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows]


def _shown(facts: dict[str, Any], invocation: Invocation) -> str:
    job = facts["job"]
    words = {
        "State": " ".join(filter(None, [job["state"], f"({job['reason']})" if job["reason"] else ""])),
        "Agent": job["agent"],
        "Time zone": job["zone"],
        "Last": invocation.local_time(job["lastAt"] or ""),
        "Conversation": job["session"] or "",
        "For": "" if job["audience"] == "owner" else job["audience"],
        "Model": job["model"] or "",
        "Tools": "" if job["tools"] is None else ", ".join(job["tools"]) or "none",
        "A day at most": " and ".join(
            [f"${job['usdPerDay']:.2f}" for _ in [0] if job["usdPerDay"] is not None]
            + [f"{job['tokensPerDay']:,} tokens" for _ in [0] if job["tokensPerDay"] is not None]
        ),
        "Urgent": "yes" if job["urgent"] else "",
        "Untrusted text from": ", ".join(job["untrusted"]),
    }
    lines = [f"{name}: {value}" for name, value in words.items() if value]
    return "\n".join(
        [facts["told"], *lines, "Text:" if job["kind"] == "reminder" else "Prompt:", textwrap.indent(job["text"], "  ")]
    )
