"""The table of slash commands, for parsing, help, menus and completion on all channels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from channels.protocol import MenuEntry


class Command(Struct, frozen=True):
    """One command. Urgent ones bypass the session's queue, so that they work while a turn runs."""

    name: str
    help: str
    argument: str = ""
    urgent: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible arguments, if there is a fixed list."""
        words = self.argument.strip("[]").split("|")
        return tuple(word for word in words if word.isalpha() and (len(words) > 1 or self.argument.isalpha()))


COMMANDS = {
    command.name: command
    for command in (
        Command("help", "list all commands"),
        Command("status", "show my status: model, context, running and waiting messages", urgent=True),
        Command("stop", "stop the current task with what it started; all: everything that works", "[all]", urgent=True),
        Command("agents", "show what works now: conversations and sub-agents", "[stop ID]", urgent=True),
        Command(
            "queue",
            "what happens to messages you send while I'm busy",
            "[collect|steer|followup|interrupt|default]",
            urgent=True,
        ),
        Command("activation", "show or set when I answer in this group", "[mention|always|off|default]", urgent=True),
        Command(
            "memory", "show my notes about this conversation; ask to forget your words", "[forget me|forget WORDS]", urgent=True
        ),
        Command("missed", "send replies that could not be delivered earlier", urgent=True),
        Command("approve", "answer a question of mine about what I may do", "<id> <once, always or deny>", urgent=True),
        Command("jobs", "list reminders and jobs; run, pause or remove one", "[id]", urgent=True),
        Command("todo", "show what is to be done, or change it", "[add TEXT|done N]", urgent=True),
        Command("skills", "show my skills; approve one as it is now", "[approve NAME]", urgent=True),
        Command("mcp", "show MCP servers; approve what one offers now", "[server]", urgent=True),
        Command("resume", "resume after I paused myself", urgent=True),
        Command("new", "start a new conversation; important facts are saved to memory first", "[model]"),
        Command("reset", "same as /new"),
        Command("undo", "restore the conversation before the last /new or reset (kept for 7 days)"),
        Command("compact", "summarise the older part of this conversation", "[what to focus on]"),
        Command("pin", "keep a text in the context across summaries; without a text, list the pins", "[what]"),
        Command("unpin", "remove a pin by its number", "<number>"),
        Command("why", "show what my last answer was based on: notes, files, pins, searches"),
        Command("context", "show what fills my context window", "[list|detail]"),
        Command("model", "show or change the model of this conversation", "[provider/model|default]"),
        Command("models", "list the available models", "[provider]"),
        Command(
            "think",
            "show or set how much the model thinks in this conversation",
            "[off|minimal|low|medium|high|xhigh|adaptive|default]",
        ),
        Command("reasoning", "show or hide the model's thinking", "[on|off]"),
        Command("verbose", "show or hide notices such as compactions", "[on|off]"),
        Command("voice", "show or set whether my answers are also spoken in this conversation", "[on|off|default]"),
        Command("tools", "list the tools that I can use"),
        Command("usage", "show usage and cost by day, agent and model", "[days]"),
        Command("budget", "allow one message although today's budget is used up", "once"),
        Command("whoami", "show your identity and rights"),
    )
}
ParsedCommand = tuple[Command, str]
"""A command and its argument."""
UNKNOWN = Command("unknown", "a mistyped command")
_CLOSE = 0.66
"""Similarity (0 to 1) from which a name counts as mistyped: two letters of three are right."""
_MESSAGES = frozenset({"start"})
"""Texts with a slash that are messages, not commands: Telegram sends ``/start`` when a chat is opened."""
OTHER_NAMES = {"commands": "help", "id": "whoami"}
STOP_WORDS = frozenset({"stop", "abort", "esc", "wait", "exit", "quit", "interrupt"})
"""Words that mean ``/stop`` while a turn runs, if the message has no other words."""
MENU = tuple(MenuEntry(name=c.name, help=c.help, argument=c.argument) for c in COMMANDS.values())
"""The command menu of channels that have one."""


def help_of(commands: Iterable[tuple[Command, bool]]) -> str:
    """Return the help text for commands; the bool says whether to show the command's argument."""
    lines = [f"- `/{c.name}{' ' + c.argument if full and c.argument else ''}` — {c.help}" for c, full in commands]
    return "\n".join(["Commands (anything else is a message to me):", "", *lines])


def says_stop(text: str, words: Collection[str] = STOP_WORDS) -> bool:
    """Whether a message is only a stop word."""
    return text.strip().rstrip("!. ").casefold() in words


def orders_stop(text: str) -> bool:
    """Whether a message that names nobody is ``/stop`` and nothing else: it is heard in a group without the bot's name."""
    return " ".join(text.casefold().split()) in {"/stop", "/stop all"}


def parse(text: str, triggers: Sequence[str] = ()) -> ParsedCommand | None:
    """Return the command and argument of a message; None if it is not a command.

    ``/name@bot argument`` is accepted, as some platforms write it in groups. A mistyped name close to a known one is the command
    ``unknown`` with the typed name as argument. Other texts with a slash (a path, say) are messages. ``triggers``: the owner's own
    words for ``/new``, alone or before the name of a model; an urgent command goes before them.
    """
    bare = text.strip()
    head, _, argument = bare.partition(" ")
    name = head[1:].partition("@")[0].casefold() if head.startswith("/") else ""
    command = COMMANDS.get(OTHER_NAMES.get(name, name))
    for wanted in map(str.strip, triggers if command is None or not command.urgent else ()):
        if wanted and bare.casefold().startswith(wanted.casefold()) and bare[len(wanted) : len(wanted) + 1] in {"", " "}:
            return COMMANDS["new"], bare[len(wanted) :].strip()
    if command is None:
        return (UNKNOWN, name) if name and nearest(name) else None
    return command, argument.strip()


def nearest(name: str) -> str:
    """Return the command closest to a mistyped name, or ""."""
    from difflib import get_close_matches

    near = (
        get_close_matches(name, [*COMMANDS, *OTHER_NAMES], n=1, cutoff=_CLOSE)
        if name.isalpha() and name not in _MESSAGES
        else []
    )
    return near[0] if near else ""


def told_unknown(name: str) -> str:
    """Return the reply to an unknown command, with a suggestion."""
    return f"There is no command /{name}. Did you mean /{nearest(name)}? /help lists them all."
