"""The slash command ``/activation``: when the agent answers in a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from agent.timing import Clock
from channels.messages import Button, ChatAddress
from channels.protocol import Channel
from gateway.base.errors import StorageFailed
from gateway.command_handlers.rights import CommandRights
from gateway.ledger.activation_rows import Activation, ActivationLedger, ActivationMode
from gateway.routing.access import GroupRules
from gateway.routing.activations import Activations
from gateway.routing.routed_message import RoutedMessage

Reply: TypeAlias = "tuple[str, Sequence[Button]]"
MEANING: Final[dict[ActivationMode, str]] = {
    "mention": (
        "I answer when I am mentioned or replied to, also with a command. `/stop` is heard without my name, and so is `stop` while I "
        "work here. Other messages are context for the next one that is for me."
    ),
    "always": "I answer every message of those who may speak to me here.",
    "off": "I read and answer nothing here until `/activation mention` or `/activation always`.",
}
_WORDS: Final[dict[str, ActivationMode | None]] = {
    "mention": "mention",
    "mentions": "mention",
    "always": "always",
    "on": "always",
    "off": "off",
    "default": None,
    "reset": None,
}


class ActivationCommand:
    """Shows and changes when the agent answers in a group. An owner or an administrator of the group may change it.

    ``rules`` are what the settings say of groups.
    """

    def __init__(
        self,
        activations: Activations,
        ledger: ActivationLedger,
        rules: GroupRules,
        *,
        clock: Clock,
        rights: CommandRights,
        channel: Callable[[ChatAddress], Channel],
    ) -> None:
        self._activations = activations
        self._ledger = ledger
        self._rules = rules
        self._clock = clock
        self._rights = rights
        self._channel = channel

    async def reply(self, argument: str, message: RoutedMessage) -> Reply:
        """Do what the argument says and return the reply with its buttons. May be called twice for one message after a crash."""
        place, wanted = message.inbound.conversation, argument.strip().casefold()
        if place.kind != "group":
            return "/activation is for groups: in private I answer every message.", ()
        if not wanted:
            return self._state_text(place), self._buttons(place)
        if wanted not in _WORDS:
            return f"“{argument[:40]}” is not one of the modes. {_USAGE}", ()
        return await self._choose(_WORDS[wanted], message), ()

    async def _choose(self, mode: ActivationMode | None, message: RoutedMessage) -> str:
        place = message.inbound.conversation
        if not await self._may(message):
            return "Only my owner or an administrator of this group can change when I answer here."
        if mode == "always" and (obstacle := await self._unheard(place)):
            return f"I cannot answer everything here, because I am not given every message: {obstacle}. Then send /activation always again."
        by = message.inbound.sender.name or message.actor.person
        try:
            await self._activations.choose(self._ledger, place, mode, by=by, at=self._clock.now())
        except StorageFailed as error:
            return f"💾 Nothing was changed, because it could not be stored ({error}). {error.hint}".strip()
        return f"Done. {self._state_text(place)}"

    def line(self, place: ChatAddress) -> str:
        """Return what ``/status`` says about when the agent answers in a group."""
        chosen = self._activations.of(place)
        return f"{self._mode(place, chosen)} ({self._source(chosen)})"

    async def _may(self, message: RoutedMessage) -> bool:
        place, actor = message.inbound.conversation, message.actor
        if actor.owner or self._rights.may_withdraw(place, actor):
            return True
        administers = getattr(self._channel(place), "administers", None)
        return administers is not None and bool(await administers(place, message.inbound.sender.id))

    async def _unheard(self, place: ChatAddress) -> str:
        unheard = getattr(self._channel(place), "unheard", None)
        return "" if unheard is None else str(await unheard(place))

    def _state_text(self, place: ChatAddress) -> str:
        chosen = self._activations.of(place)
        mode = self._mode(place, chosen)
        return f"Activation here is `{mode}`, {self._source(chosen)}: {MEANING[mode]}"

    def _mode(self, place: ChatAddress, chosen: Activation | None) -> ActivationMode:
        if chosen is not None:
            return chosen.mode
        rule = self._rules.of(place)
        return "always" if rule is not None and not rule.require_mention else "mention"

    @staticmethod
    def _source(chosen: Activation | None) -> str:
        return "as the settings say" if chosen is None else f"chosen by {chosen.by} on {chosen.at:%Y-%m-%d}"

    def _buttons(self, place: ChatAddress) -> list[Button]:
        present = self._mode(place, self._activations.of(place))
        return [Button(label=mode, value=f"/activation {mode}") for mode in MEANING if mode != present]


_USAGE: Final = (
    "Send /activation mention, /activation always, /activation off, or /activation default for what the settings say."
)
