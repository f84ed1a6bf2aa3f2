"""The interface of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from agent.messages import Image
from agent.models.protocol import ToolSpec
from memory.audience import OWNER, Audience

MAX_CHARS = 16_000
"""How long a result may be unless somebody says otherwise, in characters."""

Effect = Literal["pure", "idempotent", "effect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The context of one tool call: session, turn, audience and time. ``now`` is in the owner's time zone.

    ``max_chars`` is the longest result: a tool that can return the rest in another call keeps to it and says how to continue.
    """

    now: datetime
    session: str
    turn: str
    audience: Audience = OWNER
    max_chars: int = MAX_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a tool call. ``text`` is what the model reads; ``details`` is for people and programs."""

    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


class Tool(Protocol):
    """A tool that a model may call.

    ``effect`` says what a repeat would do: "pure" only reads, "idempotent" leaves the same state when run again with the same
    arguments, "effect" must not be repeated blindly. Contract: ``run`` returns errors that a model can act on as an Outcome
    with ``is_error``; it raises only for defects and cancellation.
    """

    spec: ToolSpec
    effect: Effect

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        """Run with arguments that may be wrong: the tool checks them itself."""
        ...
