"""The queue of messages before a session: which are answered together, how long to wait for more, and what ``/queue`` chose.

Only messages with the same group key are answered together: same conversation and session, same rights, same audience. The queue holds
ids; the texts stay in the ledger.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from agent.timing import Clock
from channels.messages import ChatAddress
from gateway.agents.running_agent import RunningAgent
from gateway.base.wait import wait_until_set
from gateway.queue.lanes import AgentsAtWork, Lanes
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import agent_of
from gateway.settings.message_settings import MODES, OLDER_NAMES, MessagesSettings, QueueMode
from gateway.settings.root import SettingsStore

PARTS_QUIET = 1.0
"""Seconds without a further part after which an album, or a text that the platform cut up, counts as complete."""
LONGEST_HOLD = 10.0
"""Seconds that a free lane waits for more at most, however lively its people are."""
RULES_KEPT = 256
"""Rules kept in memory: few settings and choices differ."""
IN_SIGHT = 100
"""How far back in a queue messages are looked for that go with the first one."""

SHORT = 4096
"""Characters of a payload up to which a message may be kept in memory while it waits."""


class QueuedMessage(Struct, frozen=True):
    """A message that waits in a lane: its row and where it came from. Its text stays in the ledger until its turn comes.

    ``group_key`` is empty for one that is dealt with alone, such as a command. ``plain`` is one of text only. ``at`` is when it was put
    in line (by the monotonic clock), ``waited`` whether anything was before it then. ``message`` is what it says all the same
    where that is short and nothing was before it: its turn begins at once.
    """

    row: int
    place: ChatAddress
    message_id: str
    group_key: str = ""
    sender: str = ""
    part_of: str | None = None
    plain: bool = True
    at: float = 0.0
    waited: bool = False
    message: RoutedMessage | None = None


class Rule(Struct, frozen=True):
    """How messages of one session queue. Times are in seconds."""

    mode: QueueMode
    quiet: float
    within: float
    cap: int


def rule_of(settings: MessagesSettings, choice: QueueChoice, channel: str) -> Rule:
    """Return the rule for messages from a channel: what was chosen goes before the settings."""
    return Rule(
        mode=choice.mode or settings.queue.mode_on(channel),
        quiet=settings.queue.quiet_on(channel) if choice.quiet is None else choice.quiet,
        within=settings.inbound.within(channel),
        cap=choice.cap or settings.queue.cap,
    )


def group_key_of(message: RoutedMessage) -> str:
    """Return the group key of a message; empty for one that is answered alone, such as a command."""
    inbound, actor, audience = message.inbound, message.actor, message.route.audience
    if message.automation is not None:
        return f"automation {message.row.id}"
    if inbound.event != "message" or message.command is not None:
        return ""
    if not inbound.text.strip() and not inbound.attachments:
        return ""
    facts = (
        inbound.conversation.address,
        message.route.session,
        audience.kind,
        audience.key,
        actor.role,
        actor.local,
        sorted(inbound.hints.items()),
    )
    return sys.intern(json.dumps(facts))


class MessageQueue:
    """Puts messages in the lanes of their sessions and decides which are answered together.

    The rule of a session follows its settings and what its people chose with ``/queue``, both as they are at that moment.
    """

    def __init__(
        self,
        lanes: Lanes[Any],
        settings: SettingsStore,
        agents: Mapping[str, RunningAgent],
        clock: Clock,
        at_work: AgentsAtWork | None = None,
    ) -> None:
        self._lanes = lanes
        self.at_work = at_work or AgentsAtWork()
        self._settings = settings
        self._agents = agents
        self._clock = clock
        self._arrivals: dict[str, asyncio.Event] = {}
        self._stopped: dict[str, frozenset[int]] = {}
        """Messages of a lane whose start was stopped: what follows them is not theirs."""
        self._rules: dict[tuple[str, str], Rule] = {}
        self._rules_of = settings.current

    def rule(self, session: str, channel: str) -> Rule:
        """Return the rule in force for messages from a channel."""
        settings, choice = self._settings.current, self._choice(session)
        if settings is not self._rules_of or len(self._rules) >= RULES_KEPT:
            self._rules, self._rules_of = {}, settings
        rule = self._rules.get((choice, channel))
        if rule is None:
            rule = self._rules[choice, channel] = rule_of(settings.messages, read_choice(choice), channel)
        return rule

    def _choice(self, session: str) -> str:
        """Return what the people of a session chose with ``/queue``, or nothing. Its key names its agent."""
        agent = self._agents.get(agent_of(session))
        record = agent.store.get(session) if agent is not None else None
        return record.queue if record is not None else ""

    def describe(self, session: str, channel: str) -> str:
        """Describe the rule in force."""
        rule = self.rule(session, channel)
        chosen = " (chosen for this conversation)" if self._choice(session) else ""
        return f"{rule.mode}{chosen}: {TOLD[rule.mode]}"

    def join(self, message: RoutedMessage) -> tuple[QueuedMessage, int]:
        """Put a message in the lane of its session; return its item and how many are ahead of it."""
        session = message.route.session
        item = self.item(message, waited=self._lanes.ahead(session) > 0)
        ahead = self._lanes.submit(session, item)
        if session in self._arrivals:
            self._arrivals[session].set()
        return item, ahead

    def item(self, message: RoutedMessage, *, waited: bool = True) -> QueuedMessage:
        """Return the item of a message for a lane."""
        inbound = message.inbound
        return QueuedMessage(
            row=message.row.id,
            place=inbound.conversation,
            message_id=inbound.message_id,
            group_key=group_key_of(message),
            sender=sys.intern(inbound.sender.id),
            part_of=inbound.part_of,
            plain=not inbound.attachments and message.automation is None,
            at=self._clock.monotonic(),
            waited=waited,
            message=message if not waited and len(message.row.payload) < SHORT else None,
        )

    def held(self, session: str) -> bool:
        """Return whether an idle lane waits for more messages; what is in it then is behind nothing."""
        return session in self._arrivals

    def gather(self, session: str, head: QueuedMessage) -> list[QueuedMessage]:
        """Take the messages that go with ``head`` out of its lane; return them with ``head`` first."""
        waiting = self._lanes.waiting(session, IN_SIGHT)
        group = self._group(head, waiting, session) if waiting else [head]
        stopped = self._stopped.pop(session, frozenset())
        if head.row in stopped:  # what came after the stop waits for a turn of its own
            group = [one for one in group if one.row in stopped]
        if len(group) > 1:
            self._lanes.take(session, group[1:])
        return group

    def stop(self, session: str) -> list[QueuedMessage] | None:
        """Stop the running turn of a session, and messages that are about to start, but none that comes later.

        Returns the messages that had not started; None when nothing was stopped.
        """
        coming = self.stopped_with(session)
        if not self._lanes.stop(session):
            return None
        if coming:
            self._stopped[session] = frozenset(one.row for one in coming)
        return coming

    def stopped_with(self, session: str) -> list[QueuedMessage]:
        """Return what ``stop`` ends too, because it has not started: it waits for the debounce time or for an interrupted turn."""
        if not self._lanes.stops_next(session):
            return []
        items = self._lanes.waiting(session, IN_SIGHT)
        return self._group(items[0], items[1:], session) if items and isinstance(items[0], QueuedMessage) else []

    def _group(self, head: QueuedMessage, rest: Sequence[Any], session: str) -> list[QueuedMessage]:
        return [head, *to_coalesce(head, rest, self.rule(session, head.place.channel))]

    def steerable(self, session: str, group_key: str) -> list[QueuedMessage]:
        """Return the waiting messages that may join the running turn with that group key: the first ones, and only in mode ``steer``.

        An album joins as a whole, once it is complete.
        """
        items = self._lanes.waiting(session, IN_SIGHT)
        if not items or not group_key:
            return []
        found: list[QueuedMessage] = []
        for item in items:
            if not isinstance(item, QueuedMessage) or item.group_key != group_key:
                break
            found.append(item)
        if not found or self.rule(session, found[0].place.channel).mode != "steer":
            return []
        for place, item in enumerate(found):
            if item.part_of is not None and self._last_part(items, item) + PARTS_QUIET > self._clock.monotonic():
                return found[:place]
        return found

    async def hold(self, session: str) -> None:
        """Wait as long as more messages may come that go with the first one of an idle lane, or its agent is being rebuilt."""
        began = self._clock.monotonic()
        try:
            while (left := self._left(session, began)) > 0:
                arrival = self._arrivals.setdefault(session, asyncio.Event())
                arrival.clear()
                await wait_until_set(arrival, self._clock, left)
        finally:
            self._arrivals.pop(session, None)
        if self.at_work.shut:
            await self.at_work.opened(agent_of(session))

    def _left(self, session: str, began: float) -> float:
        items = self._lanes.waiting(session, IN_SIGHT)
        if not items or not isinstance(items[0], QueuedMessage) or not items[0].group_key:
            return 0.0
        head, rule = items[0], self.rule(session, items[0].place.channel)
        group = [head, *to_coalesce(head, items[1:], rule)]
        until = max((one.at + PARTS_QUIET for one in group if one.part_of is not None), default=0.0)
        if len(items) == len(group) < rule.cap:  # somebody who waits behind them ends the wait, and so does a full group
            if all(one.plain for one in group):
                until = max(until, group[-1].at + rule.within)
            if rule.mode != "followup" and any(one.waited for one in group):
                until = max(until, group[-1].at + rule.quiet)
        return min(until, began + LONGEST_HOLD) - self._clock.monotonic()

    @staticmethod
    def _last_part(items: Sequence[Any], one: QueuedMessage) -> float:
        same = (item.at for item in items if isinstance(item, QueuedMessage) and _is_part_with(one, item))
        return max(same, default=one.at)


def to_coalesce(head: QueuedMessage, rest: Sequence[Any], rule: Rule) -> list[QueuedMessage]:
    """Return the messages behind ``head`` that are answered together with it.

    Parts of one message (an album) always go together. Otherwise order is kept: the first message that does not go with it ends the group.
    """
    group, ended = [head], False
    for item in rest if head.group_key else ():
        if isinstance(item, QueuedMessage) and _belongs(item, group, rule, in_order=not ended):
            group.append(item)
        elif any(one.part_of is not None for one in group):
            ended = True
        else:
            break
    return group[1:]


def _belongs(item: QueuedMessage, group: Sequence[QueuedMessage], rule: Rule, *, in_order: bool) -> bool:
    if item.group_key != group[0].group_key:
        return False
    follows = in_order and len(group) < rule.cap and _joins(group[-1], item, rule)
    return follows or (item.part_of is not None and any(_is_part_with(one, item) for one in group))


def _is_part_with(one: QueuedMessage, other: QueuedMessage) -> bool:
    return one.part_of is not None and (one.group_key, one.sender, one.part_of) == (
        other.group_key,
        other.sender,
        other.part_of,
    )


def _joins(before: QueuedMessage, item: QueuedMessage, rule: Rule) -> bool:
    if rule.mode != "followup":
        return True
    quick = before.plain and item.plain and item.at - before.at <= rule.within
    return rule.within > 0 and quick and before.sender == item.sender


MOST_SECONDS = 60.0
MOST_TOGETHER = 1000
MEANT = (
    "Say `/queue collect`, `steer`, `followup` or `interrupt`, with `debounce:2s` or `cap:10` if you like; "
    "`/queue default` goes back to the settings."
)
TOLD: dict[QueueMode, str] = {
    "collect": "what waits is answered together in the next turn",
    "steer": "what you say while I work reaches me between two steps",
    "followup": "each message gets a turn of its own",
    "interrupt": "what you say while I work stops it, and I answer that",
}


class InvalidQueueChoice(ValueError):
    """Raised for words that ``/queue`` does not know."""


class QueueChoice(Struct, frozen=True):
    """What was chosen; None is left to the settings."""

    mode: QueueMode | None = None
    quiet: float | None = None
    cap: int | None = None

    def written(self) -> str:
        """Return the words that ``read_choice`` reads back."""
        quiet = "" if self.quiet is None else f"debounce:{self.quiet:g}s"
        cap = "" if self.cap is None else f"cap:{self.cap}"
        return " ".join(filter(None, (self.mode, quiet, cap)))


@lru_cache(maxsize=256)
def read_choice(text: str) -> QueueChoice:
    """Read what follows ``/queue``, such as ``collect debounce:2s cap:25``. Raises InvalidQueueChoice."""
    mode: QueueMode | None = None
    quiet: float | None = None
    cap: int | None = None
    for word in text.casefold().split():
        name = OLDER_NAMES.get(word, word)
        if name in MODES:
            mode = name  # type: ignore[assignment]
        elif (found := re.fullmatch(r"debounce[:=](\d{1,6}(?:\.\d{1,3})?)(ms|s)?", word)) is not None:
            quiet = float(found[1]) / (1 if found[2] == "s" else 1000)
        elif (found := re.fullmatch(r"cap[:=](\d{1,4})", word)) is not None:
            cap = int(found[1])
        elif (
            re.fullmatch(r"drop[:=](none|old|new|summarize)", word) is None
        ):  # understood, as in the settings, and without effect
            raise InvalidQueueChoice(f"“{word[:40]}” is no way to queue.")
    if (quiet or 0) > MOST_SECONDS or cap == 0 or (cap or 0) > MOST_TOGETHER:
        raise InvalidQueueChoice(f"A wait is at most {MOST_SECONDS:.0f} s, and a turn answers 1 to {MOST_TOGETHER} messages.")
    return QueueChoice(mode, quiet, cap)
