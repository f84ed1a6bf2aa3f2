"""The state folder of Clawdbot or OpenClaw, as it lies on disk. It is only read.

Layout, seen in a folder made by npm ``clawdbot`` 2026.1.24-3: ``<name>.json`` (JSON5), ``.env``,
``agents/<id>/agent/auth-profiles.json``, ``agents/<id>/sessions/`` (``sessions.json`` and a JSONL transcript for each session),
``credentials/<channel>-allowFrom.json``, ``cron/jobs.json``, ``skills/<name>/SKILL.md``; workspaces lie where the settings say.
Since June 2026 OpenClaw keeps most of it in SQLite: ``openclaw_database.py``. An older folder has files, which may stay beside that.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from gateway.base.errors import UsageError
from gateway.config.document import Tree, read_document, read_text

Program = Literal["clawdbot", "openclaw"]
CONFIG_FILES: Final[Mapping[Program, tuple[str, ...]]] = {
    "clawdbot": ("clawdbot.json", "moltbot.json"),
    "openclaw": ("openclaw.json", "moltbot.json", "clawdbot.json"),
}
WORKSPACES: Final[Mapping[Program, str]] = {"clawdbot": "clawd", "openclaw": ".openclaw/workspace"}
"""Where the main workspace is when the settings name none, below the home folder."""
LARGEST_JSON: Final = 64 * 1024 * 1024
LONGEST_ID: Final = 32
_VARIABLE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignState:
    """One state folder: its settings as plain values, and the variables of its ``.env``. ``home`` is what ``~`` means in its paths."""

    program: Program
    folder: Path
    config_file: Path | None
    config: Mapping[str, Any]
    home: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def agents(self) -> tuple[str, ...]:
        """The ids of the agents, which are the names of their folders too: the default one first; `main` if none is listed."""
        listed = [
            entry for entry in section(self.config, "agents").get("list") or () if isinstance(entry, dict) and entry.get("id")
        ]
        listed.sort(key=lambda entry: not entry.get("default"))
        return tuple(dict.fromkeys(filter(None, (agent_id(str(entry["id"])) for entry in listed)))) or ("main",)

    def entry(self, agent: str) -> Mapping[str, Any]:
        """Return the agent's entry in the settings; {} if there is none."""
        for entry in section(self.config, "agents").get("list") or ():
            if isinstance(entry, dict) and agent_id(str(entry.get("id", ""))) == agent:
                return entry
        return {}

    def workspace(self, agent: str) -> Path:
        """Return the agent's workspace folder, which need not exist."""
        defaults = section(section(self.config, "agents"), "defaults")
        given = self.entry(agent).get("workspace") or (defaults.get("workspace") if agent == self.agents[0] else None)
        if not given:
            usual = WORKSPACES[self.program]
            given = f"~/{usual}" if agent == self.agents[0] else f"~/{usual}-{agent}"
        return self.path(str(given))

    def path(self, text: str) -> Path:
        """Return a path of the settings, with its variables and ``~``."""
        text = self.filled(text)
        return self.home / text.removeprefix("~").lstrip("/") if text.startswith("~") else self.folder / text

    def filled(self, text: str) -> str:
        """Return a text with the variables of the ``.env`` filled in; others stay."""
        return _VARIABLE.sub(lambda found: self.env.get(found[1], found[0]), text)

    @property
    def shared_database(self) -> Path:
        """Return the database of what all agents share, which need not exist."""
        return self.folder / "state" / "openclaw.sqlite"

    def database(self, agent: str) -> Path:
        """Return the database of an agent, which need not exist."""
        return self.folder / "agents" / agent / "agent" / "openclaw-agent.sqlite"

    def sessions(self, agent: str) -> Path:
        """Return the folder of an agent's sessions."""
        return self.folder / "agents" / agent / "sessions"


def open_state(program: Program, folder: Path, home: Path) -> ForeignState:
    """Read the settings of a state folder. ``folder`` may also be the home folder that it lies in.

    Raises:
        UsageError: there is no such folder, or it is none of this program.
        SettingsError: its settings cannot be read.
    """
    for place in (folder, folder / f".{program}"):
        config_file = next((place / name for name in CONFIG_FILES[program] if (place / name).is_file()), None)
        if config_file is not None or (place / "agents").is_dir():
            return ForeignState(
                program=program,
                folder=place,
                config_file=config_file,
                config=_settings(config_file),
                home=place.parent if place.name == f".{program}" else home,
                env=dict(_env_file(place / ".env")),
            )
    names = " or ".join(CONFIG_FILES[program])
    raise UsageError(
        f"{folder} is not a state folder of {program}: it holds neither {names} nor agents/",
        hint=f"Name the folder, which is usually ~/.{program}: homebody migrate from-{program} ~/.{program}",
    )


def agent_id(foreign: str) -> str:
    """Return an agent's id as both programs spell it: small letters, digits, - and _; "" if nothing is left of it."""
    plain = unicodedata.normalize("NFKD", foreign.lower()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9_-]+", "-", plain).strip("-_")[:LONGEST_ID]


def section(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a section of settings; {} where it is missing or none."""
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; None if there is no such file.

    Raises:
        ValueError: it is too large or no JSON.
        OSError: it cannot be read.
    """
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ValueError(f"is larger than {LARGEST_JSON >> 20} MiB")
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def _settings(path: Path | None) -> Mapping[str, Any]:
    return {} if path is None else Tree(read_document(read_text(path), str(path))).values


def _env_file(path: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        found = _ENV_LINE.fullmatch(line)
        if found is not None:
            value = found[2]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            yield found[1], value[1:-1] if quoted else value
