"""Where the house keeps its things.

$HOMEBODY_HOME             ~/.homebody (~/.homebody-NAME for a profile), every folder 0700
├── homebody.yaml          the settings (or homebody.json; both is an error)
├── state/                 ledger, lock and socket
├── agents/<id>/sessions/  transcripts
├── memory/                search indexes, one for each agent
└── logs/
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.base.errors import SettingsError, StorageFailed, UsageError
from gateway.base.file_access import access_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

YAML_NAME = "homebody.yaml"
JSON_NAME = "homebody.json"
_PRIVATE = 0o700
_PROFILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Paths:
    """The places of one house. ``home`` is absolute. ``chosen_config`` is a settings file named by hand, or None.

    ``profile`` is the name of a house beside the usual one, which has none.
    """

    home: Path
    chosen_config: Path | None = None
    profile: str = ""

    @classmethod
    def find(
        cls, env: Mapping[str, str], *, home: Path | None = None, config: Path | None = None, profile: str | None = None
    ) -> Paths:
        """Say where things are: what the command line says, else HOMEBODY_HOME and HOMEBODY_CONFIG, else ``~/.homebody``.

        A profile (else HOMEBODY_PROFILE) has a home of its own beside that one, unless ``home`` names another; one that the
        command line names does not read HOMEBODY_CONFIG, which is the usual house's.

        Touches no disk. Raises StorageFailed when ``~`` cannot be resolved, UsageError for a name that is none.
        """
        name = _profile(env.get("HOMEBODY_PROFILE", "") if profile is None else profile)
        place = home or Path((env.get("HOMEBODY_HOME") or "~/.homebody") + (f"-{name}" if name else ""))
        in_env = "" if profile and name else env.get("HOMEBODY_CONFIG", "")
        named = config or (Path(in_env) if in_env else None)
        return cls(_absolute(place, env), _absolute(named, env) if named else None, name)

    @property
    def state(self) -> Path:
        """The folder of the ledger, the lock and the socket."""
        return self.home / "state"

    @property
    def memory(self) -> Path:
        """The folder of the search indexes."""
        return self.home / "memory"

    @property
    def logs(self) -> Path:
        """The folder of the log files."""
        return self.home / "logs"

    @property
    def agents(self) -> Path:
        """The folder that holds one for each agent."""
        return self.home / "agents"

    def agent(self, agent_id: str) -> Path:
        """The folder of one agent's own things."""
        return self.agents / agent_id

    def sessions(self, agent_id: str) -> Path:
        """The folder of one agent's transcripts."""
        return self.agent(agent_id) / "sessions"

    def config_names(self) -> list[Path]:
        """Where the settings may be when no file was chosen by hand."""
        return [self.home / YAML_NAME, self.home / JSON_NAME]

    def config_file(self) -> Path:
        """Return the settings file: the one that is there, or the one to make. Raises SettingsError when there are two."""
        if self.chosen_config:
            return self.chosen_config
        yaml, json = self.config_names()
        if os.path.lexists(yaml) and os.path.lexists(json):
            from gateway.base.problem import Problem

            raise SettingsError(
                [
                    Problem(
                        f"both {YAML_NAME} and {JSON_NAME} are there",
                        file=str(self.home),
                        hint="Keep one of them and move the other away.",
                    )
                ],
                where=str(self.home),
            )
        return json if os.path.lexists(json) else yaml

    def prepare(self) -> None:
        """Make the folders of the house, private to this user.

        Raises StorageFailed for one that is a symbolic link (whoever set it could lead the state elsewhere), not a folder,
        another user's, or not writable. Access that was wider is narrowed to the owner.
        """
        for folder in (self.home, self.state, self.agents, self.memory, self.logs):
            private_folder(folder)


def _profile(name: str) -> str:
    """Return the name of a profile; nothing for the usual house, which may be called "default"."""
    name = name.strip()
    if name in {"", "default"}:
        return ""
    if not _PROFILE.fullmatch(name):
        hint = "Use up to 32 small letters, figures, - and _, such as --profile work."
        raise UsageError(f"{name!r} cannot name a profile", hint=hint)
    return name


def private_folder(folder: Path) -> Path:
    """Make a folder 0700 (parents too) and return it. Raises StorageFailed as ``Paths.prepare`` tells."""
    found = _made(folder)
    if stat.S_ISLNK(found.st_mode):
        raise StorageFailed(
            "is a symbolic link, and state is not kept behind one",
            where=str(folder),
            hint=f"Set HOMEBODY_HOME to the real place ({os.path.realpath(folder)}), or put a folder there.",
        )
    if not stat.S_ISDIR(found.st_mode):
        raise StorageFailed("is not a folder", where=str(folder), hint="Move it away, or point HOMEBODY_HOME elsewhere.")
    _make_private(folder, found)
    return folder


def _made(folder: Path) -> os.stat_result:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=_PRIVATE)
        return folder.lstat()
    except (FileExistsError, NotADirectoryError) as error:
        raise StorageFailed("a part of this path is a file", where=str(folder), hint="Move that file away.") from error
    except OSError as error:
        raise StorageFailed.from_os(error, "make this folder", folder) from error


def _make_private(folder: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        raise StorageFailed("belongs to another user", where=str(folder), hint=access_hint(folder))
    try:
        if found.st_mode & 0o077:
            folder.chmod(_PRIVATE)
    except OSError as error:
        raise StorageFailed.from_os(error, "make this folder private", folder) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StorageFailed("cannot be read and written", where=str(folder), hint=access_hint(folder, "u+rwx"))


def _absolute(path: Path, env: Mapping[str, str]) -> Path:
    text = str(path)
    if text == "~" or text.startswith("~/"):
        home = env.get("HOME")
        if home:
            path = Path(home) / text[2:]
        else:
            try:
                path = path.expanduser()
            except RuntimeError as error:
                hint = "Set HOME, or HOMEBODY_HOME to a full path."
                raise StorageFailed("your home folder is not known", where=text, hint=hint) from error
    return Path(os.path.abspath(path))  # noqa: PTH100 -- resolve() would follow links, which must be seen and refused
