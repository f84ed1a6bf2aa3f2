"""First inbound step: valid text, and whether a group message mentions an agent by one of its patterns."""

from __future__ import annotations

from msgspec.structs import replace

from channels.messages import Inbound
from gateway.ledger.values import clean
from gateway.routing.router import Router
from gateway.settings.mention_patterns import by_name, called
from gateway.settings.root import Settings


def normalise(inbound: Inbound, settings: Settings, router: Router) -> Inbound:
    """Replace what is not valid text, and set ``mentioned`` for a group message that calls an agent which would answer it."""
    name, text, quoted = clean(inbound.sender.name), clean(inbound.text), clean(inbound.quoted)
    sender = inbound.sender if name == inbound.sender.name else replace(inbound.sender, name=name)
    inbound = replace(inbound, text=text, quoted=quoted, sender=sender)
    return replace(inbound, mentioned=True) if not inbound.mentioned and calls_agent(inbound, settings, router) else inbound


def calls_agent(inbound: Inbound, settings: Settings, router: Router) -> bool:
    """Return whether a group message contains a mention pattern of an agent that answers in its conversation."""
    if inbound.conversation.kind != "group" or not inbound.text:
        return False
    agents = router.answering(inbound.conversation)
    return any(called(inbound.text, patterns_of(settings, agent)) for agent in agents)


def patterns_of(settings: Settings, agent_id: str) -> tuple[str, ...]:
    """Return the mention patterns of an agent: its own, else those of all agents, else its configured name."""
    entry = next((entry for entry in settings.agents.list if entry.id == agent_id), None)
    for section in (entry.group_chat if entry else None, settings.messages.group_chat):
        if section is not None and section.mention_patterns is not None:
            return section.mention_patterns
    return (by_name(entry.name),) if entry and entry.name.strip() else ()
