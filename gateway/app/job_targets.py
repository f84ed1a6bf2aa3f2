"""What jobs need to know of the agents, models and chats of this gateway."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from zoneinfo import ZoneInfo

from agent.errors import AgentError
from channels.messages import WEB, ChatAddress
from channels.silent import is_silent
from gateway.agents.running_agent import RunningAgent
from gateway.agents.session_contexts import main_key
from gateway.app.chat_readers import TERMINAL, ChatReaders
from gateway.jobs.job_checks import Obstacle
from gateway.ledger.job_rows import Job, NewJob
from gateway.ledger.rows import Unasked
from gateway.ledger.values import account_of
from gateway.outbound.owner_notifications import OwnerNotifications
from memory.audience import Audience


class GatewayJobTargets:
    """Implements ``JobTargets``.

    ``accounts`` returns the accounts of the channels that run; None where none does, as in a terminal alone. ``client`` returns where
    what nobody asked for is read by an owner who has no chat on a platform.
    """

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        owner: OwnerNotifications,
        readers: ChatReaders,
        accounts: Callable[[], Collection[str]] | None,
        client: Callable[[], ChatAddress],
    ) -> None:
        self._agents = agents
        self._owner = owner
        self._readers = readers
        self._accounts = accounts
        self._client = client

    def zone(self, agent: str) -> ZoneInfo:
        """See the protocol."""
        found = self._agents.get(agent) or next(iter(self._agents.values()), None)
        return found.zone if found is not None else ZoneInfo("UTC")

    def agents(self) -> Iterable[str]:
        """See the protocol."""
        return tuple(self._agents)

    def main_session(self, agent: str) -> str:
        """See the protocol."""
        return main_key(agent)

    def obstacle(self, job: NewJob) -> Obstacle | None:
        """See the protocol."""
        agent = self._agents.get(job.agent)
        if agent is None:
            return Obstacle(f"there is no agent {job.agent!r} any more", f"Add it: `homebody agents add {job.agent}`.")
        if job.model is not None and job.kind == "prompt":
            try:
                names = agent.models.names(agent.profile.settings)
                if names.is_left_out(names.resolve(job.model)):
                    return Obstacle(
                        f"its model {job.model!r} is not among those of its provider", "See `homebody models list`."
                    )
            except AgentError as error:
                return Obstacle(f"its model {job.model!r} cannot be used: {error}".rstrip("."), "See `homebody models list`.")
        if isinstance(job.deliver, ChatAddress) and not self._known(job.deliver):
            account = account_of(job.deliver)
            return Obstacle(f"the channel {account} of its chat is not connected", "See `homebody channels status`.")
        return None

    async def unreachable(self, place: ChatAddress) -> str:
        """Return why what nobody asked for cannot be sent to a place: its account is gone, or it is the chat of nobody; else ""."""
        if not self._known(place):
            return f"the account {account_of(place)} is not connected"
        return (
            f"{place.address} is the chat of nobody who may speak to me" if await self._readers.is_surely_strange(place) else ""
        )

    def unasked(self, job: Job) -> Unasked | None:
        """See the protocol: an urgent one is sent at once."""
        return None if job.urgent else self._agents[job.agent].unasked(f"job:{job.id}", job.name)

    async def latest_chat(self, agent: str | None = None) -> ChatAddress | None:
        """See the protocol: without a chat on a platform it is the terminal or the page."""
        return await (self._owner.place() if agent is None else self._owner.place_of(agent)) or self._client()

    def name_at(self, agent: str, place: ChatAddress) -> str:
        """See the protocol."""
        return self._owner.name_at(agent, place)

    async def audience(self, agent: str, place: ChatAddress) -> Audience:
        """See the protocol."""
        return await self._readers.audience(agent, place)

    async def is_stranger(self, place: ChatAddress) -> bool:
        """See the protocol."""
        return await self._readers.is_stranger(place)

    def _known(self, place: ChatAddress) -> bool:
        if self._accounts is None or place.channel in {TERMINAL.channel, WEB} or is_silent(place):
            return True
        return account_of(place) in self._accounts()
