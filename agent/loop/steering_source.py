"""Where a running turn gets the messages from that arrive meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from agent.messages import UserMessage


class ExtraMessage(Struct, frozen=True):
    """A further message that a turn answers. After a crash it is found in the transcript by its ``name``."""

    name: str
    message: UserMessage


class SteeringSource:
    """Gives a running turn the messages that arrive meanwhile. This one never has any."""

    def any(self) -> bool:
        """Whether ``take`` would bring something now. Quick: it is asked before every tool that changes something."""
        return False

    async def take(self) -> Sequence[ExtraMessage]:
        """Return what arrived. By then it belongs to this turn durably: after a crash it is among what ``Turn.run`` is given."""
        return ()
