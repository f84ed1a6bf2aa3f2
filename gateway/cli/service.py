"""``homebody service`` and ``homebody uninstall``: the gateway as a service of this machine, and removing it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell
from gateway.cli.lifecycle import report_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.base.paths import Paths
    from gateway.service.actions import Action
    from gateway.service.service_manager import ServiceManager

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SYSTEM = click.option("--system", is_flag=True, help="A service of the system, with a user of its own (as root).")
RUN_AS = click.option("--run-as", metavar="USER", help="With --system: run it as this user.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would be written and run, and change nothing.")


@click.group()
def service() -> None:
    """Run the gateway as a service that starts with the machine (systemd, or launchd on macOS)."""


@service.command()
@SYSTEM
@RUN_AS
@DRY_RUN
@AS_JSON
@pass_invocation
def install(invocation: Invocation, system: bool, run_as: str | None, dry_run: bool, as_json: bool) -> None:
    """Install or renew the service, and start it. A gateway that runs in the background is stopped first."""
    from gateway.service.service_selection import check_can_install

    manager = _manager(invocation, system=system, run_as=run_as)
    actions = manager.install()
    if dry_run:
        tell(_facts(manager, actions), f"{_listed(actions)}\n\n{manager.file}:\n\n{manager.text()}", as_json=as_json)
        return
    check_can_install(manager, system=system)
    _stop_background(invocation.paths)
    _carry_out(actions)
    sandbox = "\nCommands of your agent are confined best with bubblewrap: homebody sandbox check"
    done = f"The service {manager.name} is installed and started ({manager.kind}).\nIts state: homebody service status{sandbox}"
    tell(_facts(manager, actions), done, as_json=as_json)


@service.command()
@SYSTEM
@DRY_RUN
@AS_JSON
@pass_invocation
def remove(invocation: Invocation, system: bool, dry_run: bool, as_json: bool) -> None:
    """Stop and remove the service. Settings, state and notes stay."""
    from gateway.base.errors import UsageError

    manager = _existing(invocation, system=system)
    if manager is None:
        raise UsageError("no service of this gateway is installed", hint="homebody service status shows what there is.")
    actions = manager.remove()
    if dry_run:
        tell(_facts(manager, actions), _listed(actions), as_json=as_json)
        return
    _carry_out(actions)
    tell(_facts(manager, actions), f"The service {manager.name} was stopped and removed.", as_json=as_json)


@service.command()
@SYSTEM
@AS_JSON
@pass_invocation
def status(invocation: Invocation, system: bool, as_json: bool) -> None:
    """Show whether the service is installed and runs."""
    from gateway.service.actions import run_command
    from gateway.service.service_selection import available

    manager = _existing(invocation, system=system)
    if manager is None:
        kind = available()
        hint = "Install it: homebody service install" if kind else "This machine has neither systemd nor launchd."
        tell({"installed": False, "available": kind or None}, f"No service is installed. {hint}", as_json=as_json)
        return
    state = manager.state(run_command)
    facts = {
        "installed": True,
        "kind": manager.kind,
        "name": manager.name,
        "file": str(manager.file),
        "active": state.active,
        "startsWithMachine": state.enabled,
        "pid": state.pid or None,
        "outdated": state.outdated,
    }
    lines = [
        f"{manager.name} ({manager.kind}): {state.active}{f', process {state.pid}' if state.pid else ''}",
        f"  starts with the machine: {'yes' if state.enabled else 'no'}",
        f"  file: {manager.file}",
        f"  what it printed: {manager.log_command()}",
    ]
    if state.outdated and not system:
        lines.append("  This version would write another file. Renew it: homebody service install")
    tell(facts, "\n".join(lines), as_json=as_json)


@click.command()
@click.option("--state", "with_state", is_flag=True, help="Also delete settings, keys, conversations and state.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@DRY_RUN
@AS_JSON
@pass_invocation
def uninstall(invocation: Invocation, with_state: bool, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Remove the service and the command from the PATH, and with --state what Homebody stored. Your notes are never deleted."""
    from msgspec.structs import replace

    from gateway.base.home_lock import running_in
    from gateway.base.installation import find_installation
    from gateway.service.uninstall import plan_removal

    plan = plan_removal(invocation.paths, os.environ, _workspaces(invocation), with_state=with_state)
    program = find_installation().remove_command
    facts = {
        "actions": [str(action) for action in plan.actions],
        "gatewayPid": next(iter(plan.gateways), None),
        "gatewayPids": list(plan.gateways),
        "state": [str(path) for path in plan.state],
        "kept": [str(path) for path in plan.kept],
        "programRemovedBy": program,
        "done": not dry_run,
    }
    last = f"The program itself is removed by:\n\n    {program}"
    if dry_run:
        tell(facts, f"{plan.as_text()}\n\n{last}", as_json=as_json)
        return
    if not yes:
        report_progress(plan.as_text())
        click.confirm("Remove this?", abort=True, err=True)
    for name in running_in(invocation.paths.home):
        _stop_background(replace(invocation.paths, gateway=name))
    _carry_out(plan.actions)
    plan.delete_state()
    kept = "".join(f"\n  {path}" for path in plan.kept)
    tell(facts, f"Done. Kept:{kept or ' nothing'}\n\n{last}", as_json=as_json)


def _manager(invocation: Invocation, *, system: bool, run_as: str | None = None) -> ServiceManager:
    from gateway.base.errors import UsageError
    from gateway.service.service_selection import system_service, user_service

    if run_as and not system:
        raise UsageError("--run-as needs --system", hint="homebody service install --system --run-as NAME")
    if system:
        return system_service(invocation.paths, os.environ, run_as=run_as)
    return user_service(invocation.paths, os.environ)


def _existing(invocation: Invocation, *, system: bool) -> ServiceManager | None:
    from gateway.service.service_selection import any_system_service, installed

    return any_system_service(invocation.paths) if system else installed(invocation.paths, os.environ)


def _workspaces(invocation: Invocation) -> list[Path]:
    """Return the agents' folders; with invalid settings, the default one."""
    from gateway.base.errors import SettingsError

    try:
        settings = invocation.loaded.settings
    except SettingsError:
        return [Path.home() / "homebody"]
    return [settings.agent(agent).workspace for agent in settings.agent_ids]


def _facts(manager: ServiceManager, actions: Sequence[Action]) -> dict[str, Any]:
    return {
        "kind": manager.kind,
        "name": manager.name,
        "file": str(manager.file),
        "text": manager.text(),
        "actions": [str(action) for action in actions],
    }


def _listed(actions: Sequence[Action]) -> str:
    return "\n".join(str(action) for action in actions)


def _stop_background(paths: Paths) -> None:
    """Stop a gateway that holds the state, which the service needs."""
    from gateway.service import background

    if background.stop(paths, report_progress) is not None:
        report_progress("The gateway in the background was stopped.")


def _carry_out(actions: Sequence[Action]) -> None:
    from gateway.service.actions import carry_out, run_command

    carry_out(actions, run_command, report_progress)
