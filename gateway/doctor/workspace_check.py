"""Checks workspaces: can the agent read the files of its prompt, and are those that a repository keeps in step with it?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from agent.context.workspace_files import HEARTBEAT, LONG_TERM, NOT_GIVEN, PROMPT_FILES, Workspace
from gateway.app.workspace_parts import access_of, shared_repository
from gateway.base.errors import GitFailed, UsageError
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, Level, ok

_SHOWN: Final = 3
_FOLDER: Final = "On another machine the notes are as they were last pushed."


async def _examine(installation: Installation) -> list[Finding]:
    unread = await asyncio.to_thread(lambda: list(_unread(installation)))
    unread += await asyncio.to_thread(_shared_with_others, installation)
    return unread + await _of_repositories(installation, alone=not unread)


def _shared_with_others(installation: Installation) -> list[Finding]:
    """Find workspaces that an agent of another home uses, too. Blocking."""
    from gateway.config.homes_beside import shared_workspaces

    return [
        Finding(
            level="warning",
            what=shared.as_text(),
            where=str(shared.workspace),
            why="What one is told is found by the other, and both write there.",
            mend=shared.mend(installation.settings),
        )
        for shared in shared_workspaces(installation.settings, installation.paths, installation.env)
    ]


def _unread(installation: Installation) -> Iterator[Finding]:
    """Find files of the prompt that the agent is not given. Blocking."""
    for profile in installation.profiles:
        if not profile.workspace.is_dir():
            continue
        workspace = Workspace(profile.workspace)
        for name in (*PROMPT_FILES, HEARTBEAT, LONG_TERM):
            text = workspace.note(PurePosixPath(name)) or ""
            if text.startswith(NOT_GIVEN):
                yield Finding(
                    level="warning",
                    what=text.removeprefix(NOT_GIVEN).rstrip("]"),
                    where=str(profile.workspace / name),
                    why=f"The agent {profile.id} is not given what it says.",
                    mend="Make it a file of its own in the workspace, saved as UTF-8.",
                )


async def _of_repositories(installation: Installation, *, alone: bool) -> list[Finding]:
    kept = [profile for profile in installation.profiles if profile.store.type == "git"]
    if not kept:
        return [ok("no workspace is kept in a repository")] if alone else []
    wrong = [*await asyncio.to_thread(_of_program, installation), *_of_settings(installation)]
    if wrong or not installation.gateway_runs:
        return wrong or [
            ok(f"kept in a repository: {', '.join(one.id for one in kept)}; whether all is pushed, the gateway knows")
        ]
    facts = await installation.ask("workspace.status")
    return [finding for one in facts["workspaces"] if "remote" in one for finding in findings_of(one)]


def _of_program(installation: Installation) -> Iterator[Finding]:
    from gateway.workspaces.repository import check_git

    try:
        check_git(installation.env)
    except GitFailed as failed:
        why = "Workspaces cannot be kept in repositories without it."
        yield Finding(level="error", what=failed.message, why=why, mend=failed.hint)


def _of_settings(installation: Installation) -> Iterator[Finding]:
    for profile in installation.profiles:
        if profile.store.type == "git":
            try:
                access_of(profile)
            except UsageError as error:
                yield Finding(level="error", what=error.message, where=error.where, mend=error.hint)
    if (complaint := shared_repository(installation.settings)) is not None:
        yield Finding(level="error", what=complaint, where="agents.defaults.workspaceStore.remote", mend="homebody config edit")


def findings_of(facts: dict[str, Any]) -> Iterator[Finding]:
    """Yield what is to be said of one workspace, by the facts of `homebody workspace status`."""
    agent, by_hand = facts["agent"], f"homebody workspace sync --agent {facts['agent']}"
    if (trouble := facts["trouble"]) is not None:
        what = f"the workspace of {agent} is not in step with its repository since {trouble['since'][:16]}: {trouble['text']}"
        why = f"{facts['ahead']} commits wait to be pushed. {_FOLDER}"
        level: Level = "warning" if trouble["kind"] == "away" else "error"
        yield Finding(level=level, what=what, where=facts["remote"], why=why, mend=trouble["mend"] or by_hand)
    if facts["goneCount"]:
        what = f"{facts['goneCount']} files of the workspace of {agent} are gone or templates again, and that was not passed on"
        why = "So many at once are gone when a disk is not mounted."
        yield Finding(level="error", what=what, where=facts["workspace"], why=why, mend=f"{by_hand} --restore, or --removals")
    if beside := facts.get("sideBySide"):
        what = f"files of the workspace of {agent} were changed in two places, and both versions are there: {', '.join(beside[:_SHOWN])}"
        why = "The agent reads both."
        yield Finding(
            level="note", what=what, where=facts["workspace"], why=why, mend="Join each with the file beside it, and delete it."
        )
    for path, why in list(facts.get("unapplied", {}).items())[:_SHOWN]:
        what = f"what others changed in {path} could not be written: {why}"
        yield Finding(
            level="warning", what=what, where=facts["workspace"], mend="Move what is in the way; it is tried again by itself."
        )
    for path, why in facts.get("leftOut", {}).items():
        if "holds a secret" in why:
            yield Finding(
                level="warning", what=f"{path} {why}, so it is not kept in the repository", mend="Remove the secret from it."
            )
    if facts.get("damaged"):
        what = f"the repository of the workspace of {agent} was damaged, and was made anew"
        yield Finding(level="note", what=what, where=facts["damaged"], mend="Delete it once you miss nothing.")
    if trouble is None:
        yield ok(f"the workspace of {agent} is in step with {facts['remote']}")


WORKSPACES = Check(name="workspaces", examine=_examine)
