"""Keeps the workspaces of agents in git repositories, where the settings say so (docs/workspaces.md). Costs nothing elsewhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.context.workspace_files import Workspace, workspace_templates
from agent.errors import AgentError
from channels.messages import ChatAddress
from gateway.agents.memory_stores import owner_zone
from gateway.base.errors import HomebodyError, StorageFailed, UsageError
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import NewOutbound
from gateway.settings.root import AgentProfile, Settings, SettingsStore

if TYPE_CHECKING:  # loaded with the first workspace in a repository
    from importlib.resources.abc import Traversable

    from gateway.app.dependencies import Dependencies
    from gateway.app.workspace_sharing import WorkspaceSharing
    from gateway.workspaces.git_program import RemoteAccess
    from gateway.workspaces.workspace_sync import WorkspaceSync

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 5.0
"""How long an agent that is closed waits until its last changes have arrived."""


def access_of(profile: AgentProfile) -> RemoteAccess:
    """Return where the repository of an agent is. Raises UsageError where the settings do not say that."""
    from gateway.workspaces.git_program import RemoteAccess

    store = profile.store
    if not store.remote:
        raise UsageError(
            f"the workspace of {profile.id} is to be kept in a repository, and no address is set",
            where="agents.defaults.workspaceStore.remote",
            hint="homebody config set agents.defaults.workspaceStore.remote https://HOST/PATH.git",
        )
    url = store.remote.replace("{agentId}", profile.id)
    if url.startswith("~/"):
        url = str(Path(url).expanduser())
    if Path(url).is_absolute() and Path(url).resolve().is_relative_to(profile.workspace.resolve()):
        raise UsageError(
            f"the repository {url} lies in the workspace that is kept in it",
            where="agents.defaults.workspaceStore.remote",
            hint="Put it elsewhere.",
        )
    token = store.token.get_secret_value() if store.token is not None else ""
    return RemoteAccess(url=url, branch=store.branch, token=token, ssh_key=store.ssh_key)


def shared_repository(settings: Settings) -> str | None:
    """Return a complaint about two agents that would be kept in one branch, or None."""
    seen: dict[tuple[str, str], str] = {}
    for agent in settings.agent_ids:
        profile = settings.agent(agent)
        if profile.store.type == "git" and profile.store.remote:
            place = profile.store.remote.replace("{agentId}", agent), profile.store.branch
            if place in seen:
                return (
                    f"the workspaces of {seen[place]} and {agent} would be kept in one branch: put {{agentId}} into the address"
                )
            seen[place] = agent
    return None


class WorkspaceParts:
    """The repositories of all agents that have one. ``held`` says whether this gateway may write for an agent now."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        place: Callable[[], Awaitable[ChatAddress | None]],
        tell: Callable[[str], None],
    ) -> None:
        self.held: Callable[[str], bool] = lambda _agent: True
        self.sharing: WorkspaceSharing | None = None
        """What the gateways of a cluster know of each other's workspaces."""
        self.settle_seconds = SETTLE_SECONDS
        """How long an agent that is closed waits for its last push: in a cluster another machine goes on with what arrived."""
        self._deps = deps
        self._settings = settings
        self._ledger = ledger
        self._place = place
        self._tell = tell
        self._syncs: dict[str, WorkspaceSync] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._bringing: dict[str, asyncio.Task[bool]] = {}
        self._brought: set[str] = set()

    async def of(self, profile: AgentProfile, workspace: Workspace) -> WorkspaceSync | None:
        """Return what keeps an agent's workspace in its repository, after a first pull; None where it is a folder alone.

        Raises UsageError: the settings cannot be used.
        """
        if profile.store.type != "git":
            return None
        if (former := self._syncs.get(profile.id)) is not None:
            await former.settle(SETTLE_SECONDS)
            await former.release()
        self._brought.discard(profile.id)
        if (left := self._bringing.get(profile.id)) is not None:
            left.cancel()
            await asyncio.wait([left])
        made = self._made(profile, workspace, await asyncio.to_thread(template_contents))
        await (made.begin() if self.sharing is None else self._take_over(self.sharing, made, workspace))
        self._syncs[profile.id] = made
        return made

    async def _take_over(self, sharing: WorkspaceSharing, sync: WorkspaceSync, workspace: Workspace) -> None:
        """Bring in what the gateway pushed that had the agent before. Where the folder is one for both, nothing can be missing."""
        agent = sync.workspace.agent
        former = await sharing.former(agent)
        used_by = await asyncio.to_thread(sharing.use, workspace.sandbox)
        here = await sync.begin(former.commit if former is not None else "")
        if former is not None and used_by != former.gateway:
            sharing.tell_missing(agent, former, behind=not here)
        sync.standing = sharing.writer(agent, sync.workspace.state.pushed)

    async def bring(self, profile: AgentProfile, opened: Callable[[], Workspace]) -> None:
        """Bring what this gateway had not pushed of an agent that another one has now. ``opened`` opens its folder."""
        agent, sharing = profile.id, self.sharing
        if sharing is None or profile.store.type != "git" or agent in self._brought or self.held(agent) or agent in self._syncs:
            return
        task = self._bringing[agent] = asyncio.create_task(self._bring(sharing, profile, opened))
        try:
            await asyncio.wait([task])
            if not task.cancelled() and task.result():
                self._brought.add(agent)
        finally:
            task.cancel()
            del self._bringing[agent]

    async def _bring(self, sharing: WorkspaceSharing, profile: AgentProfile, opened: Callable[[], Workspace]) -> bool:
        if not await asyncio.to_thread(self._deps.paths.repository(profile.id).exists):
            return True
        try:
            workspace = await asyncio.to_thread(opened)
            if await asyncio.to_thread(sharing.used_last_by, workspace.sandbox) != sharing.gateway:
                return True  # another gateway has this folder, and all that is in it
            sync = self._made(profile, workspace, await asyncio.to_thread(template_contents), left=True)
        except (HomebodyError, AgentError) as error:
            log.warning("what this gateway left of the workspace of %s cannot be looked at: %s", profile.id, error)
            return False
        try:
            return await sync.bring()
        finally:
            await sync.close()

    async def closed(self, agent: str, sync: WorkspaceSync) -> None:
        """Push what is left of an agent that is closed, and let go of its repository."""
        if self._syncs.get(agent) is sync:
            del self._syncs[agent]
            if self.held(agent) and (sync.pending or self.sharing is not None):
                await sync.settle(self.settle_seconds)
                if sync.standing is not None:
                    await sync.standing.settled()
        await sync.close()

    async def hindrance(self, agents: Collection[str]) -> str:
        """Push what is left of these agents; return why something could not be, and "" where all has arrived."""
        for agent in agents:
            sync = self._syncs.get(agent)
            if sync is not None and self.held(agent) and not await sync.settle(self.settle_seconds):
                trouble = sync.trouble
                why = f"{trouble.text} ({trouble.hint})" if trouble is not None else "it takes too long to push it"
                return f"the workspace of {agent} has not arrived in its repository: {why}"
        return ""

    async def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Push what is left of all agents, before the gateway stops."""
        pending = [sync for agent, sync in self._syncs.items() if sync.pending and self.held(agent)]
        await asyncio.gather(*(sync.settle(seconds) for sync in pending))

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"workspace.status": self.status, "workspace.sync": self.sync}

    async def status(self) -> dict[str, Any]:
        """Return the state of all workspaces."""
        settings = self._settings.current
        return {"workspaces": [self._facts(settings.agent(agent)) for agent in settings.agent_ids]}

    async def sync(self, agent: str, *, removals: bool = False, restore: bool = False) -> dict[str, Any]:
        """Commit, pull and push the workspace of an agent now. Raises UsageError, GitFailed, StorageFailed."""
        found = self._syncs.get(agent)
        if found is None:
            profile = self._settings.current.agent(agent)
            raise UsageError(
                f"the workspace of {profile.id} is a folder alone",
                hint="To keep it in a repository: docs/workspaces.md",
            )
        return await found.sync(removals=removals, restore=restore)

    def facts(self) -> dict[str, Any]:
        """Return what ``homebody status`` shows, by agent; empty where no workspace is in a repository."""
        return {agent: sync.facts() for agent, sync in self._syncs.items()}

    def _facts(self, profile: AgentProfile) -> dict[str, Any]:
        sync = self._syncs.get(profile.id)
        more = sync.facts() if sync is not None else {"agent": profile.id}
        return {**more, "type": profile.store.type, "workspace": str(profile.workspace)}

    def _made(
        self, profile: AgentProfile, workspace: Workspace, templates: frozenset[str], *, left: bool = False
    ) -> WorkspaceSync:
        from gateway.workspaces.carried_files import CarriedFiles
        from gateway.workspaces.git_workspace import GitWorkspace
        from gateway.workspaces.workspace_sync import QUIET_SECONDS, WorkspaceSync

        deps, store, agent = self._deps, profile.store, profile.id
        if (complaint := shared_repository(self._settings.current)) is not None:
            raise UsageError(complaint, where="agents.defaults.workspaceStore.remote")
        zone = owner_zone(profile)
        kept = GitWorkspace(
            agent,
            deps.paths.repository(agent),
            workspace.sandbox,
            access_of(profile),
            deps.env,
            rules=CarriedFiles(store.ignore, inbox=store.inbox),
            now=deps.clock.now,
            day=lambda: deps.clock.now().astimezone(zone).date(),
            withheld=lambda path, data: deps.outgoing.holds_bytes(data) or deps.outgoing.holds(path),
            templates=templates,
            record=workspace.untrusted,
        )
        seconds, sharing = store.pull_minutes * 60, self.sharing
        return WorkspaceSync(
            kept,
            deps.clock,
            pull_every=seconds if sharing is None else min(seconds or sharing.pull_seconds, sharing.pull_seconds),
            tell=self._tell,
            tell_both=partial(self._tell_both, agent),
            may_push=lambda: left or self.held(agent),
            quiet=QUIET_SECONDS if sharing is None else sharing.quiet_seconds,
            left=left,
        )

    def _tell_both(self, agent: str, text: str) -> None:
        task = asyncio.create_task(self._announce(agent, text))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _announce(self, agent: str, text: str) -> None:
        """Tell the owner in their chat, and the agent with the next message there."""
        place = await self._place()
        if place is None:
            self._tell(text)
            return
        try:
            message = NewOutbound(conversation=place, text=f"⚠️ {text}")
            await self._ledger.context_events.announce(message, f"[{text}]", agent=agent)
        except StorageFailed as error:
            log.warning("it could not be told that %s: %s", text, error)


def template_contents() -> frozenset[str]:
    """Return git's names of the files that a new workspace begins with. Blocks."""
    from gateway.workspaces.commit_stream import blob_of

    return frozenset(blob_of(one.read_bytes()) for one in _files(workspace_templates()))


def _files(folder: Traversable) -> list[Traversable]:
    found: list[Traversable] = []
    for one in folder.iterdir():
        found += _files(one) if one.is_dir() else [one]
    return found
