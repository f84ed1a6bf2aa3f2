"""Searching on a platform what the owner can read there. The platform says what is asked and how its answers read; the gateway asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from channels.errors import ChannelError


class SearchRefused(ChannelError):
    """The platform did not search; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    """A message that was found. No field may be trusted."""

    where: str
    who: str
    at: datetime
    text: str
    link: str = ""


class MessageSearch(Protocol):
    """One account that is searched with a token of the owner's. Two are equal when nothing about them differs."""

    @property
    def hint(self) -> str:
        """How a search is narrowed on this platform, in a few words."""
        ...

    @property
    def own_address(self) -> str:
        """The address that is asked, where it is not the platform's own: empty otherwise."""
        ...

    def request(self, query: str, count: int, *, newest: bool) -> tuple[str, Mapping[str, str]]:
        """Return the address to get, and the headers."""
        ...

    def found(self, status: int, body: bytes) -> list[FoundMessage]:
        """Read an answer. Raises SearchRefused."""
        ...
