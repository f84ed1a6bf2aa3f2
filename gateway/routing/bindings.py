"""Rules that give conversations to agents: which of them hold for a conversation, how near each is, and why another does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from typing import Self

    from channels.messages import Conversation

STRATEGY = "strategy"
TIERS = ("topic", "peer", "guild", "team", "account", "any account")
"""How near a rule may be, the nearest first."""


class Section(BaseModel):
    """A part of the settings: camelCase keys, unknown keys passed over (the reader warns of them)."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


class PeerMatch(Section):
    """One person or one group."""

    kind: Literal["dm", "direct", "group", "channel"] = "dm"
    """``dm`` for a person, ``group`` or ``channel`` for a group."""
    id: str
    """The platform's id of the person or group."""


class BindingMatch(Section):
    """What a conversation must be like; everything that is said must hold."""

    channel: str
    """The channel, such as ``telegram``."""
    account_id: str | None = None
    """The account; none means the default one, ``*`` any."""
    peer: PeerMatch | None = None
    """One person or one group."""
    thread: str | None = None
    """One topic or thread of that group, by its id."""
    guild_id: str | None = None
    """The Discord server that a group lies in."""
    team_id: str | None = None
    """The Slack workspace that a group lies in."""

    @model_validator(mode="after")
    def _of_a_group(self) -> Self:
        if self.thread is not None and self.peer is None:
            raise ValueError("thread says which topic of a group is meant: name the group under peer")
        return self


class Binding(Section):
    """One rule that gives conversations to an agent."""

    agent_id: str
    """The agent that answers."""
    match: BindingMatch
    """The conversations it answers."""


def _strategy(given: dict[str, str | tuple[str, ...]]) -> dict[str, str | tuple[str, ...]]:
    for key, value in given.items():
        if key == STRATEGY and value != "parallel":
            raise ValueError("strategy: there is parallel only, in which each agent answers as soon as it can")
        if key != STRATEGY and (isinstance(value, str) or not value):
            raise ValueError(f"{key}: name the agents as a list, such as [main, work]")
    return given


Broadcast = Annotated[dict[str, str | tuple[str, ...]], AfterValidator(_strategy)]
"""Agents by conversation; the key ``strategy`` says how they answer."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What a rule is to a conversation: how near (0 is nearest), or None and why it does not hold."""

    tier: int | None
    reason: str = ""


def judge(match: BindingMatch, conversation: Conversation) -> Judged:
    """Judge a rule for a conversation."""
    reason = _stranger(match, conversation)
    if reason:
        return Judged(None, reason)
    account = match.account_id or "default"
    said = (match.thread, match.peer, match.guild_id, match.team_id, None if account == "*" else account, True)
    return Judged(next(tier for tier, value in enumerate(said) if value is not None))


def _stranger(match: BindingMatch, conversation: Conversation) -> str:
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


def audience_of_all(broadcast: Broadcast, conversation: Conversation) -> tuple[str, ...]:
    """Return the agents that all answer a conversation, or nothing. It is named by its id, alone or behind its channel (and kind)."""
    channel, kind, peer = conversation.channel, conversation.kind, conversation.id
    for key in (f"{channel}:{kind}:{peer}", f"{channel}:{peer}", peer):
        named = broadcast.get(key)
        if key != STRATEGY and isinstance(named, tuple):
            return tuple(dict.fromkeys(agent.lower() for agent in named))
    return ()
