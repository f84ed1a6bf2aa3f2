"""Builds what is particular to groups: when the agent answers there, its welcome, and what the settings choose for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent.timing import Clock
from channels.messages import ChatAddress
from channels.platform import Policy
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.command_handlers.activation_command import ActivationCommand
from gateway.command_handlers.rights import CommandRights
from gateway.command_handlers.urgent_commands import FurtherCommand
from gateway.inbound.authorise import history_limit
from gateway.inbound.group_arrivals import GroupArrivals
from gateway.inbound.pipeline import Inbox
from gateway.ledger.activation_rows import ActivationMode
from gateway.ledger.protocol import Ledger
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.queue.lanes import Lanes
from gateway.routing.access import GroupRules
from gateway.routing.activations import Activations
from gateway.routing.router import Router
from gateway.settings.root import SettingsStore
from memory.audience import Audience


class GroupParts:
    """What the settings and ``/activation`` say of groups."""

    def __init__(
        self,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
        formers: Callable[[ChatAddress], Sequence[ChatAddress]],
        ledger: Ledger,
        *,
        rights: CommandRights,
        channel: Callable[[ChatAddress], Channel],
        clock: Clock,
    ) -> None:
        self.rules = GroupRules(policies, formers)
        self.activations = Activations(formers)
        self._ledger = ledger
        self._channel = channel
        self._clock = clock
        self._memory: FurtherCommand | None = None
        self._command = ActivationCommand(
            self.activations, ledger.activations, self.rules, clock=clock, rights=rights, channel=channel
        )

    async def load(self) -> None:
        """Read what was chosen before the start. Before any channel starts."""
        await self.activations.load(self._ledger.activations)

    def activation(self, place: ChatAddress) -> ActivationMode | None:
        """Return what was chosen for a group with ``/activation``; None where the settings hold."""
        chosen = self.activations.of(place)
        return None if chosen is None else chosen.mode

    def arrivals(
        self,
        owner: OwnerNotifications,
        router: Router,
        *,
        agents: Mapping[str, RunningAgent],
        settings: SettingsStore,
        owners: Callable[[ChatAddress], Awaitable[Sequence[str]]],
    ) -> GroupArrivals:
        """Return what is told when the bot is added to a group."""
        return GroupArrivals(
            self._ledger.outbox,
            owner,
            self.rules,
            activations=self.activations,
            router=router,
            agents=agents,
            channel=self._channel,
            history=lambda place: history_limit(settings.current, place),
            owners=owners,
            clock=self._clock,
        )

    def commands(self) -> dict[str, FurtherCommand]:
        """Return the slash commands for groups, by name. They are in ``gateway.commands.table``."""
        return {"activation": self._command.reply}

    def memory_command(
        self,
        agents: Mapping[str, RunningAgent],
        lanes: Lanes[Any],
        audience: Callable[[str], Audience],
        inbox: Inbox,
        owner: OwnerNotifications,
    ) -> FurtherCommand:
        """Return the command ``/memory``. It is loaded when it is first used."""
        if self._memory is None:
            from gateway.app.word_removal import WordRemoval
            from gateway.command_handlers.memory_command import MemoryCommand

            removal = WordRemoval(agents, lanes, audience, inbox.history.forget, self._ledger.words)

            async def no_trace() -> None:
                await self._ledger.leave_no_trace()
                await removal.clean_indexes()

            self._memory = MemoryCommand(
                agents,
                self._ledger.forget_requests,
                self._ledger.outbox,
                channel=self._channel,
                owner=owner.place,
                carry_out=removal.carry_out,
                no_trace=no_trace,
            ).reply
        return self._memory

    def status_lines(self, place: ChatAddress) -> list[str]:
        """Return what ``/status`` says of a group."""
        lines = [f"- Activation: {self._command.line(place)}"]
        rule = self.rules.of(place)
        if rule is None:
            return lines
        chosen = [f"model {rule.choices.model}"] if rule.choices.model else []
        chosen += [f"language {rule.choices.language}"] if rule.choices.language else []
        chosen += ["fewer tools (/tools lists them)"] if rule.tools else []
        return [*lines, *([f"- The settings of this group: {', '.join(chosen)}"] if chosen else [])]
