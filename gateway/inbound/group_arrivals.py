"""What happens when the bot is added to a group: it says there who it is, or its owner is told how to allow the group."""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from agent.timing import Clock
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.base.foreign_words import unformatted
from gateway.ledger.outbox_rows import OutboxLedger
from gateway.ledger.rows import NewOutbound
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.routing.access import GroupRules
from gateway.routing.activations import Activations
from gateway.routing.group_settings import commands_that_allow, users_key
from gateway.routing.router import Router
from gateway.turns.user_message import one_line

log = logging.getLogger(__name__)

A_DAY: Final = timedelta(days=1)
MOST_A_DAY: Final = 5
"""Groups of which the owner is told in a day: anybody can add a bot to groups."""
_TITLE: Final = 60

WELCOME: Final = {
    "en": (
        "Hello, I am **{name}**. {address}\n\n"
        "I keep what is said to me here, notes about this group, and until my next answer the last {history} messages that were not "
        "for me. My owner can read all of it. `/memory` shows my notes, `/memory forget me` asks for your words to be removed, and "
        "`/help` lists what I can do."
    ),
    "de": (
        "Hallo, ich bin **{name}**. {address}\n\n"
        "Ich behalte, was ihr hier zu mir sagt, Notizen zu dieser Gruppe und bis zu meiner nächsten Antwort die letzten {history} "
        "Nachrichten, die nicht an mich gingen. Wer mich betreibt, kann das alles lesen. `/memory` zeigt meine "
        "Notizen, `/memory forget me` bittet darum, deine Worte zu löschen, und `/help` zählt auf, was ich kann."
    ),
}
ADDRESS: Final = {
    "en": ("Mention me{known} or reply to one of my messages, and I answer.", "I answer every message here."),
    "de": (
        "Erwähnt mich{known} oder antwortet auf eine meiner Nachrichten, dann antworte ich.",
        "Ich antworte hier auf jede Nachricht.",
    ),
}
_GERMAN: Final = ("de", "german", "deutsch")


class GroupArrivals:
    """Welcomes groups. ``history`` returns how many messages to others are kept for a group, ``owners`` the owner's ids on its account."""

    def __init__(
        self,
        outbox: OutboxLedger,
        owner: OwnerNotifications,
        rules: GroupRules,
        *,
        activations: Activations,
        router: Router,
        agents: Mapping[str, RunningAgent],
        channel: Callable[[ChatAddress], Channel],
        history: Callable[[ChatAddress], int],
        owners: Callable[[ChatAddress], Awaitable[Sequence[str]]],
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._owner = owner
        self._rules = rules
        self._activations = activations
        self._router = router
        self._agents = agents
        self._channel = channel
        self._history = history
        self._owners = owners
        self._clock = clock
        self._told: deque[datetime] = deque(maxlen=MOST_A_DAY)

    async def added(self, group: ChatAddress, *, key: str, title: str = "", by: str = "") -> None:
        """See ``channels.protocol.InboundSink.added``. What is said is queued under ``key``, so that it is said once.

        Raises:
            StorageFailed: it could not be queued.
        """
        rule = self._rules.of(group)
        name = f"j.{hashlib.sha256(f'{group.address} {key}'.encode()).hexdigest()[:20]}"
        if rule is None or not rule.allow:
            await self._tell_owner(group, name, title, by, listed=rule is not None)
            return
        activation = self._activations.of(group)
        if rule.choices.welcome is False or (activation is not None and activation.mode == "off"):
            return
        needs_mention = rule.require_mention if activation is None else activation.mode == "mention"
        text = self._welcome(group, rule.choices.language, needs_mention=needs_mention)
        if isinstance(rule.choices.welcome, str):
            text = rule.choices.welcome
        pieces = self._channel(group).chunks(text)
        chunks = [NewOutbound(conversation=group, text=piece, key=f"{name}.{n}") for n, piece in enumerate(pieces)]
        await self._outbox.enqueue(chunks)

    def _welcome(self, group: ChatAddress, language: str, *, needs_mention: bool) -> str:
        spoken = "de" if language.casefold().split("-")[0] in _GERMAN else "en"
        known_as = str(getattr(self._channel(group), "known_as", "") or "")
        known = f" ({known_as})" if known_as else ""
        mention, always = ADDRESS[spoken]
        agent = next(iter(self._router.answering(group)), "")
        profile = self._agents[agent].profile if agent in self._agents else None
        name = profile.name if profile is not None and profile.name != profile.id else "Homebody"
        address = mention.format(known=known) if needs_mention else always
        return WELCOME[spoken].format(name=name, address=address, history=self._history(group))

    async def _tell_owner(self, group: ChatAddress, name: str, title: str, by: str, *, listed: bool) -> None:
        """Tell the owner of a group that is not allowed, with the command that lets them speak there. Nothing is said in the group.

        ``listed``: the settings name the group, and switch it off.
        """
        owners, speakers = await self._owners(group), self._rules.speakers(group)
        commands = commands_that_allow(group, speakers=speakers, owners=owners, listed=listed)
        what = f"“{unformatted(one_line(title, _TITLE))}” ({group.id})" if title else group.id
        log.warning("added to the group %s of %s, which is not allowed: %s", what, group.channel, "; ".join(commands))
        now = self._clock.now()
        if len(self._told) == MOST_A_DAY and now - self._told[0] < A_DAY:
            return
        place = await self._owner.place()
        if place is None:
            return
        self._told.append(now)
        who = f"{unformatted(one_line(by, _TITLE))} added me" if by else "I was added"
        text = f"👋 {who} to the group {what} on {group.channel}. I read and say nothing there unless you allow it:\n"
        text += "\n".join(f"`{command}`" for command in commands)
        if not speakers and not owners:
            text += f"\nI do not know your id there: nobody may speak to me until `{users_key(group)}` lists them."
        await self._outbox.enqueue([NewOutbound(conversation=place, text=text, key=name)])
