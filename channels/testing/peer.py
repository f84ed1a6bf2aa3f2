"""What a channel is put on to be judged: a platform, as a person there sees and handles it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from channels.protocol import Channel

Trouble = Literal["refused", "rate limit", "cut before", "cut after"]
"""How the next send ends: surely without effect for good, or for a while; the connection cut without or with effect."""


class Peer(Protocol):
    """A platform with one person, who may write to the bot in private, and whom the bot may answer."""

    lacks: Collection[str]
    """Names of the rules that the platform itself makes impossible."""
    limit: int
    """The most that one message holds."""
    patience: float
    """Seconds that anything may take, such as 20."""
    events: Collection[str]
    """The stage's own names for what can happen on the platform besides a message, one for each kind that a channel may be told of."""

    def channel(self) -> Channel:
        """Return a new channel on this platform, as after a restart."""
        ...

    async def say(self, text: str) -> None:
        """Let the person write."""
        ...

    async def repeat(self) -> None:
        """Let the platform deliver the person's last message once more."""
        ...

    async def disconnect(self) -> None:
        """Break the channel's connection, as a router does."""
        ...

    async def happen(self, event: str) -> None:
        """Let something happen, in private and in the group where both have such: one of ``events``."""
        ...

    async def garble(self) -> None:
        """Let the platform send what is not as it documents: damaged events, and events of kinds that nobody knows."""
        ...

    async def go_away(self) -> None:
        """Let nobody reach the platform: connections end, and new ones are refused. People there go on writing."""
        ...

    async def come_back(self) -> None:
        """Let it be reached again, at the same address."""
        ...

    def intruder(self) -> Channel:
        """Return a new channel whose password, token or key the platform does not accept."""
        ...

    def trouble(self, kind: Trouble) -> None:
        """Let the next send go wrong. A rate limit asks for a wait that is over, by the channel's clock, within ``patience``."""
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
    """A platform with more than plain messages. What serves only rules that the stage ``lacks`` need not be there."""

    async def edit(self, text: str) -> None:
        """Let the person change their last message into this."""
        ...

    async def react(self, emoji: str, message: str) -> None:
        """Let the person put an emoji under a message of the bot, of which the channel gave this id."""
        ...

    def reactions(self) -> list[str]:
        """Return the emoji that the bot has under the person's last message."""
        ...

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        """Let the person write in a group that the channel reads, always in the same one; ``mention``: they call the bot by its name."""
        ...

    async def say_as_bot(self, text: str) -> None:
        """Let another program write in that group."""
        ...

    async def say_in_thread(self, text: str) -> None:
        """Let the person write in a thread (or topic) of a group that the channel reads, always in the same one."""
        ...

    def heard_in_thread(self) -> list[str]:
        """Return what the bot has said in that thread, in order."""
        ...

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        """Let the person send a file without a word."""
        ...

    def files(self) -> list[tuple[str, bytes]]:
        """Return the names and contents of the files that the person has received, in order; captions are among ``heard``."""
        ...

    def buttons(self) -> list[str]:
        """Return the labels under the bot's last message."""
        ...

    async def press(self, label: str) -> None:
        """Let the person press a button there, and wait until the platform shows them that the press was taken."""
        ...

    def offered(self) -> list[str]:
        """Return the names of the commands in the menu, in order."""
        ...

    def menu_changes(self) -> int:
        """Return how often the menu was written."""
        ...

    async def choose(self, name: str) -> None:
        """Let the person choose a command from the menu, and wait until the platform shows them that the choice was taken."""
        ...
