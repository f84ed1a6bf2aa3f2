"""Checks how commands of agents are confined on this machine, and why not better."""

from __future__ import annotations

from typing import Any

from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.sandbox.command_sandbox import CommandSandbox
from gateway.settings.root import AgentProfile

_NAMES = {"bwrap": "bubblewrap", "landlock": "Landlock"}


async def _examine(installation: Installation) -> list[Finding]:
    settings = installation.settings
    running = [one for one in installation.profiles if one.exec.security != "deny"]
    silent = [one.id for one in installation.profiles if one not in running]
    found = [ok(f"{', '.join(silent)}: commands never run (tools.exec.security: deny)")] if silent else []
    sandbox = CommandSandbox(installation.paths, lambda: settings)
    try:
        for profile in running:
            facts = await (
                installation.ask("sandbox.explain", agent=profile.id)
                if installation.gateway_runs
                else sandbox.explain(profile.id)
            )
            found += _of(profile, facts["origins"]["owner"]) + _refused(facts["refusedPaths"])
    finally:
        await sandbox.close()
    return found


def _of(profile: AgentProfile, owner: dict[str, Any]) -> list[Finding]:
    rung, reason = owner["rung"], str(owner["reason"])
    if not owner["runs"]:
        what = f"commands of {profile.id} do not run: {reason}"
        return [
            Finding(
                level="error", what=what, why="They are to be confined in a way that does not work here.", mend=owner["hint"]
            )
        ]
    if rung == "off":
        what = f"commands of {profile.id} are not confined" + (f": {reason}" if reason else "")
        why = "A command can read and change all that you can; each one is asked about first."
        return [Finding(level="warning", what=what, why=why, mend=owner["hint"] or "homebody sandbox check")]
    if reason:
        what = f"commands of {profile.id} are confined by {_NAMES[rung]} only: {reason}"
        why = "They cannot read your files, but see names of files and use fewer system features."
        return [Finding(level="note", what=what, why=why, mend=owner["hint"] or "homebody sandbox explain")]
    return [ok(f"commands of {profile.id} are confined by {_NAMES[rung]}")]


def _refused(paths: dict[str, str]) -> list[Finding]:
    mend = "Remove it from tools.exec.readPaths or tools.exec.pathPrepend."
    return [
        Finding(level="warning", what=f"is not given to commands: {reason}", where=path, mend=mend)
        for path, reason in paths.items()
    ]


SANDBOX = Check(name="sandbox", examine=_examine, seconds=60.0)
