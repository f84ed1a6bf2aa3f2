"""Matches routing rules against a conversation: specificity, or the reason why a rule does not match."""

from __future__ import annotations

from dataclasses import dataclass

from channels.messages import ChatAddress
from gateway.settings.routing import STRATEGY, BindingMatch, Broadcast

TIERS = ("topic", "peer", "guild", "team", "account", "any account")
"""How near a rule may be, the nearest first."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a rule is to a conversation: how near (0 is nearest), or None and why it does not hold."""

    tier: int | None
    reason: str = ""


def judge(match: BindingMatch, conversation: ChatAddress) -> Judged:
    """Judge a rule for a conversation."""
    reason = _stranger(match, conversation)
    if reason:
        return Judged(None, reason)
    account = match.account_id or "default"
    said = (match.thread, match.peer, match.guild_id, match.team_id, None if account == "*" else account, True)
    return Judged(next(tier for tier, value in enumerate(said) if value is not None))


def _stranger(match: BindingMatch, conversation: ChatAddress) -> str:
    """Say why a rule does not hold; an empty text where it does."""
    account = match.account_id or "default"
    if match.channel.lower() != conversation.channel:
        return f"it is for the channel {match.channel}"
    if account not in {"*", conversation.account}:
        return f"it is for the account {account}"
    if match.peer is not None:
        kind = "direct" if match.peer.kind in {"dm", "direct"} else "group"
        if (kind, match.peer.id) != (conversation.kind, conversation.id):
            return f"it is for the {'person' if kind == 'direct' else 'group'} {match.peer.id}"
    if match.thread is not None and match.thread != conversation.thread:
        return f"it is for the topic {match.thread}"
    for space, name in ((match.guild_id, "server"), (match.team_id, "workspace")):
        if space is not None and space != conversation.space:
            return f"it is for the {name} {space}"
    return ""


def audience_of_all(broadcast: Broadcast, conversation: ChatAddress) -> tuple[str, ...]:
    """Return the agents that all answer a conversation, or nothing. It is named by its id, alone or behind its channel (and kind)."""
    channel, kind, peer = conversation.channel, conversation.kind, conversation.id
    for key in (f"{channel}:{kind}:{peer}", f"{channel}:{peer}", peer):
        named = broadcast.get(key)
        if key != STRATEGY and isinstance(named, tuple):
            return tuple(dict.fromkeys(agent.lower() for agent in named))
    return ()
