"""Router: selects agent, session and memory for a conversation, by the bindings and by the ids that migrated groups had."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from channels.messages import API, ChatAddress, Inbound
from gateway.base.errors import UsageError, unknown_agent
from gateway.ledger.protocol import ChatMigrationLedger
from gateway.ledger.values import account_of
from gateway.routing.access import Actor
from gateway.settings.root import Settings
from gateway.settings.routing_settings import STRATEGY, Binding, BindingMatch, Broadcast
from gateway.settings.session_settings import DmScope
from memory.audience import OWNER, Audience

AGENT_HINT: Final = "agent"
SESSION_HINT: Final = "session"

_LONGEST_KEY = 80
_MARK = 10


class Route(Struct, frozen=True, kw_only=True):
    """Where a message goes. ``audience`` is who can read the session."""

    agent: str
    session: str
    audience: Audience


class RuleVerdict(Struct, frozen=True, kw_only=True):
    """The evaluation of one rule for a conversation. ``why`` says how specific it is, or why it does not match."""

    place: int
    agent: str
    holds: bool
    wins: bool
    why: str


class Router:
    """Selects agent and session. Depends on the settings alone, so that a message is routed alike after a restart.

    ``formers`` returns a conversation under former ids of its group, the first id first: its session stays the same,
    and rules for any of the ids apply. ``broadcast`` lists conversations that several agents answer, each in its own session;
    it takes precedence over ``bindings``.
    """

    def __init__(
        self,
        *,
        agents: Collection[str],
        default_agent: str,
        bindings: Sequence[Binding] = (),
        broadcast: Broadcast | None = None,
        dm_scope: DmScope = "main",
        identity_links: Mapping[str, Sequence[str]] | None = None,
        formers: Callable[[ChatAddress], Sequence[ChatAddress]] = lambda _: (),
    ) -> None:
        self._agents = agents
        self._default = default_agent
        self._bindings = bindings
        self._broadcast = broadcast or {}
        self._scope = dm_scope
        self._links = identity_links or {}
        self._formers = formers

    def adopt(self, settings: Settings) -> None:
        """Apply new settings."""
        self._agents = settings.agent_ids
        self._default = settings.default_agent
        self._bindings = settings.bindings
        self._broadcast = settings.broadcast
        self._scope = settings.session.dm_scope
        self._links = settings.session.identity_links

    def resolve(self, inbound: Inbound, actor: Actor) -> Route:
        """Route a message of ``actor``. Hints are used only from local clients.

        Raises:
            UsageError: a hint names an unknown agent or an invalid session.
        """
        hints = inbound.hints if actor.local else {}
        agent = self._checked_agent(hints[AGENT_HINT]) if hints.get(AGENT_HINT) else None
        if wish := hints.get(SESSION_HINT, "").strip().lower():
            return self._route_by_name(wish, agent)
        return self.route(agent or self.answering(inbound.conversation)[0], inbound.conversation, actor)

    def routes(self, inbound: Inbound, actor: Actor) -> list[Route]:
        """Route a message to each agent that answers its conversation, the first one first. Raises what ``resolve`` raises."""
        if actor.local:
            return [self.resolve(inbound, actor)]
        return [self.route(agent, inbound.conversation, actor) for agent in self.answering(inbound.conversation)]

    def answering(self, conversation: ChatAddress) -> tuple[str, ...]:
        """Return the agents that answer a conversation: one, or those that ``broadcast`` names.

        Raises:
            UsageError: a program asked an agent that is gone.
        """
        if conversation.channel == API:
            return (self._checked_agent(api_agent(conversation)),)
        places = (conversation, *self._formers(conversation)) if conversation.kind == "group" else (conversation,)
        for place in places if self._broadcast else ():
            named = [agent for agent in audience_of_all(self._broadcast, place) if agent in self._agents]
            if named:
                return tuple(named)
        winner = self._winner(places) if self._bindings else None
        return (self._default if winner is None else self._bindings[winner].agent_id.lower(),)

    def weighed(self, conversation: ChatAddress) -> list[RuleVerdict]:
        """Return the evaluation of each rule, in the order of the settings, to explain why an agent answers."""
        places = (conversation, *self._formers(conversation))
        winner = self._winner(places)
        problems = []
        for place, binding in enumerate(self._bindings):
            known = binding.agent_id.lower() in self._agents
            tier, judged = self._tier(binding, places), judge(binding.match, conversation)
            why = f"it matches the {TIERS[tier]}" if tier is not None else judged.reason
            if tier is not None and place != winner:
                why += "; another rule is more specific" if known else "; but there is no such agent"
            problems.append(
                RuleVerdict(
                    place=place, agent=binding.agent_id, holds=tier is not None and known, wins=place == winner, why=why
                )
            )
        return problems

    def route(self, agent: str, conversation: ChatAddress, actor: Actor) -> Route:
        """Return where a message of ``actor`` goes when that agent answers it."""
        former = self._formers(conversation) if conversation.kind == "group" else ()
        session = self.session_key(agent, former[0] if former else conversation, actor)
        direct_owner = conversation.kind == "direct" and actor.owner
        return Route(agent=agent, session=session, audience=OWNER if direct_owner else self.audience(session))

    def session_key(self, agent: str, conversation: ChatAddress, actor: Actor) -> str:
        """Return the session key for ``actor``. A guest never shares the owner's main session."""
        channel = _part(conversation.channel)
        if conversation.channel == API:
            return self._api_key(agent, conversation, actor)
        if conversation.kind == "group":
            thread = "" if conversation.thread is None else f":thread:{_part(conversation.thread)}"
            return f"agent:{agent}:{channel}:group:{_part(conversation.id)}{thread}"
        thread = "" if conversation.thread is None or actor.local else f":thread:{_part(conversation.thread)}"
        scope = "per-channel-peer" if self._scope == "main" and not actor.owner else self._scope
        if scope == "main" or actor.local:
            return f"agent:{agent}:{channel}{thread}" if thread else f"agent:{agent}:main"
        if scope == "per-peer":
            return f"agent:{agent}:dm:{_part(actor.person)}{thread}"
        peer = actor.sender
        if actor.person in self._links or self._names_somebody(_part(peer)):
            peer = actor.person
        return f"agent:{agent}:{channel}:dm:{_part(peer)}{thread}"

    def _api_key(self, agent: str, conversation: ChatAddress, actor: Actor) -> str:
        """A program has a session for each of its tokens, or several that it names. Those of a guest are all the guest's."""
        token = conversation.id.partition("/")[2]
        if actor.owner:
            return f"agent:{agent}:{API}:{token}" + (f":{_part(conversation.thread)}" if conversation.thread else "")
        linked = actor.person in self._links or self._names_somebody(_part(actor.sender))
        name = token if conversation.thread is None else f"{token}.{_part(conversation.thread)}"
        return f"agent:{agent}:{API}:dm:{_part(actor.person if linked else actor.sender)}:{name}"

    def audience(self, session: str) -> Audience:
        """Return a session's audience, from its key alone: a group, a guest, or (any other form of key) the owner."""
        match session.split(":"):
            case ["agent", _, channel, "group" | "channel", peer, *_]:
                return Audience("group", folder_key(f"{channel}-{peer}"))
            case ["agent", _, "dm", peer, *_]:
                return Audience("peer", folder_key(peer))
            case ["agent", _, channel, "dm", peer, *_]:
                return Audience("peer", folder_key(peer if self._names_somebody(peer) else f"{channel}-{peer}"))
            case _:
                return OWNER

    def _names_somebody(self, part: str) -> bool:
        return any(_part(name) == part for name in self._links)

    def _route_by_name(self, wish: str, agent: str | None) -> Route:
        """A session by name: a full key, or a word that becomes ``agent:<id>:<word>``."""
        if wish.startswith("agent:"):
            named = self._checked_agent(wish.split(":")[1])
            if agent is not None and named != agent:
                raise UsageError(
                    f"session {wish!r} belongs to agent {named!r}, not {agent!r}",
                    hint="Leave --agent out, or name another session.",
                )
            agent, key = named, wish
        else:
            agent = agent or self._default
            key = f"agent:{agent}:{wish}"
        if not re.fullmatch(r"agent:[a-z0-9_-]+(:[^\s:\x00-\x1f/\\]{1,200}){1,6}", key):
            raise UsageError(
                f"{wish!r} is not a valid session name",
                hint="Use a word such as `travel`, or a key that `homebody sessions` lists.",
            )
        return Route(agent=agent, session=key, audience=self.audience(key))

    def _checked_agent(self, agent: str) -> str:
        wanted = agent.strip().lower()
        if wanted not in self._agents:
            raise unknown_agent(agent, sorted(self._agents))
        return wanted

    def _winner(self, places: Sequence[ChatAddress]) -> int | None:
        """The most specific rule wins (see ``TIERS``), of equals the first. Rules for unknown agents are skipped."""
        fitting = [
            (tier, place)
            for place, binding in enumerate(self._bindings)
            if binding.agent_id.lower() in self._agents and (tier := self._tier(binding, places)) is not None
        ]
        return min(fitting)[1] if fitting else None

    @staticmethod
    def _tier(binding: Binding, places: Sequence[ChatAddress]) -> int | None:
        tiers = [judged.tier for place in places if (judged := judge(binding.match, place)).tier is not None]
        return min(tiers) if tiers else None


