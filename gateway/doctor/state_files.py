"""Checks the small files of the state, and extras that the settings need."""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.approvals.stored_rules import StoredRules
from gateway.base.installation import how_to_add
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, Level, ok
from gateway.mcp.pins import FOLDER as PINS
from gateway.models.key_profiles import FILE_NAME as KEYS
from gateway.settings.root import Settings
from gateway.skills.trust import FILE_NAME as SKILLS

_LEARNT: Final = ("learnt.json", "key-health.json", "starts.json")


def _examine_files(installation: Installation) -> Iterator[Finding]:
    state = installation.paths.state
    found: list[Finding] = []
    for path in [installation.paths.home / KEYS, *sorted(installation.paths.agents.glob(f"*/{KEYS}"))]:
        mend = f"Mend it, or add the keys again: mv {_quoted(path)} {_quoted(path)}.broken; homebody models auth add PROVIDER"
        found += _of(path, "error", "Its keys are not used.", mend)
    mend = f"Mend it, or approve the skills again: mv {_quoted(state / SKILLS)} {_quoted(state / SKILLS)}.broken"
    found += _of(state / SKILLS, "error", "No skill counts as approved.", mend)
    if problem := StoredRules(state).problem():
        mend = "Mend the file, or move it away; rules made with “always” are then made again when you are asked."
        found.append(Finding(level="error", what=problem, why="Every command is asked about.", mend=mend))
    for path in sorted((state / PINS).glob("*.json")):
        found += _of(path, "warning", "The server is asked and pinned again.", f"homebody mcp show {path.stem}")
    for name in _LEARNT:
        found += _of(state / name, "note", "What it holds is learned again.", f"rm {_quoted(state / name)}")
    yield from found or [ok("the files of keys, rules and approvals can be read")]


def _of(path: Path, level: Level, why: str, mend: str) -> Iterator[Finding]:
    try:
        json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return  # rights are the business of another check
    except (OSError, ValueError, RecursionError) as error:
        yield Finding(level=level, what=f"cannot be read: {error}", where=str(path), why=why, mend=mend)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def missing_extras(settings: Settings) -> list[Finding]:
    """Return a finding for each extra that the settings need and that is not installed."""
    needed = {
        "mail": ("mail", "imap_tools", bool(settings.mail.accounts)),
        "calendar": ("calendar", "icalendar", bool(settings.calendar.accounts)),
        "mcp": ("mcp", "mcp", any(one.enabled for one in settings.mcp.servers.values())),
        "metrics": ("gateway.metrics", "prometheus_client", settings.gateway.metrics.enabled),
        "tracing": ("gateway.tracing", "opentelemetry", settings.gateway.tracing.enabled),
        "postgres": ("storage", "psycopg", settings.storage.url is not None),
    }
    return [
        Finding(
            level="error",
            what=f"the extra {extra} is not installed ({package})",
            where=section,
            why=f"What the settings say under {section} does not work.",
            mend=how_to_add(extra),
        )
        for extra, (section, package, wanted) in needed.items()
        if wanted and importlib.util.find_spec(package) is None
    ]


def _examine_extras(installation: Installation) -> Iterator[Finding]:
    missing = missing_extras(installation.settings)
    yield from missing or [ok("every extra that the settings need is installed")]


STATE_FILES = Check(name="state", examine=_examine_files, quick=True)
EXTRAS = Check(name="extras", examine=_examine_extras, quick=True)
