"""Access control for messages, buttons, reactions and commands, and the tools that a group's rules allow."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from agent.tool_settings import ToolRules
from channels.messages import ChatAddress, Sender
from channels.platform import ANYBODY, GroupRule, Policy
from gateway.base.errors import for_chat
from gateway.ledger.activation_rows import ActivationMode
from gateway.ledger.pairing_rows import PairingLedger
from gateway.ledger.rows import ApprovedSender, Role
from gateway.sessions.sessions_file import SessionRecord

CODE_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""No 0, O, 1 or I: the code is read off one screen and typed on another."""

CODE_LENGTH: Final = 8
INVITATION_LENGTH: Final = 16
WELCOME_OWNER: Final = "We are paired: I take you for my owner here. What can I do for you?"
LOCAL_PERSON: Final = "owner"
GROUP_NOT_LISTED: Final = "the group is not listed"
NOT_AMONG_SPEAKERS: Final = "the sender is not listed for this group"


class Actor(Struct, frozen=True, kw_only=True):
    """A person who has access, and their rights.

    ``person`` is their name in ``session.identityLinks``, or ``channel-id``. An owner has all rights and access to the owner's
    memory in private chats; a peer has neither.
    """

    role: Role
    person: str
    sender: str
    local: bool = False

    @property
    def owner(self) -> bool:
        """Whether this is the owner."""
        return self.role == "owner"


class Allowed(Struct, frozen=True):
    """The sender has access."""

    actor: Actor


class Pair(Struct, frozen=True):
    """An unknown sender: reply with ``text``, which contains the pairing ``code``, and do nothing else."""

    code: str
    text: str


class Ignored(Struct, frozen=True):
    """The message is ignored without a reply. ``overheard``: it would have been accepted had it mentioned the agent."""

    reason: str
    overheard: bool = False


Decision = Allowed | Pair | Ignored


