"""Takes over a whole state folder: settings, keys, workspaces, sessions, jobs, skills. The other program's files stay as they are."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agent import fault_injection
from gateway.base.atomic_file import write_atomically
from gateway.base.clock import SystemClock
from gateway.base.errors import StorageFailed, UsageError
from gateway.base.home_lock import whole_home
from gateway.base.paths import Paths
from gateway.config.document import Document
from gateway.config.load import load
from gateway.config.settings_file import change
from gateway.ledger.open_ledger import open_file
from gateway.migration.foreign_state import ForeignState, read_json, section
from gateway.migration.job_import import import_jobs
from gateway.migration.migration_report import Report
from gateway.migration.openclaw_database import reported
from gateway.migration.session_import import import_sessions
from gateway.migration.settings_import import import_settings
from gateway.models.key_profiles import Profile, ProfileFile, Profiles, same_provider
from gateway.settings.auth_settings import AuthSettings
from gateway.settings.root import Settings
from gateway.skills.catalog import managed_folder

_KEYS_IN_ENV: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "anthropic",
    "OPENAI_API_KEY": "openai",
    "GEMINI_API_KEY": "google",
    "OPENROUTER_API_KEY": "openrouter",
}
_LEFT: Final[Mapping[str, str]] = {
    "memory": "the index of notes is made anew",
    "devices": "phones and browsers that were paired with the other program",
    "identity": "",
    "exec-approvals.json": "Homebody asks again what commands may run: docs/approvals.md",
    "browser": "its browser profiles",
    "credentials": "people are taken over; sign-ins of WhatsApp and others are not",
}
Progress = Callable[[str], None]


def migrate(
    state: ForeignState, paths: Paths, env: Mapping[str, str], *, dry_run: bool, progress: Progress, command: str
) -> Report:
    """Take over ``state`` into the empty installation ``paths``; with ``dry_run`` only report what would happen.

    One that was broken off is gone on with: a marker says so from its beginning to its end, with the ``command`` that does it.

    Raises:
        UsageError: this installation is in use already.
        HomebodyError: a file cannot be written; what was written so far stays, and nothing of the other program is changed.
    """
    workspaces = {agent: _new_workspace(agent, state, paths) for agent in state.agents}
    begun = _begun(paths)
    if begun is None:
        _refuse_if_used(paths)
    report = Report()
    mine = {str(one) for one in workspaces.values() if not _holds_files(one)} if begun is None else begun
    progress("Reading the settings")
    text = import_settings(state, paths, report, workspaces)
    if dry_run:
        _move_files(state, paths, workspaces, mine, report, dry_run=True, progress=progress)
        return report
    paths.prepare()
    with whole_home(paths):
        marker = json.dumps({"command": command, "workspaces": sorted(mine)}, ensure_ascii=False)
        write_atomically(paths.migration_marker, marker, durable=True)
        fault_injection.point("after", "migration_marker")
        _write_settings(paths, env, text)
        for agent in state.agents if begun is not None else ():
            shutil.rmtree(paths.sessions(agent), ignore_errors=True)  # half of them: until the end nothing else makes any
        _move_files(state, paths, workspaces, mine, report, dry_run=False, progress=progress)
        fault_injection.point("after", "migration")
        os.sync()  # copies of files are many: one call for all
        paths.migration_marker.unlink()
    return report


def _begun(paths: Paths) -> set[str] | None:
    """Return the workspaces that a take-over which was broken off makes; None where none was."""
    try:
        return set(map(str, json.loads(paths.migration_marker.read_bytes())["workspaces"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _holds_files(folder: Path) -> bool:
    return folder.exists() and any(folder.iterdir())


def _move_files(
    state: ForeignState,
    paths: Paths,
    workspaces: Mapping[str, Path],
    mine: set[str],
    report: Report,
    *,
    dry_run: bool,
    progress: Progress,
) -> None:
    _import_keys(state, paths, report, dry_run=dry_run)
    for agent, target in workspaces.items():
        progress(f"Copying the workspace of {agent}")
        _copy_workspace(state.workspace(agent), target, report, again=str(target) in mine, dry_run=dry_run)
        fault_injection.point("after", "migration_workspace")
        folder, memory = paths.sessions(agent), _text_of((state.workspace(agent) if dry_run else target) / "MEMORY.md")
        import_sessions(state, agent, folder, memory, report, dry_run=dry_run, progress=progress)
    fault_injection.point("after", "migration_sessions")
    settings = load(paths, {}, only_look=True).settings
    import_jobs(state, paths, settings, report, dry_run=dry_run)
    _copy_skills(state.folder / "skills", managed_folder(paths), report, dry_run=dry_run)
    for name, why in _LEFT.items():
        if why and (state.folder / name).exists():
            report.add("other", name, "left out", why)


def _refuse_if_used(paths: Paths) -> None:
    sessions = paths.agents.glob("*/sessions/*.jsonl") if paths.agents.is_dir() else ()
    found = next((path for path in (paths.config_file(), *sessions) if path.exists()), None)
    ledger = paths.state / "ledger.sqlite"
    if found is None and ledger.exists():  # any command that looks at jobs or people makes an empty one
        with whole_home(paths):
            found = ledger if asyncio.run(_holds_anything(ledger)) else None
    if found is not None:
        raise UsageError(
            f"{paths.home} is in use already: it holds {found.relative_to(paths.home) if found.is_relative_to(paths.home) else found}",
            hint="Take it over into a profile of its own: homebody --profile NAME migrate ..., or move that folder away first.",
        )


async def _holds_anything(path: Path) -> bool:
    """Return whether a ledger has ever had a message, or has a job or a person who was let in."""
    ledger = await open_file(path, SystemClock())
    try:
        return await ledger.took_any() or bool(await ledger.jobs.all()) or bool(await ledger.pairing.approved())
    finally:
        await ledger.close()


def _new_workspace(agent: str, state: ForeignState, paths: Paths) -> Path:
    usual = Settings().of_profile(paths.profile)
    folder = usual.agent(usual.default_agent).workspace
    return folder if agent == state.agents[0] else folder.with_name(f"{folder.name}-{agent}")


def _write_settings(paths: Paths, env: Mapping[str, str], text: str) -> None:
    def edit(_: Document) -> str:
        return text

    change(paths, env, datetime.now(UTC), edit)


def _import_keys(state: ForeignState, paths: Paths, report: Report, *, dry_run: bool) -> None:
    profiles = Profiles(paths, AuthSettings())
    with reported(report, "keys", state.shared_database) as database:
        _take_keys(database.shared_profiles() if database else None, profiles.file(), report, dry_run=dry_run)
    for agent in state.agents:
        file = state.folder / "agents" / agent / "agent" / "auth-profiles.json"
        target = profiles.file(None if agent == state.agents[0] else agent)
        try:
            _take_keys(read_json(file), target, report, dry_run=dry_run)
        except (OSError, ValueError) as error:
            report.add("keys", str(file), "problem", str(error))
        with reported(report, "keys", state.database(agent)) as database:
            _take_keys(database.own_profiles() if database else None, target, report, dry_run=dry_run)
    for variable, provider in _KEYS_IN_ENV.items():
        if secret := (state.env.get(variable) or str(section(state.config, "env").get(variable) or "")).strip():
            if not dry_run:
                profiles.file().put(Profile(f"{provider}:imported", provider, "api_key", secret))
            report.add("keys", variable, "taken", f"saved as {provider}:imported")


def _take_keys(raw: object, target: ProfileFile, report: Report, *, dry_run: bool) -> None:
    for name, one in (section(raw, "profiles") if isinstance(raw, dict) else {}).items():
        if not isinstance(one, dict):
            report.add("keys", name, "problem", "it cannot be read")
            continue
        secret, kind = str(one.get("key") or one.get("token") or "").strip(), one.get("type")
        if kind not in {"api_key", "token"} or not secret:
            kept = one.get("keyRef") or one.get("tokenRef")
            what = "it is kept outside of the file" if kept else "signing in by OAuth is not supported"
            report.add("keys", name, "left out", f"{what}: add a key with homebody models auth add")
            continue
        if not dry_run:
            target.put(Profile(name, same_provider(str(one.get("provider") or name.partition(":")[0])), kind, secret))
        report.add("keys", name, "taken")


def _copy_workspace(source: Path, target: Path, report: Report, *, again: bool, dry_run: bool) -> None:
    """Copy a workspace as a whole. ``again``: what is in the place is the copy of a take-over that was broken off later."""
    if not source.is_dir():
        if not dry_run:
            target.mkdir(parents=True, exist_ok=True, mode=0o700)
        report.add("workspace", str(source), "left out", f"there is no such folder; {target} begins empty")
        return
    if again and _holds_files(target):
        report.add("workspace", str(source), "taken", f"to {target}")
        return
    if _holds_files(target):
        report.add("workspace", str(source), "problem", f"{target} is not empty, so nothing was copied into it")
        return
    try:
        near = target.with_name(f"{target.name}.taking-over")
        if not dry_run:
            shutil.rmtree(near, ignore_errors=True)
        files, size, odd = _copy_tree(source, near, dry_run=dry_run)
        if not dry_run:
            fault_injection.point("before", "migration_workspace")
            near.rename(target)
    except OSError as error:
        raise StorageFailed.from_os(error, "copy the workspace", target) from error
    left = f"; left out: {odd} links to outside, sockets or devices" if odd else ""
    report.add("workspace", str(source), "changed" if odd else "taken", f"{files:,} files, {size:,} bytes, to {target}{left}")


def _copy_tree(source: Path, target: Path, *, dry_run: bool) -> tuple[int, int, int]:
    """Copy files and folders, with their times; return files, bytes, and how many things were left out.

    Links that lead outside of the folder, sockets, pipes and devices are left out.
    """
    files = size = odd = 0
    top = source.resolve()
    for folder, names in _walk(source):
        below = target / folder.relative_to(source)
        if not dry_run:
            below.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            path = folder / name
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                if path.exists() and path.resolve().is_relative_to(top) and not path.readlink().is_absolute():
                    if not dry_run:
                        (below / name).symlink_to(path.readlink())
                    continue
                odd += 1
            elif stat.S_ISREG(found.st_mode):
                files, size = files + 1, size + found.st_size
                if not dry_run:
                    shutil.copy2(path, below / name)
            else:
                odd += 1
    return files, size, odd


def _walk(source: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder with the names in it that are no folders, links to folders among them."""
    for folder, folders, names in os.walk(source):
        here = Path(folder)
        yield here, [*names, *(name for name in folders if (here / name).is_symlink())]


def _copy_skills(source: Path, target: Path, report: Report, *, dry_run: bool) -> None:
    for folder in sorted(source.iterdir()) if source.is_dir() else ():
        if not (folder / "SKILL.md").is_file():
            continue
        if not dry_run:
            try:
                _copy_tree(folder, target / folder.name, dry_run=False)
            except OSError as error:
                report.add("skills", folder.name, "problem", error.strerror or str(error))
                continue
        report.add("skills", folder.name, "changed", f"approve it before it is used: homebody skills approve {folder.name}")


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
