"""Slash commands: one table for all channels, read by whoever parses, lists or completes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Urgent ones go around the lane of their session, so that they work while a turn runs."""

    name: str
    help: str
    argument: str = ""
    urgent: bool = False


COMMANDS = {
    command.name: command
    for command in (
        Command("help", "what you can say to me"),
        Command("status", "how I am: model, context, what is under way", urgent=True),
        Command("stop", "stop what I am doing now", urgent=True),
        Command("new", "start a fresh conversation; what matters is written down first", "[model]"),
        Command("reset", "the same as /new"),
        Command("undo", "bring back the conversation before the last /new or reset (for 7 days)"),
        Command("compact", "summarise the older part of this conversation", "[what to dwell on]"),
        Command("context", "what fills my window", "[list|detail]"),
        Command("model", "show or change the model of this conversation", "[provider/model|default]"),
        Command("verbose", "show or hide notices such as compactions", "[on|off]"),
        Command("tools", "what I can use"),
        Command("whoami", "who you are to me"),
    )
}
HELP = "\n".join(
    ["What you can say to me, besides anything else:", ""]
    + [f"- `/{c.name}{' ' + c.argument if c.argument else ''}` — {c.help}" for c in COMMANDS.values()]
)


def parse(text: str) -> tuple[Command, str] | None:
    """Return the command that a message is, with its argument; None when it is none of ours.

    ``/name@bot argument`` is understood, as some platforms write it in groups. What merely begins with a slash is a message.
    """
    head, _, argument = text.strip().partition(" ")
    if not head.startswith("/"):
        return None
    name = head[1:].partition("@")[0].casefold()
    command = COMMANDS.get(name)
    return (command, argument.strip()) if command else None