class Access:
    """Decides who has access. ``policies`` returns the current settings by channel and account, so that changes apply at once.

    ``formers`` returns a conversation under former ids of its group: a rule for a former id still applies. ``activation`` returns what was
    chosen in a group with ``/activation``, None where the settings hold.
    """

    def __init__(
        self,
        pairing: PairingLedger,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
        identity_links: Mapping[str, Sequence[str]],
        *,
        code: Callable[[], str] | None = None,
        formers: Callable[[ChatAddress], Sequence[ChatAddress]] = lambda _: (),
        activation: Callable[[ChatAddress], ActivationMode | None] = lambda _: None,
    ) -> None:
        self._activation = activation
        self._pairing = pairing
        self._policies = policies
        self.links = identity_links
        """Who is one person under several ids (``session.identityLinks``); replaced when the settings are."""
        self._code = code or new_code
        self._formers = formers

    def judges(self, place: ChatAddress) -> bool:
        """Return whether the rules of a conversation's account are known here: not those that other gateways connect."""
        return (place.channel, place.account) in self._policies()

    async def decide(
        self,
        conversation: ChatAddress,
        sender: Sender,
        *,
        mentioned: bool = False,
        from_bot: bool = False,
        switches: bool = False,
    ) -> Decision:
        """Return whether ``sender`` has access in ``conversation``. Only ids are compared, never names. Changes nothing.

        ``switches``: it is a command that switches the agent on where it is off.
        """
        where = (conversation.channel, conversation.account)
        policy = self._policies().get(where, Policy())
        if policy.local:
            return Allowed(Actor(role="owner", person=LOCAL_PERSON, sender=sender.id, local=True))
        if shut := _shut(policy, conversation, from_bot=from_bot):
            return Ignored(shut)
        approved = await self._pairing.approved()
        actor = self._actor(conversation.channel, sender.id, approved)
        listed = sender.id != ANYBODY and sender.id in policy.allow_from
        if conversation.kind == "group":
            return self._in_group(policy, conversation, actor, mentioned=mentioned, switches=switches)
        paired = policy.dm_policy == "pairing" and any(
            (one.channel, one.account, one.sender) == (*where, sender.id) for one in approved
        )
        if listed or paired or (policy.dm_policy == "open" and ANYBODY in policy.allow_from):
            return Allowed(actor)
        if policy.dm_policy == "pairing" and not is_unproven(policy, sender.id):
            code = self._code()
            return Pair(code, pairing_text(conversation.channel, code))
        lacking = ', which accepts everybody only if it contains "*"' if policy.dm_policy == "open" else ""
        unproven = ", and nothing proves who it is" if is_unproven(policy, sender.id) else ""
        return Ignored(f"the sender is not in allowFrom{lacking}{unproven}")

    def _in_group(
        self, policy: Policy, conversation: ChatAddress, actor: Actor, *, mentioned: bool, switches: bool
    ) -> Decision:
        places = (conversation, *self._formers(conversation))
        rule = next((found for place in places if (found := policy.group(place)) is not None), None)
        mode = self._activation(conversation)
        if mode == "off" and not switches:
            return Ignored("the agent is switched off in this group")
        needs_mention = rule is not None and rule.require_mention if mode is None else mode == "mention"
        return _decide_group(policy, rule, actor, mentioned=mentioned or switches or not needs_mention)

    async def accept_invitation(self, conversation: ChatAddress, sender: Sender, text: str) -> ApprovedSender | None:
        """Make the sender an owner if ``text`` is the code of this account's invitation; see ``PairingLedger.redeem``."""
        code = invitation_in(text)
        policy = self._policies().get((conversation.channel, conversation.account), Policy())
        if code is None or conversation.kind != "direct" or policy.dm_policy != "pairing" or is_unproven(policy, sender.id):
            return None
        return await self._pairing.redeem(conversation, sender.id, sender.name, digest_of(code), WELCOME_OWNER)

    async def who(self, channel: str, sender: str) -> Actor:
        """Return the person with an id, whether they have access or not."""
        return self._actor(channel, sender, await self._pairing.approved())

    def owners(self, approved: Sequence[ApprovedSender]) -> frozenset[str]:
        """Return the names of the owners: first in an allowFrom, or approved as owner."""
        listed = [
            (channel, next((entry for entry in policy.allow_from if entry != ANYBODY), None))
            for (channel, _), policy in self._policies().items()
        ]
        return frozenset(
            [person(self.links, channel, sender) for channel, sender in listed if sender is not None]
            + [person(self.links, one.channel, one.sender) for one in approved if one.role == "owner"]
        )

    def owners_on(self, channel: str, account: str, approved: Sequence[ApprovedSender]) -> list[Actor]:
        """Return the owners who have access on an account, under each of their ids there."""
        policy = self._policies().get((channel, account), Policy())
        linked = [
            one.removeprefix(f"{channel}:") for ids in self.links.values() for one in ids if one.startswith(f"{channel}:")
        ]
        listed = [entry for entry in policy.allow_from if entry != ANYBODY]
        let_in = [one.sender for one in approved if (one.channel, one.account) == (channel, account)]
        known = dict.fromkeys([*listed, *linked, *let_in])
        return [actor for sender in known if (actor := self._actor(channel, sender, approved)).owner]

    async def owner_ids(self, place: ChatAddress) -> list[str]:
        """Return the ids of the owners on the account of a conversation."""
        approved = await self._pairing.approved()
        return [actor.sender for actor in self.owners_on(place.channel, place.account, approved)]

    def person(self, channel: str, sender: str) -> str:
        """Return the name of a person: the linked one, or one made of channel and id."""
        return person(self.links, channel, sender)

    def _actor(self, channel: str, sender: str, approved: Sequence[ApprovedSender]) -> Actor:
        name = person(self.links, channel, sender)
        return Actor(role="owner" if name in self.owners(approved) else "peer", person=name, sender=sender)


def person(links: Mapping[str, Sequence[str]], channel: str, sender: str) -> str:
    """Return the person with an id: the name that ``identityLinks`` has for ``channel:id``, or ``channel-id``."""
    return next((name for name, ids in links.items() if f"{channel}:{sender}" in ids), f"{channel}-{sender}")


def is_unproven(policy: Policy, sender: str) -> bool:
    """Return whether anybody could have written under the id of a sender."""
    return bool(policy.unproven) and sender.startswith(policy.unproven)


def _shut(policy: Policy, conversation: ChatAddress, *, from_bot: bool) -> str:
    """Return why nobody has access here, or an empty string if some have."""
    if from_bot and not policy.bots:
        return "a program wrote it"
    private = conversation.kind == "direct" and policy.dm_policy == "disabled"
    return "private messages are turned off for this channel" if private else ""


