"""Marks what the turns of automations send as unasked, so that quiet hours and the number of a day hold for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from gateway.agents.running_agent import RunningAgent
from gateway.approvals.gate import LIFETIME
from gateway.ledger.rows import NewApproval, NewOutbound, Unasked
from gateway.ledger.unasked import APPROVAL
from gateway.routing.routed_message import RoutedMessage


def unasked_of(agent: RunningAgent, message: RoutedMessage) -> Unasked | None:
    """Return the mark of a message's reply; None for a reply to a person, or one that is urgent."""
    automation = message.automation
    if automation is None or automation.urgent:
        return None
    return agent.unasked(automation.source, automation.name)


def marked(chunks: Sequence[NewOutbound], unasked: Unasked | None) -> list[NewOutbound]:
    """Return chunks with the mark of their message."""
    return [replace(chunk, unasked=unasked) for chunk in chunks]


def asked_when_awake(question: NewApproval, unasked: Unasked | None, now: datetime) -> NewApproval:
    """Return a question with the time until which it is open: if it is held in quiet hours, that begins when they end."""
    until = None if unasked is None else unasked.rule.quiet_until(now)
    return question if until is None else replace(question, expires=until + LIFETIME)


def as_question(question: NewApproval, unasked: Unasked | None) -> Unasked | None:
    """Return the mark of the chunks that ask a question: they do not count, and are not sent once it is decided."""
    return None if unasked is None else replace(unasked, source=f"{APPROVAL}{question.id}", counts=False)
