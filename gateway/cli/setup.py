"""``homebody setup``: sets up model, chat, notes and service, step by step."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, cast

import click

from gateway.base.errors import UsageError, for_chat
from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from gateway.setup.wizard import Step

_STEPS = ("model", "telegram", "discord", "slack", "matrix", "email", "whatsapp", "workspace", "service", "memory")


class _StepName(click.Choice[str]):
    """The name of a step."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            raise UsageError(f"setup has no step {value!r}", hint=f"homebody setup has: {', '.join(self.choices)}.")
        return super().convert(value, param, ctx)


@click.command()
@click.argument("step", required=False, type=_StepName(_STEPS))
@click.option("--dry-run", is_flag=True, help="Ask and test, show what would be written, and write nothing.")
@click.option("--yes", is_flag=True, help="Ask nothing: use what is found on this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what was found, and with --yes what was done.")
@pass_invocation
def setup(invocation: Invocation, step: str | None, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Set up the language model, a chat platform, the notes and the service. One STEP can be done again alone.

    Keys and tokens are tested before they are saved; nothing is written before you have seen what. Without a terminal,
    the commands for the same are printed. Where nothing can be written, it says so and asks nothing.
    """
    from gateway.base.paths import why_unusable
    from gateway.setup.draft import Draft
    from gateway.setup.found import look_around

    if (refused := why_unusable(invocation.paths.home)) is not None:
        raise refused
    draft = Draft(invocation.paths, os.environ)
    interactive = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    if interactive:
        say(_GREETING if step is None else "Looking around ...")
    found = asyncio.run(look_around(draft))
    for remark in found.remarks:
        say(f"homebody: warning: {remark}", err=True)
    if not interactive and not yes:
        from gateway.setup.by_hand import as_text, commands

        tell(
            {"found": found.as_json(), "commands": list(map(for_chat, commands(found, step)))},
            as_text(found, step),
            as_json=as_json,
        )
        return 0
    from gateway.base.terminal_text import wrapped
    from gateway.setup.questions import DefaultAnswers, TerminalQuestions
    from gateway.setup.setup_screen import Screen
    from gateway.setup.wizard import Wizard

    screen = Screen(
        draft=draft,
        found=found,
        questions=TerminalQuestions() if interactive else DefaultAnswers(),
        tell=lambda text: say(wrapped(text, get_terminal_size().columns) if interactive else text, err=as_json),
        interactive=interactive,
        alone=step is not None,
    )
    wizard = Wizard(screen, partial(click.echo, err=as_json), output=sys.stderr.fileno() if as_json else None)
    facts: dict[str, Any] = {"found": found.as_json(), "dryRun": dry_run, "plan": [], "written": []}
    try:
        plan = wizard.prepare(cast("Step | None", step))
        facts["plan"] = wizard.summary(plan)
        if facts["plan"]:
            screen.tell("\nThis will be done:\n" + "\n".join(f"  {line}" for line in facts["plan"]))
        goes_on = bool(facts["plan"]) and not dry_run and screen.questions.confirm("Do it?")
    except (KeyboardInterrupt, EOFError):
        screen.tell("\nNothing was written.")
        raise click.Abort from None
    if not goes_on:
        tell(facts, "Nothing was written." if facts["plan"] else "Nothing is to be changed.", as_json=as_json)
        return 0
    from gateway.base.clock import SystemClock

    plan.pairs = interactive
    facts["written"] = wizard.write(SystemClock().now())
    try:
        facts |= wizard.begin(plan)
    except KeyboardInterrupt:
        screen.tell("\n" + "\n".join(wizard.interrupted(plan)))
        raise click.Abort from None
    failed = facts["firstMessage"] == "failed"
    done = "\n".join(
        [
            "\nSet up, but not all went well." if failed else "\nDone.",
            *screen.told,
            "What is running: homebody status. Any step again: homebody setup STEP",
        ]
    )
    tell(facts | {"told": screen.told}, done, as_json=as_json)
    return 1 if failed else 0


_GREETING = """Homebody setup. Arrow keys choose, Enter takes, Ctrl-C leaves.
Nothing is written before you have seen what. Looking around ..."""