def router_of(settings: Settings, formers: Callable[[ChatAddress], Sequence[ChatAddress]] = lambda _: ()) -> Router:
    """Return the router for these settings."""
    return Router(
        agents=settings.agent_ids,
        default_agent=settings.default_agent,
        bindings=settings.bindings,
        broadcast=settings.broadcast,
        dm_scope=settings.session.dm_scope,
        identity_links=settings.session.identity_links,
        formers=formers,
    )


def _part(text: str) -> str:
    """An id as part of a key: lower-case, without separators.

    Different ids give different parts, but for an id in small letters and the same in capitals, which no platform has both of.
    """
    plain = re.sub(r"[\s:/\\\x00-\x1f%~]", lambda found: f"%{ord(found[0]):02x}", text)
    lowered = plain.lower()
    mixed = plain not in {lowered, plain.upper()}
    return f"{lowered}~{_mark(text)}" if mixed else lowered


def agent_of(session: str) -> str:
    """Return the agent in a session key; an empty string for a key of another form."""
    return session.split(":", 2)[1] if session.startswith("agent:") else ""


def api_agent(conversation: ChatAddress) -> str:
    """Return the agent that a program's conversation is with."""
    return conversation.id.partition("/")[0]


def is_owners(session: str) -> bool:
    """Return whether a session is the owner's alone, judged by its key; False if the key does not say."""
    match session.split(":"):
        case ["agent", _, _, "group" | "channel" | "dm", *_] | ["agent", _, "dm", *_]:
            return False
        case ["agent", _, _, *_]:
            return True
        case _:
            return False


