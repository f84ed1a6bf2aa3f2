"""The paths of settings, state, sessions, indexes and logs.

$HOMEBODY_HOME             ~/.homebody (~/.homebody-NAME for a profile), every folder 0700
├── homebody.yaml          the settings (or homebody.json; both is an error)
├── state/                 ledger, lock and socket
├── gateways/<name>/       lock, socket, indexes and repositories of each gateway of a cluster (HOMEBODY_GATEWAY)
├── agents/<id>/sessions/  transcripts
├── memory/                search indexes, one for each agent
└── logs/
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import stat
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from msgspec import Struct

from gateway.base.errors import IN_CONTAINER, SettingsError, StorageFailed, UsageError, access_hint

YAML_NAME = "homebody.yaml"
JSON_NAME = "homebody.json"
REPOSITORY = "workspace"
"""The folder of the repository of a workspace, in the folder of its agent."""
_PRIVATE = 0o700
_PROFILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class Paths(Struct, frozen=True):
    """The paths of one installation. ``home`` is absolute. ``chosen_config``: the settings file that the user named, or None.

    ``profile``: the name of the profile; "" for the default one. ``gateway``: the name of this gateway, where several share the home.
    """

    home: Path
    chosen_config: Path | None = None
    profile: str = ""
    gateway: str = ""

    @classmethod
    def find(
        cls, env: Mapping[str, str], *, home: Path | None = None, config: Path | None = None, profile: str | None = None
    ) -> Paths:
        """Find the paths: from the arguments, else HOMEBODY_HOME and HOMEBODY_CONFIG, else ``~/.homebody``.

        A profile (else HOMEBODY_PROFILE) has its own home beside that one, unless ``home`` is given. With a profile given as
        an argument, HOMEBODY_CONFIG is ignored: it belongs to the default profile.

        Does not access the disk. Raises StorageFailed if ``~`` cannot be resolved, UsageError for an invalid profile name and a
        HOMEBODY_HOME that is no full path.
        """
        name = _profile(env.get("HOMEBODY_PROFILE", "") if profile is None else profile)
        place = home or Path(_home_in(env) + (f"-{name}" if name else ""))
        in_env = "" if profile and name else env.get("HOMEBODY_CONFIG", "")
        named = config or (Path(in_env) if in_env else None)
        gateway = _gateway(env.get("HOMEBODY_GATEWAY", ""))
        return cls(_absolute(place, env), _absolute(named, env) if named else None, name, gateway)

    def options(self, env: Mapping[str, str]) -> str:
        """Return the fewest global options by which a command that is typed with ``env`` finds the same; "" where it needs none."""
        named = self.profile or "default"
        for profile, config, home in product((None, named), (None, self.chosen_config), (None, self.home)):
            if Paths.find(env, home=home, config=config, profile=profile) == self:
                given = {"--home": home, "--profile": profile, "--config": config}
                return shlex.join(word for name, value in given.items() if value for word in (name, str(value)))
        return shlex.join(["--home", str(self.home)])

    @property
    def state(self) -> Path:
        """The folder of the ledger, the lock and the socket."""
        return self.home / "state"

    @property
    def local(self) -> Path:
        """The folder of what belongs to this gateway alone: the lock and the socket. The state, where the gateway has no name."""
        return self.home / "gateways" / self.gateway if self.gateway else self.state

    @property
    def lock(self) -> Path:
        """The file that a running gateway holds locked."""
        return self.local / "gateway.lock"

    @property
    def memory(self) -> Path:
        """The folder of the search indexes, which each gateway makes for itself."""
        return (self.local if self.gateway else self.home) / "memory"

    @property
    def logs(self) -> Path:
        """The folder of the log files."""
        return (self.local if self.gateway else self.home) / "logs"

    @property
    def agents(self) -> Path:
        """The parent of the agents' folders."""
        return self.home / "agents"

    def agent(self, agent_id: str) -> Path:
        """The state folder of one agent."""
        return self.agents / agent_id

    def repository(self, agent_id: str) -> Path:
        """The folder of the repository that an agent's workspace is kept in, too: each gateway has one of its own."""
        return (self.local if self.gateway else self.home) / "agents" / agent_id / REPOSITORY

    def sessions(self, agent_id: str) -> Path:
        """The folder of one agent's transcripts."""
        return self.agent(agent_id) / "sessions"

    def restore_markers(self) -> tuple[Path, Path]:
        """The possible names of the file that is there while a restore renames: inside of a home that is mounted, beside others."""
        return self.home / "restore-unfinished.json", self.home.with_name(f"{self.home.name}.restore-unfinished.json")

    @property
    def migration_marker(self) -> Path:
        """The file that is there while the state of another program is taken over."""
        return self.home / "migration-unfinished.json"

    def config_names(self) -> list[Path]:
        """The possible settings files if none was named."""
        return [self.home / YAML_NAME, self.home / JSON_NAME]

    def config_file(self) -> Path:
        """Return the settings file: the existing one, or the one to create. Raises SettingsError if there are two."""
        if self.chosen_config:
            return self.chosen_config
        yaml, json = self.config_names()
        if os.path.lexists(yaml) and os.path.lexists(json):
            from gateway.base.errors import Problem

            raise SettingsError(
                [
                    Problem(
                        f"both {YAML_NAME} and {JSON_NAME} exist",
                        file=str(self.home),
                        hint="Keep one of them and move the other away.",
                    )
                ],
                where=str(self.home),
            )
        return json if os.path.lexists(json) else yaml

    def prepare(self) -> None:
        """Create the folders with mode 0700; wider access to existing ones is removed.

        Raises StorageFailed for a folder that is a symbolic link (which could redirect the state), not a folder, owned by
        another user (also for root, whose files there its owner could not use), or not writable.
        """
        self.refuse_root()
        own = [self.home / "gateways", self.local] if self.gateway else []
        for folder in (self.home, self.state, *own, self.agents, self.memory, self.logs):
            private_folder(folder)

    def refuse_root(self) -> None:
        """Raise StorageFailed where root would write into a home of somebody else, who could not use its files."""
        for folder in (self.home, self.state):
            _refuse_root(folder, state=folder == self.state)


