"""The answer to a request in OpenAI's form: as one object, or in pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DONE: Final = b"data: [DONE]\n\n"
WAITING: Final = b": waiting\n\n"
"""A comment, which keeps a connection open and is ignored by whoever reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One answer. ``id`` follows from the message, so that a repeat of the request has the same."""

    id: str
    model: str
    created: int

    def whole(self, text: str, activity: str, usage: Mapping[str, Any], *, stopped: bool = False) -> dict[str, Any]:
        """Return the answer as one object. ``stopped``: its turn was stopped before the end."""
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if activity:
            message["reasoning_content"] = activity
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(stopped=stopped)}
        return self._head("chat.completion") | {"choices": [choice], "usage": dict(usage)}

    def first(self) -> bytes:
        """Return the piece that begins the answer."""
        return self._piece({"role": "assistant", "content": ""})

    def delta(self, text: str = "", activity: str = "") -> bytes:
        """Return a piece with more text, or lines on what the agent does."""
        return b"".join(
            [
                *([self._piece({"reasoning_content": activity})] if activity else []),
                *([self._piece({"content": text})] if text else []),
            ]
        )

    def last(self, usage: Mapping[str, Any] | None, *, stopped: bool = False) -> bytes:
        """Return what ends the answer; ``usage`` where it was asked for. ``stopped``: its turn was stopped before the end."""
        counted = self._head("chat.completion.chunk") | {"choices": [], "usage": dict(usage)} if usage is not None else None
        return self._piece({}, _finish(stopped=stopped)) + (event(counted) if counted is not None else b"") + DONE

    def _piece(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event(self._head("chat.completion.chunk") | {"choices": [choice]})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def _finish(*, stopped: bool) -> str:
    """Return the reason for the end. Programs take ``length`` for an answer that is cut."""
    return "length" if stopped else "stop"


def event(value: Mapping[str, Any]) -> bytes:
    """Return a server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


def usage_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens of a turn: those of all its model calls together, with what was read from a cache among those that went in.

    Without facts, as of an answer from before a restart, they are zeros: programs add them up.
    """
    counted = facts.get("usage") or {}
    fresh, cached, written = (int(counted.get(name) or 0) for name in ("input", "cacheRead", "cacheWrite"))
    prompt, answer = fresh + cached + written, int(counted.get("output") or 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
