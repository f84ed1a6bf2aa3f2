"""The ``homebody`` command line, by click.

A command's module is imported only when the command runs, which keeps ``homebody --help`` fast. ``COMMANDS`` maps each
command to its import path and its line of help.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.base import errors
from gateway.cli.streams import print_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "setup": ("gateway.cli.setup:setup", "Set up model, chat, notes and service, step by step."),
    "chat": ("gateway.cli.chat:chat", "Talk to your agent in this terminal."),
    "open": ("gateway.cli.page:open_page", "Open the page in the browser, here or on your phone."),
    "browsers": ("gateway.cli.page:browsers", "Show and revoke browsers that may open the page."),
    "agent": ("gateway.cli.agent:agent", "Send one message and print the reply."),
    "gateway": ("gateway.cli.run_gateway:gateway", "Run the gateway: channels, sessions and schedules."),
    "start": ("gateway.cli.lifecycle:start", "Start the gateway: the service, or in the background."),
    "stop": ("gateway.cli.lifecycle:stop", "Stop the gateway; running turns may finish."),
    "restart": ("gateway.cli.lifecycle:restart", "Stop the gateway and start it again."),
    "service": ("gateway.cli.service:service", "Run the gateway as a service that starts with the machine."),
    "resume": ("gateway.cli.run_gateway:resume", "Resume a paused gateway."),
    "status": ("gateway.cli.status:status", "Show what is running and whether it is healthy."),
    "doctor": ("gateway.cli.doctor:doctor", "Find out what is wrong, and mend what is safe to mend."),
    "logs": ("gateway.cli.log_lines:logs", "Show and follow the log."),
    "security": ("gateway.cli.doctor:security", "Check how open the gateway is to others."),
    "config": ("gateway.cli.config:config", "Show, check and change the settings."),
    "models": ("gateway.cli.models:models", "List, select and test language models."),
    "auth": ("gateway.cli.models_auth:auth", "Manage keys of model providers (same as `models auth`)."),
    "agents": ("gateway.cli.agents:agents", "Add, list and remove agents."),
    "route": ("gateway.cli.route:route", "Show which agent answers a sender, and why."),
    "channels": ("gateway.cli.channels:channels", "Show the chat platforms and whether they are connected."),
    "matrix": ("gateway.cli.chat_devices:matrix", "Show and verify the agent's device on Matrix; sign in again."),
    "pairing": ("gateway.cli.pairing:pairing", "Approve and revoke people who may talk to your agent."),
    "approvals": ("gateway.cli.approvals:approvals", "Decide what agents ask for, and show the rules."),
    "hooks": ("gateway.cli.hooks:hooks", "Let other programs call your agent by webhooks."),
    "api": ("gateway.cli.api:api", "Make tokens for programs that speak OpenAI's API."),
    "cron": ("gateway.cli.cron:cron", "Set up and manage reminders and tasks on a schedule."),
    "calendar": ("gateway.cli.calendar:calendar", "Show and check the calendars that agents use."),
    "inbox": ("gateway.cli.waiting_messages:inbox", "Show messages that are waiting or failed."),
    "outbox": ("gateway.cli.waiting_messages:outbox", "Show undelivered replies; retry or drop them."),
    "tools": ("gateway.cli.tools:tools", "Show the tools of an agent and the rules for them."),
    "skills": ("gateway.cli.skills:skills", "Show, check, install and approve skills of an agent."),
    "sessions": ("gateway.cli.sessions:sessions", "List, show and export conversations."),
    "backup": ("gateway.cli.backup:backup", "Make, check, restore and try out backups of everything."),
    "upgrade": ("gateway.cli.upgrade:upgrade", "Check that your state can be read (updates nothing)."),
    "usage": ("gateway.cli.status:usage", "Show model usage and cost."),
    "context": ("gateway.cli.context:context", "Show what fills the model's context window."),
    "sandbox": ("gateway.cli.sandbox:sandbox", "Show and check what commands of an agent can reach."),
    "todo": ("gateway.cli.todo:todo", "Show and change the list of things to do."),
    "mail": ("gateway.cli.mail:mail", "Show mail accounts, try them out, and list mail."),
    "mcp": ("gateway.cli.mcp:mcp", "Exchange tools with other programs (MCP)."),
    "cluster": ("gateway.cli.cluster:cluster", "Several gateways: who holds what, and handing over."),
    "storage": ("gateway.cli.storage:storage", "Where messages and conversations are kept, and moving them."),
    "migrate": ("gateway.cli.migrate:migrate", "Take over the state of Clawdbot or OpenClaw."),
    "memory": ("gateway.cli.memory:memory", "Search and index the agent's notes."),
    "workspace": ("gateway.cli.workspace:workspace", "Show agents' folders; bring their repositories into step."),
    "completion": ("gateway.cli.completion:completion", "Let your shell complete commands (bash, zsh, fish)."),
    "update": ("gateway.cli.update:update", "Get a newer Homebody and restart the gateway."),
    "uninstall": ("gateway.cli.service:uninstall", "Remove the service and the command; notes stay."),
}


INSTEAD = {
    "init": "Set it up, step by step: homebody setup",
    "onboard": "Set it up, step by step: homebody setup",
    "help": "homebody --help lists the commands.",
    "version": "The version is shown by: homebody --version",
    "send": 'Send one message: homebody agent -m "..."',
    "remind": 'Set a reminder: homebody cron add "tomorrow at 9" "Water the plants"',
    "jobs": "List the jobs: homebody cron list",
    "schedule": "List the jobs: homebody cron list",
    "restore": "Restore a backup: homebody backup restore FILE",
    "run": "Run the gateway with: homebody gateway (here), or homebody start (in the background)",
}
"""Commands of similar programs that do not exist here, and what to do instead."""

FOR_NEW = frozenset({"gateway", "start", "service", "setup", "config", "cluster", "completion"})
"""Commands that are also for a gateway which has not run in the home yet."""


class LazyGroup(click.Group):
    """A click group that imports a command only when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the table."""
        del ctx
        return [name for name, (target, _) in COMMANDS.items() if find_spec(target.partition(":")[0])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so from the table, without importing any."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return found if found or not incomplete.startswith("-") else click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without importing any."""
        rows = [(name, COMMANDS[name][1]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. The error for an unknown one suggests the closest name."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"Did you mean `homebody {near[0]}`?" if near else "`homebody --help` lists the commands."
            hint = INSTEAD.get(args[0].casefold(), hint)
            raise errors.UsageError(f"there is no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"homebody {version('homebody')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", type=click.Path(path_type=Path), help="Use this folder for settings and state instead of ~/.homebody.")
@click.option("--profile", metavar="NAME", help="Use a separate profile with its own settings, state, port and workspace.")
@click.option("--config", type=click.Path(path_type=Path), help="Read the settings from this file.")
@click.option("-v", "--verbose", is_flag=True, help="Verbose output, with a traceback for unexpected errors.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
@click.pass_context
def homebody(ctx: click.Context, *, home: Path | None, profile: str | None, config: Path | None, verbose: bool) -> None:
    """Your own agent, at home.

    Exit codes: 0 success, 1 failure, 2 wrong usage, 3 invalid settings, 4 no model or its key was rejected, 5 another
    gateway uses the same state folder, 6 storage error, 130 interrupted.
    """
    from gateway.cli.invocation import Invocation

    ctx.obj = Invocation(home, config, verbose, profile, may_be_new=ctx.invoked_subcommand in FOR_NEW)


def run(arguments: list[str], *, as_json: bool) -> int:
    """Run a command and return its exit code. Wrong usage is told; other errors are raised."""
    try:
        code = homebody.main(arguments, prog_name="homebody", standalone_mode=False)
    except click.Abort:
        return errors.INTERRUPTED
    except click.ClickException as wrong:
        return _tell_usage(wrong, as_json=as_json)
    return code if isinstance(code, int) else errors.OK


def _tell_usage(wrong: click.ClickException, *, as_json: bool) -> int:
    if isinstance(wrong, click.exceptions.NoArgsIsHelpError):
        wrong.show()
        return errors.USAGE
    context = getattr(wrong, "ctx", None)
    hint = f"Try: {context.command_path} --help" if context else "Try: homebody --help"
    if context and context.command_path.endswith(" agent") and "extra argument" in wrong.format_message():
        hint = 'Give the message with -m: homebody agent -m "..."'
    elif context and context.command_path.endswith(" memory search") and "extra argument" in wrong.format_message():
        hint = 'Put several words in quotation marks: homebody memory search "spare key"'
    kind = errors.UsageError if isinstance(wrong, click.UsageError) else errors.HomebodyError
    return print_error(kind(wrong.format_message(), hint=hint), as_json=as_json)
