"""Slash commands: one table for all channels, read by whoever parses, lists or completes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from channels.protocol import MenuEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Urgent ones go around the lane of their session, so that they work while a turn runs."""

    name: str
    help: str
    argument: str = ""
    urgent: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that may stand as its argument, where they are known."""
        words = self.argument.strip("[]").split("|")
        return tuple(word for word in words if word.isalpha() and (len(words) > 1 or self.argument.isalpha()))


COMMANDS = {
    command.name: command
    for command in (
        Command("help", "what you can say to me"),
        Command("status", "how I am: model, context, what is under way", urgent=True),
        Command("stop", "stop what I am doing now", urgent=True),
        Command(
            "queue",
            "what becomes of messages that you send while I work",
            "[collect|steer|followup|interrupt|default]",
            urgent=True,
        ),
        Command("missed", "send what could not reach you in time", urgent=True),
        Command("resume", "let me work again after I paused myself", urgent=True),
        Command("new", "start a fresh conversation; what matters is written down first", "[model]"),
        Command("reset", "the same as /new"),
        Command("undo", "bring back the conversation before the last /new or reset (for 7 days)"),
        Command("compact", "summarise the older part of this conversation", "[what to dwell on]"),
        Command("pin", "keep something in sight through all summaries; alone it lists what is pinned", "[what]"),
        Command("unpin", "take a pin off, by its number", "<number>"),
        Command("why", "what my last answer rested on: notes, files, pins, searches"),
        Command("context", "what fills my window", "[list|detail]"),
        Command("model", "show or change the model of this conversation", "[provider/model|default]"),
        Command("models", "which models there are", "[provider]"),
        Command(
            "think", "how deep the model thinks in this conversation", "[off|minimal|low|medium|high|xhigh|adaptive|default]"
        ),
        Command("reasoning", "show or hide what the model thought", "[on|off]"),
        Command("verbose", "show or hide notices such as compactions", "[on|off]"),
        Command("tools", "what I can use"),
        Command("usage", "what I cost, by day, agent and model", "[days]"),
        Command("budget", "let one message through although the day's budget is used up", "once"),
        Command("whoami", "who you are to me"),
    )
}
ParsedCommand = tuple[Command, str]
"""A command and its argument."""
UNKNOWN = Command("unknown", "a mistyped command")
_CLOSE = 0.66
"""Similarity (0 to 1) from which a name counts as mistyped: two letters of three are right."""
_MESSAGES = frozenset({"start"})
"""Begin with a slash and are messages all the same: Telegram sends ``/start`` when a chat is opened."""
OTHER_NAMES = {"commands": "help", "id": "whoami"}
STOP_WORDS = frozenset({"stop", "abort", "esc", "wait", "exit", "quit", "interrupt"})
"""Words that mean ``/stop`` while a turn runs, when they are all that is said."""
MENU = tuple(MenuEntry(name=c.name, help=c.help, argument=c.argument) for c in COMMANDS.values())
"""What channels with a menu offer."""


def help_of(commands: Iterable[tuple[Command, bool]]) -> str:
    """Tell of commands, each with whether its argument is told of too."""
    lines = [f"- `/{c.name}{' ' + c.argument if full and c.argument else ''}` — {c.help}" for c, full in commands]
    return "\n".join(["What you can say to me, besides anything else:", "", *lines])


def says_stop(text: str) -> bool:
    """Whether a message is nothing but a word that asks to stop."""
    return text.strip().rstrip("!. ").casefold() in STOP_WORDS


def parse(text: str, triggers: Sequence[str] = ()) -> ParsedCommand | None:
    """Return the command that a message is, with its argument; None when it is none of ours.

    ``/name@bot argument`` is understood, as some platforms write it in groups. A mistyped name that is close to one of ours is
    the command ``unknown``, with what was typed as its argument. What else begins with a slash is a message (a path, say).
    ``triggers`` are the owner's own words for ``/new``, alone or before the name of a model.
    """
    for trigger in triggers:
        bare, wanted = text.strip(), trigger.strip()
        if wanted and bare.casefold().startswith(wanted.casefold()) and bare[len(wanted) : len(wanted) + 1] in {"", " "}:
            return COMMANDS["new"], bare[len(wanted) :].strip()
    head, _, argument = text.strip().partition(" ")
    if not head.startswith("/"):
        return None
    name = head[1:].partition("@")[0].casefold()
    command = COMMANDS.get(OTHER_NAMES.get(name, name))
    if command is None:
        return (UNKNOWN, name) if nearest(name) else None
    return command, argument.strip()


def parse_with_triggers(text: str, triggers: Sequence[str]) -> ParsedCommand | None:
    """Return the command that a message to an agent with these triggers is. An urgent command goes before any trigger."""
    command = parse(text)
    return command if not triggers or (command is not None and command[0].urgent) else parse(text, triggers)


def nearest(name: str) -> str:
    """Return the command that a mistyped name most likely means, or "" where none is close."""
    from difflib import get_close_matches

    near = (
        get_close_matches(name, [*COMMANDS, *OTHER_NAMES], n=1, cutoff=_CLOSE)
        if name.isalpha() and name not in _MESSAGES
        else []
    )
    return near[0] if near else ""


def told_unknown(name: str) -> str:
    """Say that there is no such command, and which one may be meant."""
    return f"There is no command /{name}. Did you mean /{nearest(name)}? /help lists them all."