def _decide_group(policy: Policy, rule: GroupRule | None, actor: Actor, *, mentioned: bool) -> Decision:
    if rule is None or not rule.allow:
        return Ignored(GROUP_NOT_LISTED)
    speakers = policy.allow_from if rule.users is None else rule.users
    if ANYBODY not in speakers and (actor.sender == ANYBODY or actor.sender not in speakers):
        return Ignored(NOT_AMONG_SPEAKERS)
    if mentioned:
        return Allowed(actor)
    return Ignored("the agent was not mentioned", overheard=True)


def concerns(name: str, policy: Policy) -> list[str]:
    """Return warnings about probable mistakes in a policy. ``name`` is the channel's account, such as ``telegram:default``."""
    found = []
    listed = [entry for entry in policy.allow_from if entry != ANYBODY]
    if policy.dm_policy == "open" and ANYBODY not in policy.allow_from:
        found.append(f'{name}: dmPolicy is "open", but new people are still not accepted: this also needs "*" in allowFrom.')
    if len(listed) > 1:
        found.append(
            f"{name}: allowFrom lists {len(listed)} people. The first, {listed[0]}, is the owner and has access to the "
            "private memory; the others are guests. Put your own id first, or join ids that are all yours under session.identityLinks."
        )
    return found


def pairing_text(channel: str, code: str) -> str:
    """The reply to an unknown person: their pairing code and the owner's command."""
    command = for_chat(f"homebody pairing approve {channel} {code}")
    return f"I do not know you yet. Your pairing code is {code}. The owner of this agent can approve you with:\n`{command}`"


def new_invitation() -> str:
    """Return the code of an invitation. It fits into a link of Telegram, and is too long to be guessed."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(INVITATION_LENGTH))


def invitation_in(text: str) -> str | None:
    """Return the code that a message consists of, as Telegram writes it for a link (``/start CODE``) or alone; else None."""
    code = text.strip().removeprefix("/start").strip().upper()
    return code if len(code) == INVITATION_LENGTH and set(code) <= set(CODE_ALPHABET) else None


def digest_of(code: str) -> str:
    """Return the hash by which an invitation is stored. It needs no salt: the code has 80 bits and is good once, for ``PAIRING_TTL``."""
    return hashlib.sha256(code.encode()).hexdigest()


def new_code() -> str:
    """Return a pairing code."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))


class GroupRules:
    """What the settings say of groups, by the policies in force. ``formers`` returns a conversation under former ids of its group."""

    def __init__(
        self,
        policies: Callable[[], Mapping[tuple[str, str], Policy]],
        formers: Callable[[ChatAddress], Sequence[ChatAddress]] = lambda _: (),
    ) -> None:
        self._policies = policies
        self._formers = formers

    def of(self, place: ChatAddress) -> GroupRule | None:
        """Return the rule of a group; None for one that is not listed."""
        policy = self._policies().get((place.channel, place.account))
        found = (policy.group(one) for one in (place, *self._formers(place))) if policy else iter(())
        return next((rule for rule in found if rule is not None), None)

    def speakers(self, place: ChatAddress) -> tuple[str, ...]:
        """Return who may speak in a group; of one that is not listed, who may once it is."""
        policy = self._policies().get((place.channel, place.account), Policy())
        known = next((one for one in (place, *self._formers(place)) if policy.group(one) is not None), place)
        return policy.speakers(known)

    def of_session(self, record: SessionRecord) -> GroupRule | None:
        """Return the rule of the group that a session belongs to; None for a session with one person."""
        place = group_of(record)
        return self.of(place) if place else None


def rules_of(rule: GroupRule) -> tuple[ToolRules, ...]:
    """Return the tool rules in a group's settings. Raises pydantic's ValidationError for an unknown tool group."""
    return tuple(ToolRules(allow=one.allow, deny=one.deny) for one in rule.tools)


def group_of(record: SessionRecord) -> ChatAddress | None:
    """Return the group that a session belongs to, or None for a session with one person."""
    if ":group:" not in record.address:
        return None
    try:
        place = ChatAddress.parse(record.address, space=record.space or None)
    except ValueError:  # a session that never spoke with anybody
        return None
    return place if place.kind == "group" else None
