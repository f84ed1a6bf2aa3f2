"""The section ``agents.defaults.workspaceStore``: whether an agent's folder is kept in a git repository, too."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from agent.section import Section

_SSH: Final = re.compile(r"[\w.-]+@[\w.-]+:[^:].*|[\w.-]+:[^/:].*")
"""What git takes as USER@HOST:PATH or HOST:PATH."""
_THIS_MACHINE: Final = {"localhost", "127.0.0.1", "::1"}
_BRANCH: Final = r"^[A-Za-z0-9_][A-Za-z0-9_/-]{0,99}$"


def _remote(remote: str) -> str:
    """Return an address that git takes. Raises ValueError for others, and for one with a password in it."""
    parts = urlsplit(remote) if "://" in remote else None
    if parts is not None and parts.password is not None:
        raise ValueError("it has a password: other users of the machine could read it; use workspaceStore.token")
    if (
        parts is not None
        and parts.scheme in {"https", "http", "ssh", "file"}
        and parts.path.strip("/")
        and not parts.netloc.startswith("-")
    ):
        return remote
    if parts is None and (not remote or remote.startswith(("/", "~/")) or _SSH.fullmatch(remote)):
        return remote
    raise ValueError("it is no address of a repository: write https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH or /PATH")


class WorkspaceStoreSettings(Section):
    """Whether the agent's folder is kept in a git repository, too (docs/workspaces.md)."""

    type: Literal["folder", "git"] = "folder"
    """`folder`: the folder alone. `git`: each change is committed and pushed to a repository, and pulled where the agent starts."""
    remote: Annotated[str, AfterValidator(_remote)] = ""
    """The repository: https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH, or the path of a bare one. `{agentId}` stands for the agent."""
    branch: Annotated[str, Field(pattern=_BRANCH)] = "main"
    """The branch in which the folder is kept. Agents that share a repository need one each: `{agentId}` can be in `remote` alone."""
    token: SecretStr | None = None
    """Token or password for an https address, such as ${WORKSPACE_TOKEN}."""
    ssh_key: Path | None = None
    """File with the private key for an ssh address. Unset: as ssh chooses."""
    inbox: bool = False
    """Keep received files (the folders named inbox), too. History makes them stay for ever."""
    ignore: tuple[str, ...] = ()
    """Patterns of names or paths that are left out, such as `*.zip` or `projects/*/build`."""
    pull_minutes: Annotated[float, Field(ge=0)] = 5.0
    """How often the repository is looked at for changes of others, in minutes. 0: at the start alone."""

    @model_validator(mode="after")
    def _token_in_private(self) -> Self:
        parts = urlsplit(self.remote) if "://" in self.remote else None
        if self.token is not None and parts is not None and parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            raise ValueError("the token would go to remote unencrypted: write https://, or leave the token out")
        return self
