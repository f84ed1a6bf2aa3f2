"""Builds what sends: channels and their supervisor, the delivery, files, the page's and the API's channel, and the way to the owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from channels.messages import WEB, ChatAddress
from channels.platform import Policy
from channels.protocol import Channel
from channels.silent import NAME as SILENT
from channels.silent import SilentChannel
from channels.terminal.channel import TerminalChannel
from gateway.agents.memory_stores import owner_zone
from gateway.agents.running_agent import RunningAgent
from gateway.app.api_parts import ApiParts
from gateway.app.chat_readers import TERMINAL
from gateway.app.dependencies import Dependencies
from gateway.app.media_parts import MediaParts
from gateway.app.page_parts import PageParts
from gateway.commands.table import MENU
from gateway.inbound.pipeline import AccountSink
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import ApprovedSender
from gateway.media.media_service import MediaService
from gateway.models.model_registry import ModelRegistry
from gateway.outbound.delivery import Delivery
from gateway.outbound.owner_notifications import DeliveryNotices, OwnerNotifications, StartupNotices
from gateway.settings.message_settings import largest_file
from gateway.settings.root import SettingsStore
from gateway.supervision.channel_supervisor import ChannelRunner, ChannelSupervisor

Facts: TypeAlias = "Callable[[], Mapping[str, Callable[[], Awaitable[Hashable]]]]"


class OutboundParts:
    """The parts between a stored reply and its platform.

    ``sink`` returns what takes the messages of an account. ``stop`` stops what runs for a client. ``owner_keys`` returns the sessions in
    which the owner talks to an agent; ``facts`` what open pages are told of.
    """

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        model_registry: ModelRegistry,
        *,
        agents: Mapping[str, RunningAgent],
        notices: StartupNotices,
        sink: Callable[[str, str], AccountSink],
        stop: Callable[[ChatAddress], Awaitable[None]],
        owner_keys: Callable[[str, ChatAddress, Sequence[ApprovedSender]], set[str]],
        answering: Callable[[ChatAddress], Sequence[str]],
        facts: Facts,
    ) -> None:
        self._deps = deps
        self._settings = settings
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self.unconnected: Callable[[str], Channel | None] = lambda _: None
        """What is known here of an account that another gateway of a cluster connects."""
        self.terminal = TerminalChannel(clock=deps.clock, on_stop=stop)
        self.silent = SilentChannel()
        self.secret_filter = deps.outgoing
        self.secret_filter.tell = self._tell_of_secret
        self.media_parts = MediaParts(deps, settings, model_registry, agents)
        self.media = self._media(ledger)
        self.delivery = Delivery(
            ledger.outbox,
            deps.clock,
            jitter=deps.random.random,
            delivered=self.media.delivered,
            listener=DeliveryNotices(notices, lambda: self.owner),
            secret_filter=self.secret_filter,
            telemetry=deps.telemetry,
            zone=lambda: owner_zone(settings.current.agent(settings.current.default_agent)),
        )
        self.delivery.attach(self.silent)
        self.delivery.ready(self.silent.name, self.silent.account)
        self.channel_supervisor = ChannelSupervisor(self._runner, self.delivery, self._instead)
        self.channel = self.channel_supervisor.channel
        self._build_clients(ledger, agents, stop=stop, facts=facts)
        self.owner = OwnerNotifications(
            ledger,
            agents,
            self.channel_supervisor.working,
            failing=self.delivery.health.failing,
            attached=lambda place: place.channel == WEB or self.terminal.attached(place),  # the page keeps what it is sent
            keys=owner_keys,
            answering=answering,
        )

    def _media(self, ledger: Ledger) -> MediaService:
        settings = self._settings
        return MediaService(
            self._deps.paths.state,
            outbox=ledger.outbox,
            clock=self._deps.clock,
            channel=lambda place: self.channel(place),  # noqa: PLW0108 (it is built later)
            settings=lambda: settings.current.messages.attachments,
            largest=lambda place: largest_file(settings.current.channels, place),
            withheld=self.secret_filter.file,
            transcriber=self.media_parts.transcription,
            describer=self.media_parts.descriptions,
        )

    def _build_clients(
        self,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        *,
        stop: Callable[[ChatAddress], Awaitable[None]],
        facts: Facts,
    ) -> None:
        """Build the channels of API clients and of the page."""
        keep = self.channel_supervisor.keep
        self.api = ApiParts(self._deps, self._settings, ledger, agents=agents, keep=keep)
        self.page = PageParts(
            self._deps,
            self._settings,
            agents=agents,
            keep=keep,
            approval=ledger.approvals.get,
            answered=ledger.turns.first_message,
            stop=stop,
            outside=facts,
        )

    def _instead(self, place: ChatAddress) -> Channel:
        """Return what stands for a channel that this gateway does not run: the terminal's if it was removed."""
        if place.channel == SILENT:
            return self.silent
        return self.unconnected(f"{place.channel}:{place.account}") or self.terminal

    def client(self) -> ChatAddress:
        """Return where what nobody asked for is read without a chat on a platform: in the page or the terminal, whichever is open.

        With both or neither, it is the one that was used last.
        """
        used = self.owner.client_place()
        page, there = self.page.place(used), self.terminal.attached(TERMINAL)
        if page is None or (there and not self.page.watched):
            return TERMINAL
        if self.page.watched and not there:
            return page
        return page if used is not None and used.channel == WEB else TERMINAL

    def _runner(self, channel: Channel, policy: Policy) -> ChannelRunner:
        sink = self._sink(channel.name, channel.account)
        make = partial(ChannelRunner, menu=MENU, before=self._learn_tokens, tell_owner=self.owner.say)
        return make(channel, policy, sink, self._deps.clock, self._deps.random)

    async def _learn_tokens(self) -> None:
        """Called before a channel reconnects, because its token file may have changed."""
        if self._deps.serving:
            await asyncio.to_thread(self._deps.learn_all, self._settings.current)

    def _tell_of_secret(self, text: str) -> None:
        """Tell the owner of a secret that was withheld. Files are looked at in threads, so this may be called from any."""
        self._loop.call_soon_threadsafe(self.owner.say, text)
