"""Whether a message in a group calls an agent by one of its patterns, and how much of what is said there is kept for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.settings.mention_patterns import by_name, called

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.messages import ChatAddress, Inbound
    from gateway.routing.router import Router
    from gateway.settings.root import Settings


def patterns_of(settings: Settings, agent_id: str) -> tuple[str, ...]:
    """Return the patterns that call an agent: its own, else those of all, else the name that its owner gave it."""
    entry = next((entry for entry in settings.agents.list if entry.id == agent_id), None)
    for section in (entry.group_chat if entry else None, settings.messages.group_chat):
        if section is not None and section.mention_patterns is not None:
            return section.mention_patterns
    return (by_name(entry.name),) if entry and entry.name.strip() else ()


class Mentions:
    """Judges by the settings and the routes in force."""

    def __init__(self, settings: Callable[[], Settings], router: Callable[[], Router]) -> None:
        self._settings = settings
        self._router = router

    def heard(self, inbound: Inbound) -> Inbound:
        """Return a message, marked as a mention where it calls one of the agents that would answer it."""
        if inbound.mentioned or inbound.conversation.kind != "group" or not inbound.text:
            return inbound
        settings = self._settings()
        agents = self._router().answering(inbound.conversation)
        hit = any(called(inbound.text, patterns_of(settings, agent)) for agent in agents)
        return replace(inbound, mentioned=True) if hit else inbound

    def history(self, place: ChatAddress) -> int:
        """How many overheard messages of a group are kept: as its account or its channel says, else the house."""
        settings = self._settings()
        section = settings.channels.account(place.channel, place.account)
        said: int | None = getattr(section, "history_limit", None)
        return settings.messages.group_chat.history_limit if said is None else said
