"""What is kept of the turn that started a sub-agent: where its result goes, and by which rules it is answered there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from channels.messages import ChatAddress
from gateway.ledger.values import as_conversation
from gateway.routing.routed_message import Automation, automation_from_json, automation_to_json
from memory.audience import Audience

_UNKNOWN: Final = ("subagent:unknown",)
"""What an earlier version did not record counts as untrusted."""


class OriginTurn(Struct, frozen=True, kw_only=True):
    """The turn that started a sub-agent.

    ``agent`` is the agent of its session and ``place`` the conversation that it answers. ``result`` are the rules of the message that
    brings the result. ``task`` is the beginning of the task, for people and for the head of the result. ``sources`` are those of the
    untrusted text that the turn had in view, which may be behind the task and the label.
    """

    agent: str
    place: ChatAddress
    audience: Audience
    result: Automation
    task: str
    sources: tuple[str, ...] = ()

    def encoded(self) -> str:
        """Return it as JSON."""
        written = {
            "agent": self.agent,
            "place": {name: value for name, value in asdict(self.place).items() if value is not None},
            "audience": asdict(self.audience),
            "result": automation_to_json(self.result),
            "task": self.task,
            "sources": list(self.sources),
        }
        return json.dumps(written, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def decoded(cls, payload: str) -> OriginTurn:
        """Read back what ``encoded`` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        raw: Mapping[str, Any] = json.loads(payload)
        return cls(
            agent=raw["agent"],
            place=as_conversation(raw["place"]),
            audience=Audience(**raw["audience"]),
            result=automation_from_json(raw["result"]),
            task=raw["task"],
            sources=tuple(map(str, raw.get("sources", _UNKNOWN))),
        )


def label_sources(payload: str) -> tuple[str, ...]:
    """Return the sources of untrusted text that may be behind the label of a sub-agent with this record."""
    try:
        return OriginTurn.decoded(payload).sources
    except (KeyError, TypeError, ValueError):
        return _UNKNOWN
