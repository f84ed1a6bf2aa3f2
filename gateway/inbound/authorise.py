"""First and second inbound step: valid text, and who may speak.

Strangers get a pairing code, and group messages to others are kept as context.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from channels.messages import ChatAddress, Inbound
from gateway.commands.table import orders_stop, parse, says_stop
from gateway.ledger.protocol import Ledger
from gateway.ledger.values import account_of, clean
from gateway.routing.access import Access, Actor, Allowed, Ignored, Pair, invitation_in
from gateway.routing.router import Router
from gateway.settings.mention_patterns import by_name, called
from gateway.settings.root import Settings, SettingsStore
from gateway.turns.user_message import name_of, one_line


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


log = logging.getLogger(__name__)

DIRECT_CHATS: Final = 2000
"""Direct chats whose person is remembered."""
BOT_CONVERSATIONS: Final = 1000
"""Conversations in which messages of bots are counted."""


class Authorised(Struct, frozen=True):
    """A message or an event of somebody who may speak."""

    inbound: Inbound
    actor: Actor


class Authoriser:
    """Lets through what may reach an agent. All of its own state is in memory and bounded.

    ``may_stop`` returns whether something works in the conversation of a message that a person may stop.
    """

    def __init__(
        self,
        ledger: Ledger,
        access: Access,
        history: GroupHistory,
        settings: SettingsStore,
        may_stop: Callable[[Inbound, Actor], Awaitable[bool]],
    ) -> None:
        self._may_stop = may_stop
        self._ledger = ledger
        self._access = access
        self._history = history
        self._settings = settings
        self._bots = BotLimit()
        self._direct_chats = DirectChats()

    async def authorise(self, inbound: Inbound) -> Authorised | None:
        """Return the message with its actor, or None. A stranger's first message causes one pairing request.

        Raises:
            StorageFailed: the pairing request could not be stored.
        """
        account = account_of(inbound.conversation)
        if inbound.conversation.kind == "direct" and not self._direct_chats.fits(inbound):
            log.warning("ignored: a %s in a direct chat of somebody else on %s", inbound.event, account)
            return None
        if invitation_in(inbound.text) is not None and await self._accept_invitation(inbound):
            return None
        decision = await self._access.decide(
            inbound.conversation,
            inbound.sender,
            mentioned=inbound.mentioned or (inbound.event != "message" and await self._is_for_agent(inbound)),
            from_bot=inbound.from_bot,
            switches=inbound.text.startswith("/") and _switches(inbound),
        )
        if isinstance(decision, Ignored) and decision.overheard and await self._stops(inbound):
            inbound = replace(inbound, text=inbound.text if orders_stop(inbound.text) else "/stop", mentioned=True)
            decision = Allowed(await self._access.who(inbound.conversation.channel, inbound.sender.id))
        if isinstance(decision, Allowed):
            if inbound.event != "message" or self._bots.passes(inbound, self._settings.current.messages.bots_in_a_row):
                return Authorised(inbound, decision.actor)
            log.info("ignored: a message on %s, because too many in a row were from bots", account)
        elif isinstance(decision, Pair):
            await self._request_pairing(inbound, decision)
        elif decision.overheard:
            self._keep_as_context(inbound)
        else:
            log.info("ignored: a message on %s: %s", account, decision.reason)
        return None

    async def _accept_invitation(self, inbound: Inbound) -> bool:
        """Return whether the message is the code by which its sender becomes an owner; then nobody else hears it."""
        if inbound.event != "message" or inbound.from_bot:
            return False
        owner = await self._access.accept_invitation(inbound.conversation, inbound.sender, inbound.text)
        if owner is not None:
            log.info("%s is paired as the owner on %s, by the link", owner.sender, account_of(inbound.conversation))
        return owner is not None

    async def _is_for_agent(self, inbound: Inbound) -> bool:
        """Return whether an event that mentions nobody is meant for the agent: in a group those under its own messages are."""
        if inbound.conversation.kind == "direct":
            return False
        known = await self._ledger.inbox.knows(inbound.conversation.address, inbound.target or "")
        return known or inbound.event == "button"

    async def _stops(self, inbound: Inbound) -> bool:
        """Return whether a group message that names nobody orders a stop: ``/stop`` always, the mere word while it can stop something."""
        if inbound.event != "message" or inbound.from_bot:
            return False
        if orders_stop(inbound.text):
            return True
        if not says_stop(inbound.text, {"stop"}):
            return False
        return await self._may_stop(inbound, await self._access.who(inbound.conversation.channel, inbound.sender.id))

    async def _request_pairing(self, inbound: Inbound, decision: Pair) -> None:
        if inbound.event != "message" or inbound.from_bot:
            return
        request = await self._ledger.pairing.request(
            inbound.conversation, inbound.sender.id, inbound.sender.name, decision.code, decision.text
        )
        if request is not None:
            command = f"homebody pairing approve {request.channel} {request.code}"
            log.info("pairing request on %s (sender %s): %s", account_of(inbound.conversation), request.sender, command)

    def _keep_as_context(self, inbound: Inbound) -> None:
        if inbound.event == "message":
            self._bots.passes(inbound, self._settings.current.messages.bots_in_a_row)
            self._history.note(inbound, most=history_limit(self._settings.current, inbound.conversation))
        elif inbound.event == "edited":
            self._history.amend(inbound)


def _switches(inbound: Inbound) -> bool:
    """Return whether this is a command that is heard in a group where the agent is off: the one that switches it on."""
    if inbound.event not in {"message", "button"}:
        return False
    command = parse(inbound.text)
    return command is not None and command[0].name == "activation" and (inbound.mentioned or inbound.event == "button")


def history_limit(settings: Settings, place: ChatAddress) -> int:
    """Return how many messages to others are kept for a group: the limit of its account or channel, else the general one."""
    section = settings.channels.account(place.channel, place.account)
    own: int | None = getattr(section, "history_limit", None)
    return settings.messages.group_chat.history_limit if own is None else own


class BotLimit:
    """Counts the messages of bots in a conversation since a person last wrote there, so that two bots cannot answer each other forever."""

    def __init__(self) -> None:
        self._counted: OrderedDict[str, list[str]] = OrderedDict()

    def passes(self, inbound: Inbound, most: int) -> bool:
        """Return whether a message is let in: any of a person, and ``most`` in a row of bots. A redelivery counts once."""
        address = inbound.conversation.address
        if not inbound.from_bot:
            self._counted.pop(address, None)
            return True
        counted = self._counted.setdefault(address, [])
        self._counted.move_to_end(address)
        if inbound.alias in counted:
            return True
        if len(counted) >= most:
            return False
        counted.append(inbound.alias)
        while len(self._counted) > BOT_CONVERSATIONS:
            self._counted.popitem(last=False)
        return True


class DirectChats:
    """Remembers who writes in which direct chat: nobody else can press a button there."""

    def __init__(self) -> None:
        self._persons: OrderedDict[str, str] = OrderedDict()

    def fits(self, inbound: Inbound) -> bool:
        """Return whether something in a direct chat can be of its person. A message says whose chat it is."""
        if inbound.conversation.kind != "direct":
            return True
        address = inbound.conversation.address
        if inbound.event != "message":
            return self._persons.get(address, inbound.sender.id) == inbound.sender.id
        self._persons[address] = inbound.sender.id
        self._persons.move_to_end(address)
        while len(self._persons) > DIRECT_CHATS:
            self._persons.popitem(last=False)
        return True


MESSAGES = 20
"""Messages kept for each group, unless the settings say otherwise."""
GROUPS = 200
LONGEST = 500


class GroupHistory:
    """Keeps the last messages of each group, in memory only and bounded. Only people who may speak in the group are kept."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[tuple[str, str]]] = OrderedDict()

    def note(self, inbound: Inbound, *, most: int = MESSAGES) -> None:
        """Keep a message, and ``most`` of its group in all. A redelivery is kept once."""
        address = inbound.conversation.address
        kept = self._groups.setdefault(address, deque(maxlen=most))
        if kept.maxlen != most:
            kept = self._groups[address] = deque(kept, maxlen=most)
        self._groups.move_to_end(address)
        entry = (inbound.message_id, _line(inbound))
        if entry not in kept:
            kept.append(entry)
        while len(self._groups) > GROUPS:
            self._groups.popitem(last=False)

    def amend(self, inbound: Inbound) -> None:
        """Apply an edit to a message that is kept."""
        kept = self._groups.get(inbound.conversation.address, deque())
        for position, (message, _) in enumerate(kept):
            if message == inbound.target:
                kept[position] = (message, _line(inbound))

    def knows(self, inbound: Inbound) -> bool:
        """Return whether the message that an edit is about is kept."""
        kept = self._groups.get(inbound.conversation.address, ())
        return any(message == inbound.target for message, _ in kept)

    def before(self, inbound: Inbound) -> str:
        """Return the messages before this one, a line each; nothing for a command."""
        if inbound.conversation.kind != "group" or inbound.text.startswith("/"):
            return ""
        kept = self._groups.get(inbound.conversation.address, ())
        return "\n".join(line for message, line in kept if message != inbound.target)

    def forget(self, group: ChatAddress, name: str) -> None:
        """Drop what a person said in a group with all its threads."""
        for address in [one for one in self._groups if f"{one}:".startswith(f"{group.address}:")]:
            kept = self._groups[address]
            self._groups[address] = deque((one for one in kept if not one[1].startswith(f"{name}: ")), maxlen=kept.maxlen)

    def drop(self, address: str) -> None:
        """Forget the messages of a conversation, because they are stored with one that is for the agent."""
        self._groups.pop(address, None)


def _line(inbound: Inbound) -> str:
    files = f"[{len(inbound.attachments)} files]" if len(inbound.attachments) > 1 else "[a file]" if inbound.attachments else ""
    text = " ".join(filter(None, [files, one_line(inbound.text, LONGEST)]))
    return f"{name_of(inbound.sender.name, inbound.sender.id)}: {text}"
