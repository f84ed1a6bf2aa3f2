"""Command permissions: in groups, commands that change the conversation for all are the owner's, unless the settings allow them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from channels.messages import API, ChatAddress
from gateway.commands.table import COMMANDS, Command, help_of
from gateway.queue.message_queue import QueuedMessage
from gateway.queue.steering import RunningTurn
from gateway.routing.access import Actor

Who = Literal["owner", "members"]

ASKING: Final = frozenset({"pin", "model", "think", "queue", "jobs"})
"""Commands that show a value without an argument and change it with one."""
COSTLY: Final = frozenset({"model", "think"})
"""Commands that affect the owner's cost; guests may not use them in private either."""
OWNERS: Final = frozenset({"agents", "approve", "mcp", "resume", "skills", "usage", "budget"})
"""Commands for the owner only; they reject others themselves."""
OPEN: Final = frozenset(
    {"help", "status", "stop", "activation", "memory", "todo", "why", "context", "models", "tools", "whoami"}
)
"""Commands for everybody: they show something, or judge by themselves who may change what. A command in no list changes a conversation."""
DECIDING: Final = frozenset({"approve", "mcp", "skills"})
"""Commands that decide with an argument what an agent may do. A program that calls the API cannot decide about itself."""
_ANYWHERE: Final = "*"


class CommandRights:
    """Decides. ``opened`` returns the setting ``messages.groupCommands``: allowed people by group, ``*`` for all other groups."""

    def __init__(self, opened: Callable[[], Mapping[str, Who]]) -> None:
        self._opened = opened

    def may(self, command: Command, argument: str, place: ChatAddress, actor: Actor) -> bool:
        """Whether ``actor`` may use a command in a conversation. For ``/stop`` see ``may_stop``."""
        name = command.name
        if place.channel == API and name in DECIDING and argument:
            return False
        if actor.owner:
            return True
        free = name in OPEN or name in OWNERS or (name in ASKING and not argument)
        if place.kind == "direct":
            return free or name not in COSTLY
        return free or self._open(place)

    def may_change(self, command: Command, place: ChatAddress, actor: Actor) -> bool:
        """Whether ``actor`` may use a command with an argument, as its buttons do."""
        return self.may(command, "x", place, actor)

    def may_stop(
        self, running: RunningTurn | None, place: ChatAddress, actor: Actor, coming: Sequence[QueuedMessage] = ()
    ) -> bool:
        """Whether ``actor`` may stop the running turn and the ``coming`` messages: in a group only if all are their own."""
        if actor.owner or place.kind == "direct" or self._open(place) or (running is None and not coming):
            return True
        senders = {item.sender for item in coming}
        if running is not None:
            senders |= {item.sender for item in running.items} | {one.inbound.sender.id for one in running.steered}
        return senders == {actor.sender}

    def may_withdraw(self, place: ChatAddress, actor: Actor) -> bool:
        """Whether ``actor`` may withdraw the questions about tasks that wait in a conversation."""
        return actor.owner or place.kind == "direct" or self._open(place)

    def refusal(self, command: Command, place: ChatAddress) -> str:
        """Return the reply to a person who may not use a command, with the setting that allows it."""
        if place.channel == API and command.name in DECIDING:
            return f"/{command.name} decides nothing over the API. Use it in a chat with me, or with `homebody` on its machine."
        if place.kind == "direct":
            return f"Only my owner can use /{command.name} with an argument."
        return f"In this group only my owner can use /{command.name}. My owner can allow it with the setting `messages.groupCommands`."

    def help(self, place: ChatAddress, actor: Actor) -> str:
        """Return the commands that this person may use here."""
        shown = [command for command in COMMANDS.values() if actor.owner or command.name not in OWNERS]
        return help_of(
            (command, bool(command.argument) and self.may_change(command, place, actor))
            for command in shown
            if self.may(command, "", place, actor)
        )

    def _open(self, place: ChatAddress) -> bool:
        opened = self._opened()
        who = next((opened[key] for key in (f"{place.channel}:{place.id}", place.channel, _ANYWHERE) if key in opened), "owner")
        return who == "members"
