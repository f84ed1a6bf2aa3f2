"""Urgent slash commands, which bypass the queue: they work during a turn and without a model."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from channels.errors import NotSent, Uncertain
from channels.live import Done
from channels.messages import Button, ChatAddress, Inbound, Outbound
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.decisions import CHOICES, USAGE, Decisions
from gateway.base.errors import StorageFailed, for_chat
from gateway.command_handlers.rights import CommandRights
from gateway.command_handlers.stopping import Stopping
from gateway.commands.table import COMMANDS, ParsedCommand, says_stop
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import InboxRow, NewOutbound, OutboxRow
from gateway.outbound.progress import show_frame
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue
from gateway.queue.steering import RunningTurn
from gateway.routing.access import Actor
from gateway.routing.routed_message import RoutedMessage, UnreadableMessage, decode_message, words_of
from gateway.routing.router import Route
from gateway.sandbox.protocol import Standing
from gateway.sessions.sessions_file import SessionRecord

log = logging.getLogger(__name__)


async def _no_lines(agent: RunningAgent) -> Sequence[str]:
    del agent
    return ()


FurtherCommand: TypeAlias = "Callable[[str, RoutedMessage], Awaitable[tuple[str, Sequence[Button]]]]"
"""Runs a command with its argument, and returns the reply with its buttons. It may be called twice for one message."""


class UrgentCommands:
    """``/stop``, ``/status``, ``/queue``, ``/missed``, ``/approve``, ``/resume``.

    All but the last two, and ``/stop all``, affect only the sender's session.

    ``further`` finds the urgent commands of other parts by name; ``status_lines`` returns what ``/status`` says of them, and
    ``group_lines`` what it says of a group. ``gateway`` returns the name of this one, "" where it is alone.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        lanes: Lanes[Any],
        agents: Mapping[str, RunningAgent],
        channel: Callable[[ChatAddress], Channel],
        resume: Callable[[], Awaitable[dict[str, Any]]],
        gateway: Callable[[], str],
        queue: MessageQueue,
        running: Mapping[str, RunningTurn],
        rights: CommandRights,
        confined: Callable[[str], Standing | None],
        decisions: Decisions,
        stopping: Stopping,
        further: Callable[[str], FurtherCommand | None] = lambda _: None,
        status_lines: Callable[[RunningAgent], Awaitable[Sequence[str]]] = _no_lines,
        group_lines: Callable[[ChatAddress], Sequence[str]] = lambda _: (),
    ) -> None:
        self._group_lines = group_lines
        self._further = further
        self._status_lines = status_lines
        self._decisions = decisions
        self._stopping = stopping
        self._rights = rights
        self._confined = confined
        self._ledger = ledger
        self._lanes = lanes
        self._agents = agents
        self._channel = channel
        self._resume = resume
        self._gateway = gateway
        self._queue = queue
        self._running = running

    async def run(self, message: RoutedMessage) -> bool:
        """Run a message that ``may_be_urgent`` if it is an urgent command; return whether it was one.

        May be called twice for one message after a crash.
        """
        inbound, actor, route = message.inbound, message.actor, message.route
        is_stop_word = says_stop(inbound.text) and await self._stopping.possible(route.session)
        command = (COMMANDS["stop"], "") if is_stop_word else message.command
        if command is None or not command[0].urgent:
            return False
        place, stops = inbound.conversation, command[0].name == "stop"
        allowed = (
            (actor.owner or command[1].casefold() != "all") and self._may_stop(route.session, place, actor)
            if stops
            else self._rights.may(command[0], command[1], place, actor)
        )
        if not allowed and is_stop_word:  # a mere word, by somebody who cannot stop this: it is a message
            return False
        buttons: Sequence[Button] = ()
        if not allowed:
            reply = self._rights.refusal(command[0], place)
        elif further := self._further(command[0].name):
            reply, buttons = await further(command[1], message)
            buttons = buttons if self._rights.may_change(command[0], place, actor) else ()
        elif command[0].name == "queue":
            if self._agents[route.agent].store.get(route.session) is None:  # the lane makes the session first
                return False
            reply = await self._choose_mode(inbound, route, command[1])
        else:
            reply = await self._reply(command, message)
        reply = for_chat(reply)
        pieces = self._channel(inbound.conversation).chunks(reply)
        uid = message.row.uid
        chunks = [NewOutbound(conversation=place, text=piece, key=f"{uid}.u.{n}") for n, piece in enumerate(pieces)]
        chunks = [*chunks[:-1], *(replace(one, buttons=tuple(buttons)) for one in chunks[-1:])]
        try:
            await self._ledger.outbox.enqueue(chunks)
        except StorageFailed as error:
            log.warning("a reply could not be queued, sending it directly: %s", error)
            await self._say_at_once(inbound.conversation, pieces)
        self._done(inbound, route, reply, len(pieces))
        return True

    async def may_stop(self, session: str, place: ChatAddress, actor: Actor) -> bool:
        """Return whether something works in a session that ``actor`` may stop."""
        return await self._stopping.possible(session) and self._may_stop(session, place, actor)

    def _may_stop(self, session: str, place: ChatAddress, actor: Actor) -> bool:
        return self._rights.may_stop(self._running.get(session), place, actor, self._queue.stopped_with(session))

    async def stop_unstored(self, inbound: Inbound, route: Route) -> None:
        """Stop the running turn and reply, although nothing can be stored."""
        reply = await self._stopping.at_once(route.session)
        await self._say_at_once(inbound.conversation, [reply])
        self._done(inbound, route, reply, 1)

    async def _say_at_once(self, place: ChatAddress, pieces: Sequence[str]) -> None:
        """Send without the outbox: one attempt, without retries if the outcome is unknown."""

        async def forget(_text: str) -> None:
            """Nothing can be stored for it."""

        channel = self._channel(place)
        for piece in pieces:
            try:
                await channel.send(Outbound(key=secrets.token_hex(10), conversation=place, text=piece), forget)
            except (NotSent, Uncertain) as error:
                log.warning("a reply could not be sent: %s", error)
                return

    async def _choose_mode(self, inbound: Inbound, route: Route, argument: str) -> str:
        from gateway.command_handlers.session_commands import choose

        store = self._agents[route.agent].store
        text = await choose(store, route.session, argument)
        return text or self._queue.describe(route.session, inbound.conversation.channel)

    async def _reply(self, command: ParsedCommand, message: RoutedMessage) -> str:
        name, inbound, route, actor = command[0].name, message.inbound, message.route, message.actor
        if name == "stop":
            return await self._stop(command[1], message)
        if name == "missed":
            owners = actor.owner and inbound.conversation.kind == "direct"
            return await bring_missed(self._ledger, inbound.conversation.address, named=owners)
        if name == "approve":
            return await self._decided(command[1], message)
        if name == "resume":
            if not actor.owner:
                return "Only my owner can use this command."
            return _resumed(await self._resume())
        return await self._status(inbound, route)

    async def _stop(self, argument: str, message: RoutedMessage) -> str:
        if argument.casefold() == "all":
            return await self._stopping.everything(message.route.session)
        everything = self._rights.may_withdraw(message.inbound.conversation, message.actor)
        return await self._stopping.session(message.route.session, all_of_it=everything)

    async def _decided(self, argument: str, message: RoutedMessage) -> str:
        """Decide a question, for an owner; anybody else is told that they cannot."""
        if not message.actor.owner:
            return "Only my owner can decide this."
        name, _, choice = argument.partition(" ")
        wanted = choice.strip().casefold() or "once"
        if not name:
            return await self._decisions.open_questions()
        if wanted not in CHOICES:
            return f"“{wanted[:40]}” is no answer to a question. {USAGE}"
        try:
            return await self._decisions.decide(name, wanted, message.row.uid)
        except StorageFailed as error:
            return f"💾 Nothing was decided, because it could not be stored ({error}). Answer again in a moment. {error.hint}".strip()

    async def stop_session(self, session: str) -> None:
        """Stop what runs in a session, at a client's request without a message."""
        await self._stopping.turn(session)

    async def _status(self, inbound: Inbound, route: Route) -> str:
        from agent.context.context_budget import short
        from agent.transcript.unused_tools import asked_in_vain
        from gateway.agents.running_agent import in_zone
        from gateway.command_handlers.session_commands import counted, flushed

        agent = self._agents[route.agent]
        record = agent.store.get(route.session)
        tally = await self._ledger.tally()
        lines = [f"**{agent.profile.name}** · session `{route.session}`"]
        if record is not None:
            conversation = await agent.conversations.inspect(record, route.audience)
            size, window = conversation.tokens(), conversation.window
            lines += [
                f"- Model: {conversation.model.name}{_chosen(record)}",
                f"- Context: {short(size)} of {short(window.size)} tokens ({100 * size / window.size:.0f} %)",
                *([f"- ⚠️ {conversation.too_small}"] if conversation.too_small else []),
                f"- Memory is {flushed(conversation.flush_obstacle, window.flush_at)}"
                + (f"; last: {in_zone(record.last_flush, agent.zone)}" if record.last_flush else ""),
                f"- Session since {record.started.astimezone(agent.zone):%a %d %b %H:%M}: {counted(record.turns, 'turn')}",
                f"- 🧹 Compactions: {record.compactions}",
            ]
            if vain := asked_in_vain(conversation.transcript.entries, conversation.model.name):
                lines.append(
                    f"- ⚠️ {conversation.model.name} has called no tool here, although {counted(vain, 'message')} "
                    "needed one: it may not support tools, and nothing was written or looked up. Choose another "
                    "model with /model."
                )
        if inbound.conversation.kind == "group":
            lines += self._group_lines(inbound.conversation)
        ahead = self._lanes.queued(route.session)
        lines += self._at_work(agent, route)
        lines += self._commands(route.agent)
        if route.audience.kind == "owner":
            lines += await self._status_lines(agent)
        lines.append(f"- Queue: {self._queue.describe(route.session, inbound.conversation.channel)}")
        waiting = max(tally.waiting - 1, 0)  # the question itself is in the inbox until it is answered
        lines.append(f"- Running: {counted(tally.running, 'turn')}, {ahead} waiting here, {waiting} in total{self._at()}")
        if tally.suspended:
            lines.append(
                f"- 🔐 Waiting for my owner's approval: {counted(tally.suspended, 'turn')} (/approve lists the questions)"
            )
        return "\n".join(lines)

    def _at(self) -> str:
        """Name this gateway, where it is one of several that share the work."""
        name = self._gateway()
        return f" at {name} (`homebody status`: at all gateways)" if name else ""

    def _commands(self, agent: str) -> list[str]:
        """Say how commands are confined where that is not as well as it could be."""
        standing = self._confined(agent)
        if standing is None or not standing.reason:
            return []
        if not standing.usable:
            return [f"- ⚠️ Commands cannot run: {standing.reason}"]
        if standing.rung == "off":
            return [f"- ⚠️ Commands are not confined, so I ask about every one: {standing.reason}"]
        return [f"- Commands are confined by {'bubblewrap' if standing.rung == 'bwrap' else 'Landlock'}: {standing.reason}"]

    def _at_work(self, agent: RunningAgent, route: Route) -> list[str]:
        """Format the progress of the running turn and the limits of a turn."""
        limits = agent.profile.settings.limits
        running = self._running.get(route.session)
        if running is None or running.turn is None:
            brakes = f"{limits.max_tool_calls} tool calls and {limits.timeout_seconds:g} s"
            return [f"- A turn: at most {brakes}, {limits.max_repeats} identical calls with the same result"]
        let_in = f", {len(running.steered)} added during the turn" if running.steered else ""
        again = f", {running.turn.repeats} rejected as repeats" if running.turn.repeats else ""
        return [f"- Current turn: {running.turn.tool_calls} of {limits.max_tool_calls} tool calls so far{again}{let_in}"]

    def _done(self, inbound: Inbound, route: Route, reply: str, chunks: int) -> None:
        facts = {"reply": reply, "agent": route.agent, "sessionKey": route.session, "chunks": chunks, "exit": 0}
        show_frame(self._channel(inbound.conversation), inbound.conversation, Done("", inbound.message_id, facts))


