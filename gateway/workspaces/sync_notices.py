"""What the owner and the agent are told of a workspace and its repository: each thing once while the gateway runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import Struct

from gateway.base.errors import HomebodyError
from gateway.workspaces.git_workspace import GitWorkspace, Pulled
from gateway.workspaces.merging import names_of

_NAMED: Final = 5


class Trouble(Struct, frozen=True):
    """Why the workspace and the repository of all are not in step. ``kind`` is that of ``GitFailed``."""

    kind: str
    text: str
    hint: str
    since: datetime

    def facts(self) -> dict[str, str]:
        """Return it as JSON values."""
        return {
            "kind": self.kind,
            "text": self.text,
            "mend": self.hint,
            "since": self.since.isoformat(timespec="seconds"),
        }


class SyncNotices:
    """Tells of what happens to one workspace, from any thread.

    ``tell`` takes sentences for the owner, ``tell_both`` those that the agent needs to know, too.
    """

    def __init__(self, workspace: GitWorkspace, tell: Callable[[str], object], tell_both: Callable[[str], object]) -> None:
        self._workspace = workspace
        self._tell = tell
        self._tell_both = tell_both
        self._told: set[str] = set()

    def gone(self) -> None:
        """Tell of files that are gone here, which is not passed on without being asked for."""
        agent, held = self._workspace.agent, self._workspace.held
        if held:
            gone = f"{len(held)} files of the workspace of {agent} are gone, or are templates again"
            self._once(
                f"{gone}. That was not passed on, because the disk may not be mounted. To pass it on: "
                f"homebody workspace sync --agent {agent} --removals. To have them back: --restore instead of --removals"
            )

    def secrets(self) -> None:
        """Tell of files that hold a secret: of each once on this machine, also when the gateway or its part in the agent ends meanwhile."""
        workspace = self._workspace
        scanned, told = workspace.scanned, workspace.state.told
        found = {path: why for path, why in scanned.left_out.items() if "holds a secret" in why}
        for path, why in found.items():
            if path not in told:
                self._tell(f"{path} {why}, so it is not brought to the repository of the workspace of {workspace.agent}.")
        now = sorted(found if scanned.present else {*found, *told})  # nothing was looked at yet
        if now != told:
            workspace.state.told = now
            workspace.state.write(workspace.folder)

    def joined(self, pulled: Pulled) -> None:
        """Tell of what was changed here and elsewhere at once."""
        agent = self._workspace.agent
        if pulled.beside:
            listed = "; ".join(f"{one.path} (the other is {one.kept_as})" for one in pulled.beside[:_NAMED])
            more = f" and {len(pulled.beside) - _NAMED} more" if len(pulled.beside) > _NAMED else ""
            self._tell_both(
                f"Files of the workspace of {agent} were changed in two places at once, and both versions are there: {listed}{more}. "
                "Join them, and delete the other."
            )
        if pulled.stayed:
            self._once(
                f"{names_of(pulled.stayed)} of the workspace of {agent}: deleted in one place and changed in another, so it stays."
            )

    def mended(self) -> None:
        """Tell that a damaged repository was replaced."""
        what = f"The repository of the workspace of {self._workspace.agent} was damaged"
        aside = self._workspace.state.damaged
        self._once(f"{what}. It is {aside} now, and was made anew; the files are as they were.")

    def failed(self, kind: str, failed: HomebodyError) -> None:
        """Tell of what only the owner can mend; ``kind`` is that of ``GitFailed``."""
        agent = self._workspace.agent
        if kind == "unfit":
            self._once(f"Nothing can be brought in from the repository of the workspace of {agent}: {failed} {failed.hint}")
        if kind == "refused":
            self._once(f"The repository of the workspace of {agent} does not let me in: {failed} {failed.hint}".strip())

    def _once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)
