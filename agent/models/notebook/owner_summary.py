"""The notebook's summary of a history: what the owner said, line by line, without small talk."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.messages import Message, UserMessage
from agent.models.notebook.intents import Show, Talk, owner_text, understand, without_stamp
from agent.models.notebook.reminders import Reminders
from agent.said_words import said_words
from agent.transcript.history_view import SUMMARY_HEAD

_SPEAKER = re.compile(r"^(Person|Agent(?: calls [^:\n]*)?|Result of [^:\n]*): ", re.MULTILINE)
_HEAD = "## Exact details: what the owner said, in order"
_FORMER_HEAD = "The owner said, in order"
_LINES = 40
_WIDTH = 240


def summary_of(messages: Sequence[Message]) -> str:
    """What the owner said, in short lines, newest last: the summary of a notebook."""
    heard = [text for message in messages[:-1] if isinstance(message, UserMessage) for text in _told_in(message.text)]
    texts = [text for text in heard if _worth_keeping(text)] or _quoted(messages[-1].text)
    lines = [line.strip().removeprefix("- ") for text in texts for line in text.splitlines()]
    kept = [line[:_WIDTH] for line in lines if line and not line.startswith((SUMMARY_HEAD, _HEAD, _FORMER_HEAD))]
    body = "\n".join(f"- {line}" for line in list(dict.fromkeys(kept))[-_LINES:])
    return f"{_HEAD} (an extract made without a language model):\n\n{body or '- (nothing that lasts)'}"


def _told_in(message: str) -> list[str]:
    """Return what a message says, and the words of others that it brings, with whose they are."""
    words = said_words(without_stamp(message))
    return [words.own, *(one.text for one in words.edits), *("\n".join(one.lines) for one in words.brought)]


def _worth_keeping(text: str) -> bool:
    intent = understand(text)
    return not isinstance(intent, Show | Talk | Reminders) or intent == Talk("beyond")


def _quoted(order: str) -> list[str]:
    """What people say in a conversation that is quoted in the order itself, and the summary so far."""
    so_far, found, _ = order.partition("Conversation to be added:")
    earlier = [line for line in so_far.splitlines() if line.startswith("- ")] if found else []
    speeches = _SPEAKER.split(order.partition("</conversation>")[0])
    people = [owner_text(speech) for name, speech in zip(speeches[1::2], speeches[2::2], strict=True) if name == "Person"]
    return [*earlier, *(text for text in people if _worth_keeping(text))]
