"""Builds what decides who may speak, which agent answers, and in which session; also what is particular to groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from channels.messages import ChatAddress
from channels.platform import Policy
from channels.protocol import Channel
from gateway.app.dependencies import Dependencies
from gateway.app.group_parts import GroupParts
from gateway.command_handlers.rights import CommandRights
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import ApprovedSender
from gateway.routing.access import Access
from gateway.routing.router import ChatMigrations, router_of
from gateway.settings.root import Settings, SettingsStore


class RoutingParts:
    """``policies`` returns the rules of the accounts that are on, by channel and account."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
        channel: Callable[[ChatAddress], Channel],
    ) -> None:
        self.migrations = ChatMigrations()
        formers = self.migrations.formers
        self.rights = CommandRights(lambda: settings.current.messages.group_commands)
        self.groups = GroupParts(policies, formers, ledger, rights=self.rights, channel=channel, clock=deps.clock)
        self.access = Access(
            ledger.pairing,
            policies,
            settings.current.session.identity_links,
            formers=formers,
            activation=self.groups.activation,
        )
        self.router = router_of(deps.settings, formers)

    def adopt(self, settings: Settings) -> None:
        """Judge and route by these settings from now on."""
        self.router.adopt(settings)
        self.access.links = settings.session.identity_links

    def owner_keys(self, agent: str, place: ChatAddress, approved: Sequence[ApprovedSender]) -> set[str]:
        """Return the sessions in which the owner talks to an agent in a private conversation."""
        owners = self.access.owners_on(place.channel, place.account, approved)
        return {self.router.session_key(agent, place, owner) for owner in owners}