def _home_in(env: Mapping[str, str]) -> str:
    """Return the home that the environment names. A relative path, which would be another home in each folder, is refused."""
    given = env.get("HOMEBODY_HOME") or "~/.homebody"
    if given.startswith(("/", "~/")) or given == "~":
        return given
    full = shlex.quote(str(Path.cwd() / given))
    hint = f"In each folder it would be another home. Set the full path: export HOMEBODY_HOME={full}"
    raise UsageError(f"{given!r} is not a full path", where="HOMEBODY_HOME", hint=hint)


def _profile(name: str) -> str:
    """Return the name of a profile; "" for the default one, which may also be called "default"."""
    name = name.strip()
    if name in {"", "default"}:
        return ""
    if not _PROFILE.fullmatch(name):
        hint = "Use up to 32 lower-case letters, digits, - and _, such as --profile work."
        raise UsageError(f"{name!r} is not a valid profile name", hint=hint)
    return name


def _gateway(name: str) -> str:
    """Return the name of a gateway of a cluster; "" where there is only one."""
    name = name.strip()
    if name and not _PROFILE.fullmatch(name):
        hint = "Use up to 32 lower-case letters, digits, - and _, such as HOMEBODY_GATEWAY=kitchen."
        raise UsageError(f"{name!r} is not a valid name of a gateway", hint=hint)
    return name


def why_unusable(folder: Path) -> StorageFailed | None:
    """Return why a folder cannot be made, or written where it is there; None if nothing stands in the way. Makes nothing."""
    try:
        there = next(one for one in (folder, *folder.parents) if _exists(one))
        mode, read_only = there.stat().st_mode, os.statvfs(there).f_flag & os.ST_RDONLY
    except OSError as error:
        return StorageFailed.from_os(error, "look at this folder", folder)
    if not stat.S_ISDIR(mode):
        return _not_a_folder(folder) if there == folder else _below_a_file(folder)
    if os.access(there, os.W_OK | os.X_OK) and not read_only:
        return None
    code = errno.EROFS if read_only else errno.EACCES
    doing = "write to this folder" if there == folder else "make this folder"
    return StorageFailed.from_os(OSError(code, os.strerror(code)), doing, folder)


def _exists(path: Path) -> bool:
    """Whether something is there. Raises OSError where that cannot be told, as ``Path.exists`` would not."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def private_folder(folder: Path) -> Path:
    """Create a folder with mode 0700, with its parents, and return it. Raises StorageFailed as ``Paths.prepare`` does."""
    found = _made(folder)
    if stat.S_ISLNK(found.st_mode):
        raise StorageFailed(
            "is a symbolic link, which is not allowed for the state folder",
            where=str(folder),
            hint=f"Set HOMEBODY_HOME to the real place ({os.path.realpath(folder)}), or replace the link by a folder.",
        )
    if not stat.S_ISDIR(found.st_mode):
        raise _not_a_folder(folder)
    _make_private(folder, found)
    return folder


def _not_a_folder(path: Path) -> StorageFailed:
    return StorageFailed("is not a folder", where=str(path), hint="Move it away, or set HOMEBODY_HOME to another folder.")


def _below_a_file(path: Path) -> StorageFailed:
    return StorageFailed("a parent of this path is a file", where=str(path), hint="Move that file away.")


def _made(folder: Path) -> os.stat_result:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=_PRIVATE)
        return folder.lstat()
    except (FileExistsError, NotADirectoryError) as error:
        raise _below_a_file(folder) from error
    except OSError as error:
        raise StorageFailed.from_os(error, "make this folder", folder) from error


def _refuse_root(folder: Path, *, state: bool) -> None:
    """Refuse root in a home of somebody else. In a container, where folders are mounted, only a state of somebody else is refused."""
    if os.geteuid() != 0 or (not state and os.environ.get(IN_CONTAINER)):
        return
    try:
        owner = folder.stat().st_uid
    except OSError:
        return
    if owner != 0:
        hint = (
            access_hint(folder)
            if os.environ.get(IN_CONTAINER)
            else f"Run the command as its owner: sudo -u {user_name(owner)} homebody COMMAND"
        )
        raise StorageFailed(
            "belongs to another user, and root would leave files there that are not theirs", where=str(folder), hint=hint
        )


def user_name(uid: int) -> str:
    """Return the name of a user as sudo takes it: `#1000`, quoted, for one without a name."""
    import pwd

    try:
        return shlex.quote(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return f"'#{uid}'"


def _make_private(folder: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        raise StorageFailed("belongs to another user", where=str(folder), hint=access_hint(folder))
    try:
        if found.st_mode & 0o077:
            folder.chmod(_PRIVATE)
    except OSError as error:
        raise StorageFailed.from_os(error, "remove other users' access to this folder", folder) from error
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise StorageFailed.from_os(OSError(errno.EROFS, os.strerror(errno.EROFS)), "write to this folder", folder)
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
                raise StorageFailed("your home folder is unknown", where=text, hint=hint) from error
    return Path(os.path.abspath(path))  # noqa: PTH100 -- resolve() would follow links, which must be seen and refused