def _chosen(record: SessionRecord) -> str:
    """Format the conversation's own choices and the fallback model, if one answered."""
    return "".join(
        [
            " (chosen for this conversation)" if record.model else "",
            f", thinking: {record.thinking}" if record.thinking else "",
            f"; {record.fallback_of} answered last, as its fallback" if record.fallback_of else "",
        ]
    )


MOST_NAMED: Final = 10
SHOWN: Final = 80
MOST_REFUSED: Final = 5
LONGEST_REFUSED: Final = 1000
_UNSURE: Final = (
    "My database was damaged, so I do not know whether I answered {count}. Please send again what still needs an answer:"
)


async def bring_missed(ledger: Ledger, conversation: str, *, named: bool) -> str:
    """Resend what a conversation missed, and return the reply. Raises StorageFailed.

    A message with unknown state is only listed: answering it again could repeat its effects. ``named``: in the owner's own chat, what
    platforms refused elsewhere, or here twice, is in the reply.
    """
    from gateway.command_handlers.session_commands import counted

    sent = await ledger.outbox.revive_expired(conversation, named=named)
    unsure, refused = await ledger.inbox.in_doubt(conversation), await ledger.outbox.refused(conversation) if named else []
    lines = [f"📬 {counted(sent, 'message')} that had not reached you, or may not have."] if sent else []
    if unsure:
        lines.append("\n".join([_UNSURE.format(count=counted(len(unsure), "message")), *map(_named, unsure[-MOST_NAMED:])]))
    lines += [_refused(row) for row in refused[-MOST_REFUSED:]]
    if more := len(refused) - MOST_REFUSED:
        lines += [f"{counted(more, 'earlier message')} that were refused: `homebody outbox list`"] if more > 0 else []
    return "\n\n".join(lines) or "There are no missed replies here."


def _refused(row: OutboxRow) -> str:
    text = row.text or (row.enclosure.shown if row.enclosure is not None else "")
    short = text if len(text) <= LONGEST_REFUSED else text[: LONGEST_REFUSED - 1].rstrip() + "…"
    return f"Message {row.id} to {row.conversation.address} was refused ({row.reason}):\n{short}"


def _named(row: InboxRow) -> str:
    try:
        text = " ".join(words_of(decode_message(row)[0]).split())
    except UnreadableMessage:
        text = "(no longer readable)"
    return f"- {text if len(text) <= SHOWN else text[: SHOWN - 1].rstrip() + '…'}"


def _resumed(found: Mapping[str, Any]) -> str:
    if still := found.get("still"):
        return "⏸️ Still paused: " + " ".join(still)
    return "▶️ Resumed." if found["was"] else "I am not paused."
