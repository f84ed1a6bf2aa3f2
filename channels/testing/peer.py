"""The test peer that a channel is connected to: the platform, as a person there sees and uses it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, Protocol

from channels.protocol import Channel

Trouble = Literal["refused", "rate limit", "cut before", "cut after"]
"""How the next send fails: refused for good, or for a while; the connection lost before or after it took effect."""


class Peer(Protocol):
    """A platform with one person, who may write to the bot in private, and whom the bot may answer."""

    lacks: Collection[str]
    """Names of the rules that the platform itself makes impossible."""
    limit: int
    """The most that one message holds."""
    patience: float
    """Time-out for any wait, in seconds, such as 20."""
    events: Collection[str]
    """The peer's names for events other than messages, one for each kind that a channel may receive."""

    def channel(self) -> Channel:
        """Return a new channel on this platform, as after a restart."""
        ...

    async def say(self, text: str) -> None:
        """Send a message as the person."""
        ...

    async def repeat(self) -> None:
        """Deliver the person's last message again."""
        ...

    async def disconnect(self) -> None:
        """Break the channel's connection, as a router does."""
        ...

    async def happen(self, event: str) -> None:
        """Cause one of ``events``, in private and in the group where both have it."""
        ...

    async def garble(self) -> None:
        """Send malformed events, and events of unknown kinds."""
        ...

    async def go_away(self) -> None:
        """Make the platform unreachable: connections end, and new ones are refused. People there can still write."""
        ...

    async def come_back(self) -> None:
        """Make the platform reachable again, at the same address."""
        ...

    def intruder(self) -> Channel:
        """Return a new channel whose password, token or key the platform does not accept."""
        ...

    def trouble(self, kind: Trouble) -> None:
        """Make the next send fail. A rate limit's wait is over, by the channel's clock, within ``patience``."""
        ...

    def heard(self) -> list[str]:
        """Return what the person has received, in order."""
        ...

    def typed(self) -> int:
        """Return how often the person was shown that an answer is being written."""
        ...

    def length(self, text: str) -> int:
        """Return the length of a text in the platform's unit."""
        ...


class FullPeer(Peer, Protocol):
    """A platform with optional features. Methods that only serve rules in ``lacks`` may be missing."""

    async def edit(self, text: str) -> None:
        """Edit the person's last message."""
        ...

    async def react(self, emoji: str, message: str) -> None:
        """React as the person to a message of the bot; ``message`` is the id that the channel returned."""
        ...

    def reactions(self) -> list[str]:
        """Return the bot's reactions on the person's last message."""
        ...

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        """Send a message as the person in the group that the channel reads, always the same one; ``mention``: with the bot's name."""
        ...

    async def say_as_bot(self, text: str) -> None:
        """Send a message as another bot in that group."""
        ...

    async def say_in_thread(self, text: str) -> None:
        """Send a message as the person in a thread (or topic) of a group that the channel reads, always the same one."""
        ...

    def heard_in_thread(self) -> list[str]:
        """Return the bot's messages in that thread, in order."""
        ...

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        """Send a file without text as the person."""
        ...

    def files(self) -> list[tuple[str, bytes]]:
        """Return the names and contents of the files that the person has received, in order; captions are among ``heard``."""
        ...

    def buttons(self) -> list[str]:
        """Return the labels under the bot's last message."""
        ...

    async def press(self, label: str) -> None:
        """Press a button there as the person, and wait until the platform confirms the press."""
        ...

    def offered(self) -> list[str]:
        """Return the names of the commands in the menu, in order."""
        ...

    def menu_changes(self) -> int:
        """Return how often the menu was set."""
        ...

    async def choose(self, name: str) -> None:
        """Choose a command from the menu as the person, and wait until the platform confirms it."""
        ...
