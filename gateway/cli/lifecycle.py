"""``homebody start``, ``stop`` and ``restart``: the installed service, or else a gateway in the background."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, say, tell

if TYPE_CHECKING:
    from gateway.service.service_manager import ServiceManager

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@AS_JSON
@pass_invocation
def start(invocation: Invocation, as_json: bool) -> None:
    """Start the gateway: the service if one is installed, otherwise in the background until the machine is shut down."""
    tell_finished(invocation)
    invocation.need_name(also_new=True)
    facts = started(invocation)
    how = facts["service"] or "in the background"
    if facts["already"]:
        text = f"The gateway runs already (process {facts['pid']})."
    else:
        text = f"The gateway is running ({how}, process {facts['pid']})."
        if not facts["service"]:
            text += "\nTo have it started with the machine: homebody service install"
    tell(facts, text, as_json=as_json)


@click.command()
@AS_JSON
@pass_invocation
def stop(invocation: Invocation, as_json: bool) -> None:
    """Stop the gateway. Running turns may finish for a few seconds; what is left resumes at the next start."""
    invocation.need_name()
    facts = stopped(invocation)
    text = f"The gateway was stopped (process {facts['pid']})." if facts["pid"] else "No gateway is running."
    tell(facts, text, as_json=as_json)


@click.command()
@AS_JSON
@pass_invocation
def restart(invocation: Invocation, as_json: bool) -> None:
    """Stop the gateway and start it again; start it if none runs."""
    tell_finished(invocation)
    invocation.need_name()
    facts = restarted(invocation)
    tell(facts, f"The gateway is running ({facts['service'] or 'in the background'}, process {facts['pid']}).", as_json=as_json)


def tell_finished(invocation: Invocation) -> None:
    """Finish a restore that was broken off, and say so."""
    if finished := invocation.finish_restore():
        say(finished, err=True)


def started(invocation: Invocation) -> dict[str, Any]:
    """Start the gateway and wait until it serves; return the facts."""
    from gateway.service import background

    manager = service_of(invocation)
    if manager is None:
        with_settings(invocation)
        done = background.start(invocation.paths, os.environ, report_progress)
        return {"pid": done.pid, "already": done.already, "service": None}
    found = background.running(invocation.paths)
    if found is not None:
        return {"pid": found.pid, "already": True, "service": manager.kind}
    _carry_out(manager.start())
    return {"pid": _pid_of(invocation), "already": False, "service": manager.kind}


def stopped(invocation: Invocation) -> dict[str, Any]:
    """Stop the gateway and wait for its end; return the facts."""
    from gateway.service import background
    from gateway.service.actions import run_command

    manager = service_of(invocation)
    if manager is not None and manager.state(run_command).running:
        pid = _pid_of(invocation)
        report_progress("Stopping the service: running turns may finish ...")
        _carry_out(manager.stop())
        return {"pid": pid, "service": manager.kind}
    return {"pid": background.stop(invocation.paths, report_progress) or 0, "service": None}


def restarted(invocation: Invocation) -> dict[str, Any]:
    """Stop the gateway, if one runs, and start it; return the facts."""
    stopped(invocation)
    return started(invocation)


def service_of(invocation: Invocation) -> ServiceManager | None:
    """Return the installed service of these paths; None if there is none."""
    from gateway.service.service_selection import installed

    return installed(invocation.paths, os.environ)


def with_settings(invocation: Invocation) -> None:
    """Check the settings before a process is started that could only print what is wrong with them."""
    from gateway.config.homes_beside import shared_workspaces
    from gateway.config.settings_file import load_or_last_known_good

    invocation.paths.prepare()
    settings = load_or_last_known_good(invocation.paths, os.environ)[0].settings
    for shared in shared_workspaces(settings, invocation.paths, os.environ):
        report_progress(f"homebody: warning: {shared.as_text()}\n  {shared.mend(settings)}")


def report_progress(text: str) -> None:
    """Say on stderr what goes on, since stdout is for the result."""
    if text.strip():
        say(text, err=True)


def _carry_out(actions: Any) -> None:
    from gateway.service.actions import carry_out, run_command

    carry_out(actions, run_command, report_progress)


def _pid_of(invocation: Invocation) -> int:
    """Return the gateway's process; 0 for none. One that is writing down who it is is looked at again for a second."""
    import time

    from gateway.service import background

    for _ in range(50):
        found = background.running(invocation.paths)
        if found is None or found.pid:
            break
        time.sleep(0.02)
    return found.pid if found else 0
