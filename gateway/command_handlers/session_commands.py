"""Handlers of slash commands that run in a session's queue (``gateway.commands.table`` lists all commands)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agent.context.context_budget import report, short
from agent.context.context_report import ContextReport, Explanation, context_report, explain
from agent.models.protocol import ToolSpec
from agent.tools.protocol import needs_of
from gateway.agents.running_agent import RunningAgent
from gateway.budget.cost_words import WEEK, amount, hour_cache_line
from gateway.budget.usage_report import facts as usage_facts
from gateway.budget.usage_report import usage_table as usage_told
from gateway.command_handlers.model_commands import ModelCommands
from gateway.command_handlers.rights import CommandRights
from gateway.commands.table import COMMANDS, told_unknown
from gateway.queue.message_queue import MEANT, TOLD, InvalidQueueChoice, read_choice
from gateway.routing.routed_message import RoutedMessage
from gateway.sessions.protocol import SessionStore
from gateway.sessions.sessions_file import SessionRecord
from gateway.tools.registry import OWN, OfferedTool

MOST_DAYS = 400
_YES, _NO = frozenset({"on", "yes", "true", "1", "full"}), frozenset({"off", "no", "false", "0"})
_TABLE = frozenset({"", "tokens", "full", "cost"})


VOICE = {
    "": "Answers in this conversation are spoken as the settings say (messages.tts.auto).",
    "on": "My answers in this conversation are also spoken, where a server for that is set (messages.tts).",
    "off": "My answers in this conversation are not spoken.",
}
"""What is said of the choice of ``/voice``."""


class SessionCommands:
    """Runs one command for one session and returns the reply.

    A command may run twice for one message (after a restart); all are idempotent.
    """

    def __init__(self, agent: RunningAgent, arrived: RoutedMessage, record: SessionRecord, rights: CommandRights) -> None:
        self._agent = agent
        self._rights = rights
        self._arrived = arrived
        self._record = record
        self._models = ModelCommands(agent, arrived, record)
        self._commands: dict[str, Callable[[str], Awaitable[str]]] = {
            "help": self._help,
            "unknown": self._unknown,
            "new": self._new,
            "reset": self._new,
            "undo": self._undo,
            "compact": self._compact,
            "pin": self._pin,
            "unpin": self._unpin,
            "why": self._why,
            "context": self._context,
            "model": self._models.model,
            "models": self._models.models,
            "think": self._models.think,
            "reasoning": self._models.reasoning,
            "verbose": self._verbose,
            "voice": self._voice,
            "tools": self._tools,
            "whoami": self._whoami,
            "usage": self._usage,
            "queue": self._queue,
            "budget": self._budget,
        }

    async def run(self, name: str, argument: str) -> str:
        """Run the command. Raises KeyError for one that does not run in a queue, and the errors of the agent and the gateway."""
        command, place, actor = COMMANDS.get(name), self._arrived.inbound.conversation, self._arrived.actor
        if command is not None and not self._rights.may(command, argument, place, actor):
            return self._rights.refusal(command, place)
        return await self._commands[name](argument)

    @property
    def _is_repeat(self) -> bool:
        """Whether this message already changed the session, and only the reply was lost."""
        return self._record.made_by == self._arrived.row.uid

    async def _help(self, _: str) -> str:
        return self._rights.help(self._arrived.inbound.conversation, self._arrived.actor)

    async def _unknown(self, name: str) -> str:
        return told_unknown(name)

    async def _new(self, argument: str) -> str:
        if argument:
            argument = await self._models.resolved(argument)
        fresh = self._record
        if not self._is_repeat:
            fresh = await self._agent.renew(fresh, self._arrived.route.audience, "command", made_by=self._arrived.row.uid)
        if argument:
            await self._agent.store.change(self._record.key, model=argument)
        return " ".join(filter(None, ("🌱 New conversation.", fresh.noted, "/undo restores the previous one.")))

    async def _undo(self, _: str) -> str:
        uid = self._arrived.row.uid
        back = self._record if self._is_repeat else await self._agent.undo(self._record.key, made_by=uid)
        if back is None:
            return "There is no previous conversation to restore (they are kept for 7 days)."
        return f"↩️ Restored the conversation from {back.started.astimezone(self._agent.zone):%a %d %b, %H:%M}. /undo again switches back."

    async def _compact(self, argument: str) -> str:
        shrunk = await self._agent.compact(self._record, self._arrived.route.audience, argument)
        return f"🧹 {report(shrunk, automatic=False)}{'' if shrunk.helped else '.'}"

    async def _pin(self, argument: str) -> str:
        pins = await self._agent.pins(self._record, self._arrived.route.audience, add=argument)
        if argument:
            return f"📌 Pinned: {argument}"
        return "\n".join(["📌 Pinned:", "", *numbered(pins)]) if pins else "Nothing is pinned. `/pin <text>` pins a text."

    async def _unpin(self, argument: str) -> str:
        pins = await self._agent.pins(self._record, self._arrived.route.audience)
        number = argument.removeprefix("#")
        text = pins[int(number) - 1] if number.isdecimal() and 0 < int(number) <= len(pins) else argument
        if text not in pins:
            listed = "\n".join(["Send /unpin with one of these numbers:", "", *numbered(pins)])
            return listed if pins else "Nothing is pinned."
        await self._agent.pins(self._record, self._arrived.route.audience, remove=text)
        return f"Removed the pin: {text}"

    async def _why(self, _: str) -> str:
        conversation = await self._agent.conversations.open(self._record, self._arrived.route.audience)
        await conversation.prepare()
        found = explain(conversation)
        return "I have not answered anything in this conversation yet." if found is None else told_reasons(found)

    async def _context(self, argument: str) -> str:
        conversation = await self._agent.conversations.open(self._record, self._arrived.route.audience)
        await conversation.prepare()
        return context_text(context_report(conversation), argument.casefold())

    async def _verbose(self, argument: str) -> str:
        said = argument.casefold()
        if said and said not in _YES | _NO:
            return "Send /verbose on or /verbose off."
        wanted = said in _YES if said else not self._record.verbose
        await self._agent.store.change(self._record.key, verbose=wanted)
        return "Notices such as compactions are now shown." if wanted else "Notices such as compactions are now hidden."

    async def _voice(self, argument: str) -> str:
        said = argument.casefold()
        if said in {"", "status"}:
            return VOICE[self._record.voice] + "\n`/voice on`, `/voice off` or `/voice default` changes that."
        if said != "default" and said not in _YES | _NO:
            return "Send /voice on, /voice off or /voice default."
        wanted = "" if said == "default" else "on" if said in _YES else "off"
        await self._agent.store.change(self._record.key, voice=wanted)
        return VOICE[wanted]

    async def _tools(self, _: str) -> str:
        conversation = await self._agent.conversations.open(self._record, self._arrived.route.audience)
        specs = conversation.toolbox.specs
        if not specs:
            return "No tools: the settings under `tools` allow none in this conversation."
        offered = self._agent.conversations.rack.offered
        return "\n".join(["Tools that I can use:", "", *(_tool_line(spec, offered.get(spec.name)) for spec in specs)])

    async def _queue(self, argument: str) -> str:
        return await choose(self._agent.store, self._record.key, argument) or MEANT

    async def _usage(self, argument: str) -> str:
        if not self._arrived.actor.owner or self._agent.budget_guard is None:
            return "Only my owner can see usage and cost."
        days = 1 if argument.casefold() in _TABLE else int(argument) if argument.isdecimal() else 0
        if not 0 < days <= MOST_DAYS:
            return f"Send /usage for today, or /usage with a number of days up to {MOST_DAYS}."
        text = usage_told(usage_facts(await self._agent.budget_guard.usage(days)))
        if self._agent.profile.settings.cache_retention == "1h":
            return text
        return text + hour_cache_line(await self._agent.budget_guard.hour_cache(WEEK), WEEK)

    async def _budget(self, argument: str) -> str:
        if not self._arrived.actor.owner or self._agent.budget_guard is None:
            return "Only my owner can use this command."
        if argument.casefold() != "once":
            spent, limit = await self._agent.budget_guard.spent_today(), self._agent.budget_guard.settings.day.usd
            of = f" of {amount(limit, 'usd')} (budgets.day.usd)" if limit is not None else ""
            return (
                f"Calls of today cost {amount(spent, 'usd')}{of}; `homebody usage --budgets` has all budgets.\n\n"
                "Send `/budget once` to allow your next message, or raise the budget: `homebody config set budgets.day.usd 10`."
            )
        await self._agent.budget_guard.allow_once(self._record.key)
        return "💸 Your next message is allowed, whatever it costs."

    async def _whoami(self, _: str) -> str:
        actor, inbound = self._arrived.actor, self._arrived.inbound
        return (
            f"You are {actor.person} ({actor.role}), id `{inbound.sender.id}` on {inbound.conversation.channel}. "
            f"This is session `{self._record.key}`, heard by: {self._arrived.route.audience.kind}."
        )


def _tool_line(spec: ToolSpec, offered: OfferedTool | None) -> str:
    """Return the line of ``/tools`` about a tool: what it is for, where it comes from, and what it needs."""
    facts = [f"from {offered.provider}"] if offered is not None and offered.provider != OWN else []
    facts += [f"needs {' and '.join(needs)}"] if offered is not None and (needs := needs_of(offered.tool)) else []
    suffix = f" ({', '.join(facts)})" if facts else ""
    about = " ".join(spec.description.split()).split(". ")[0].rstrip(".")
    return f"- `{spec.name}` — {about}{suffix}."


def flushed(obstacle: str, at: int) -> str:
    """Return at which size memory is flushed, or why it is not."""
    return f"not flushed: {obstacle}" if obstacle else f"flushed at {short(at)}"


def context_text(found: ContextReport, form: str) -> str:
    """Format a context report: one line; with "list" also the parts by size, with "detail" a table of them."""
    share = 100 * found.tokens / found.window if found.window else 0
    left = "" if found.turns_left is None else f" About {found.turns_left} more turns fit until then."
    memory = flushed(found.flush_obstacle, found.flush_at)
    head = (
        f"🧮 {short(found.tokens)} of {short(found.window)} tokens ({share:.0f} %). Memory is {memory}; "
        f"history is compacted above {short(found.compact_above)}.{left}"
    )
    if found.tokens >= found.flush_at:
        head += " It will be compacted before the next answer."
    if found.prefix:
        head += f" {found.prefix}"
    if found.too_small:
        head += f"\n⚠️ {found.too_small}"
    if form == "list":
        largest = sorted(found.parts, key=lambda part: part.tokens, reverse=True)
        return "\n".join([head, "", *(f"- {part.name}: {short(part.tokens)} tokens" for part in largest)])
    if form != "detail":
        return head
    whole = sum(part.tokens for part in found.parts) or 1
    rows = [
        f"| {part.name} | {part.chars:,} | {part.tokens:,} | {100 * part.tokens / whole:.0f} % | {'yes' if part.cached else 'no'} |"
        for part in found.parts
    ]
    return "\n".join([head, "", "| part | characters | tokens (est.) | share | cached |", "|---|---:|---:|---:|---|", *rows])


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def numbered(texts: Sequence[str]) -> list[str]:
    """Format texts as a numbered list."""
    return [f"{number}. {text}" for number, text in enumerate(texts, 1)]


def told_reasons(found: Explanation) -> str:
    """Format the sources of an answer."""
    lines = ["My last answer was based on:", ""]
    lines += [f"- File {one.name}: {counted(one.lines, 'line')}{' (cut)' if one.cut else ''}" for one in found.files]
    lines += [
        f"- Note {one.name}: {counted(one.lines, 'line')}{' (cut)' if one.cut else ''}, given at the start"
        for one in found.notes
    ]
    lines += [f"- Pinned: {pin}" for pin in found.pins]
    if found.summary:
        lines.append(f"- A summary of what came before {found.summary}")
    for looked in found.looked:
        hits = [f"{place}{'' if score is None else f' ({score:.2f})'}" for place, score in looked.hits]
        told_hits = f": {', '.join(hits) or 'nothing found'}" if looked.tool == "memory_search" else ""
        lines.append(f"- {looked.tool} “{looked.query}”{told_hits}")
    if not found.looked:
        lines.append("- No searches.")
    return "\n".join(lines)


BACK = frozenset({"default", "reset", "inherit"})


async def choose(store: SessionStore, session: str, argument: str) -> str:
    """Apply the argument of ``/queue`` and return the reply; "" without an argument.

    Raises:
        StorageFailed: the choice could not be stored.
    """
    if not argument:
        return ""
    if argument.casefold() in BACK:
        await store.change(session, queue="")
        return "This conversation uses the queue mode from the settings."
    try:
        choice = read_choice(argument)
    except InvalidQueueChoice as error:
        return f"{error} {MEANT}"
    await store.change(session, queue=choice.written())
    meaning = f": {TOLD[choice.mode]}" if choice.mode else ""
    return f"📥 {choice.written() or 'Queue mode from the settings'}{meaning}."
