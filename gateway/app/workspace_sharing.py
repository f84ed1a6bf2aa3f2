"""What the gateways of a cluster know of each other's workspaces, where each machine has a folder and a repository of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from agent.errors import WorkspaceFileError, WorkspaceFileNotFound
from gateway.base.errors import StorageFailed
from gateway.cluster.workspace_standing import Standing, Standings

if TYPE_CHECKING:
    from agent.tools.workspace_sandbox import WorkspaceSandbox
    from gateway.workspaces.standing_writer import StandingWriter

log = logging.getLogger(__name__)

_MARK: Final = PurePosixPath(".homebody/gateway")
"""Names the gateway that used this folder last. It is not kept in the repository."""


class WorkspaceSharing:
    """``gateway`` is the name of this one, ``tell`` takes sentences for the owner."""

    quiet_seconds: Final = 1.0
    """A change is committed so long after the last one: what has not arrived is missing where another gateway takes over."""
    pull_seconds: Final = 60.0
    """The repository is looked at at least so often: a gateway that was killed brings there what it has left."""

    def __init__(self, gateway: str, standings: Standings, tell: Callable[[str], None]) -> None:
        self.gateway = gateway
        self._standings = standings
        self._tell = tell

    async def former(self, agent: str) -> Standing | None:
        """Return how far another gateway has come that had an agent before; None where it was this one."""
        try:
            found = await self._standings.read(agent)
        except StorageFailed as error:
            log.warning("it is not known how far the workspace of %s has come: %s", agent, error)
            return None
        return found if found is not None and found.gateway != self.gateway else None

    def writer(self, agent: str, commit: str) -> StandingWriter:
        """Return what tells the others how far the workspace of an agent has come."""
        from gateway.workspaces.standing_writer import StandingWriter

        async def write(arrived: str, unsent: bool) -> None:
            await self._standings.write(agent, Standing(self.gateway, arrived, unsent))

        return StandingWriter(write, commit)

    def used_last_by(self, sandbox: WorkspaceSandbox) -> str:
        """Return the name of the gateway that used a folder last; "" where none did. Blocks."""
        try:
            return sandbox.read(_MARK, limit=100).data.decode("utf-8", "replace").strip()
        except (WorkspaceFileError, WorkspaceFileNotFound):
            return ""

    def use(self, sandbox: WorkspaceSandbox) -> str:
        """Note that this gateway uses a folder; return which one did before. Blocks."""
        before = self.used_last_by(sandbox)
        if before != self.gateway:
            try:
                if before:
                    sandbox.remove(_MARK, expected=sandbox.read(_MARK, limit=100).data)
                sandbox.create(_MARK, f"{self.gateway}\n".encode())
            except WorkspaceFileError as error:
                log.warning("it could not be noted that this gateway uses %s: %s", sandbox.root, error)
        return before

    def tell_missing(self, agent: str, former: Standing, *, behind: bool) -> None:
        """Tell the owner what of the workspace is not here, if something is."""
        notices = []
        if behind:
            notices.append(
                f"{self.gateway} has taken {agent} over from {former.gateway} with older notes, as the repository of its workspace does "
                "not answer. The newer ones come in by themselves: homebody workspace status"
            )
        if former.unsent:
            notices.append(
                f"{former.gateway} ended before its last changes to the workspace of {agent} had arrived. They are missing on "
                f"{self.gateway} until {former.gateway} runs again, and are joined then."
            )
        for text in notices:
            log.warning("%s", text)
            self._tell(f"⚠️ {text}")