def folder_key(name: str) -> str:
    """Return a folder name for ``memory/groups`` or ``memory/peers``: readable, and different for different names.

    A name that is not a valid folder name, or that already looks hashed, gets a hash appended.
    """
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).lstrip("-_")
    marked = re.search(rf"-[0-9a-f]{{{_MARK}}}$", slug) is not None
    if slug == name and slug and len(slug) <= _LONGEST_KEY and not marked:
        return slug
    return f"{slug[: _LONGEST_KEY - _MARK - 1].rstrip('-_') or 'x'}-{_mark(name)}"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]


TIERS = ("topic", "peer", "guild", "team", "account", "any account")
"""How near a rule may be, the nearest first."""


class Judged(Struct, frozen=True):
    """How specifically a rule matches a conversation (0 is most specific), or None and why it does not match."""

    tier: int | None
    reason: str = ""


def judge(match: BindingMatch, conversation: ChatAddress) -> Judged:
    """Evaluate a rule for a conversation."""
    reason = _stranger(match, conversation)
    if reason:
        return Judged(None, reason)
    account = match.account_id or "default"
    said = (match.thread, match.peer, match.guild_id, match.team_id, None if account == "*" else account, True)
    return Judged(next(tier for tier, value in enumerate(said) if value is not None))


def _stranger(match: BindingMatch, conversation: ChatAddress) -> str:
    """Return why a rule does not match, or an empty string if it does."""
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
    """Return the agents in ``broadcast`` for a conversation, which is named by its id, or by channel (and kind) and id."""
    channel, kind, peer = conversation.channel, conversation.kind, conversation.id
    for key in (f"{channel}:{kind}:{peer}", f"{channel}:{peer}", peer):
        named = broadcast.get(key)
        if key != STRATEGY and isinstance(named, tuple):
            return tuple(dict.fromkeys(agent.lower() for agent in named))
    return ()


class ChatMigrations:
    """The former ids of groups. Sessions and memory stay under the first id, so that nothing on disk has to move."""

    def __init__(self) -> None:
        self._formers: dict[tuple[str, str], list[str]] = {}
        self._present: dict[tuple[str, str], str] = {}

    async def load(self, migrations: ChatMigrationLedger) -> None:
        """Load the former ids from the ledger."""
        formers: dict[tuple[str, str], list[str]] = {}
        present: dict[tuple[str, str], str] = {}
        for move in await migrations.all():
            formers.setdefault((move.account, move.present), []).append(move.former)
            present[move.account, move.former] = move.present
        self._formers, self._present = formers, present

    def formers(self, conversation: ChatAddress) -> tuple[ChatAddress, ...]:
        """Return the conversation under the former ids of its group, the first id first."""
        if conversation.kind != "group" or not self._formers:
            return ()
        account = account_of(conversation)
        present = self._present.get((account, conversation.id), conversation.id)
        return tuple(replace(conversation, id=former) for former in self._formers.get((account, present), ()))

    def origin(self, conversation: ChatAddress) -> ChatAddress:
        """Return the conversation under the first id that its group had."""
        return next(iter(self.formers(conversation)), conversation)
