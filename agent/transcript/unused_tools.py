"""Detects a model that does not call tools: it claims to have noted something, and nothing was written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.messages import AssistantMessage, is_of_a_person
from agent.transcript.entries import Entry, Said

ENOUGH = 2
"""How many messages that need a tool say it."""
_NEEDS_A_TOOL = re.compile(
    r"\b(?:remember (?:that|this|my|:)|remind me|(?:write|note|put|save) (?:that|this|it|down|into|in)\b|make a note|look (?:it |that )?up"
    r"|search (?:for|my|your|the)|read (?:the file|my|your)|send me the file|what did i (?:say|tell)"
    r"|merk(?:e)? dir|erinner(?:e)? mich|notier(?:e)?|schreib (?:das|dir|auf)|such(?:e)? (?:nach|in)|lies (?:die|meine|deine))",
    re.IGNORECASE,
)


def asked_in_vain(entries: Iterable[Entry], model: str) -> int:
    """Return how many messages asked ``model`` for what needs a tool, if it called none at all and there were ``ENOUGH``; else 0."""
    asked, waiting = 0, False
    for entry in entries:
        if not isinstance(entry.body, Said):
            continue
        message = entry.body.message
        if is_of_a_person(message):
            waiting = bool(_NEEDS_A_TOOL.search(message.text))
        elif isinstance(message, AssistantMessage) and message.model == model:
            if message.calls:
                return 0
            asked += waiting and message.failure is None
            waiting = False
    return asked if asked >= ENOUGH else 0
