"""What puts pictures into words for models that are not shown any."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from agent.messages import Image


class Description(Struct, frozen=True, kw_only=True):
    """What is seen in a picture, or in ``trouble`` why that is not known, with what mends it."""

    text: str = ""
    trouble: str = ""


class PictureDescriber(Protocol):
    """Puts pictures into words."""

    async def describe(self, picture: Image, *, agent: str, session: str) -> Description | None:
        """Return a picture in words, for an agent and a session key; None where no model for it is set. Raises nothing."""
        ...
