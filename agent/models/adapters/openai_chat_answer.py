"""Assembles a chat completion from its chunks, in all the variants that compatible servers send."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from agent.events import Progress, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Stop, Text, Thinking, ToolCall, Usage
from agent.models import failures
from agent.models.adapters.sanitize import arguments_of, field_of
from agent.models.catalog.prices import Price

_STOPS: dict[str, Stop] = {
    "stop": "end",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tools",
    "function_call": "tools",
    "content_filter": "refusal",
}
_REASONING = ("reasoning_content", "reasoning")
_OPENING, _CLOSING = "<think>", "</think>"


class ChatAnswer:
    """Takes chunks, gives deltas, and at the end the whole answer."""

    def __init__(self, model: str, label: str, price: Price | None, *, charges: bool = False) -> None:
        """``charges`` says that the server's own figure for the cost is what is paid (OpenRouter's); elsewhere a known price counts."""
        self._charges = charges
        self._model = model
        self._label = label
        self._price = price
        self._text = _TaggedText()
        self._reasoning: list[str] = []
        self._reasoning_field = ""
        self._details: list[Any] = []
        self._calls = _Calls()
        self._usage: Any = None
        self._finish: str | None = None
        self._refused = False
        self.begun = False
        """Whether anything arrived."""

    def feed(self, chunk: Any) -> Iterator[TextDelta | ThinkingDelta | Progress]:
        """Take a chunk, and yield what of it may be shown."""
        self.begun = True
        self._usage = field_of(chunk, "usage") or self._usage
        for choice in (field_of(chunk, "choices") or ())[:1]:
            self._finish = field_of(choice, "finish_reason") or self._finish
            delta = field_of(choice, "delta")
            if delta is not None:
                yield from self._take(delta)

    def _take(self, delta: Any) -> Iterator[TextDelta | ThinkingDelta | Progress]:
        name, thought = next(((name, text) for name in _REASONING if (text := _words(field_of(delta, name)))), ("", ""))
        if thought:
            self._reasoning_field = name
            self._reasoning.append(thought)
            yield ThinkingDelta(thought)
        self._details += field_of(delta, "reasoning_details") or ()
        if refusal := _words(field_of(delta, "refusal")):
            self._refused = True
            yield from self._text.feed(refusal)
        if text := _words(field_of(delta, "content")):
            yield from self._text.feed(text)
        for call in field_of(delta, "tool_calls") or ():
            yield Progress(self._calls.feed(call))

    def rest(self) -> Iterator[TextDelta | ThinkingDelta]:
        """Yield what was still held back when the stream ended."""
        return self._text.finish()

    def finish(self) -> AssistantMessage:
        """Return the whole answer, or the record of a failure."""
        if self._finish is None:
            return failures.cut(model=self._model, label=self._label, begun=self.begun)
        if self._finish == "error":
            return failures.answer_with(
                Failure(
                    kind="overloaded", message=f"{self._label} ended the answer with an error.", hint="Try again in a moment."
                ),
                model=self._model,
            )
        calls = self._calls.whole()
        stop: Stop = "refusal" if self._refused else _STOPS.get(self._finish, "end")
        if calls and stop == "end":
            stop = "tools"
        if not calls and stop == "tools":
            stop = "end"
        return AssistantMessage(
            content=(*self._thinking(calls), *self._text_parts(), *calls),
            model=self._model,
            stop=stop,
            usage=self._used(),
            failure=self._failure() if stop == "refusal" else None,
        )

    def _failure(self) -> Failure:
        return Failure(
            kind="refusal",
            message=f"{self._model} declined to answer this.",
            hint="Say it differently, or choose another model with /model.",
        )

    def _text_parts(self) -> tuple[Text, ...]:
        return (Text(text=self._text.text),) if self._text.text else ()

    def _thinking(self, calls: tuple[ToolCall, ...]) -> tuple[Thinking, ...]:
        """The reasoning, with what the server wants back beside it (signatures of calls are Gemini's)."""
        thought = "".join(self._reasoning)
        back: dict[str, Any] = {self._reasoning_field: thought} if thought else {}
        if self._details:
            back = {"reasoning_details": self._details}
        extras = self._calls.extras(calls)
        opaque = ({"message": back} if back else {}) | ({"calls": extras} if extras else {})
        text = thought or self._text.thought
        return (Thinking(text=text, opaque=opaque or None),) if text or opaque else ()

    def _used(self) -> Usage | None:
        """Cached tokens are counted within the prompt here, unlike in ``Usage``. Some servers report nothing, or zeros."""
        told = self._usage
        prompt, output = _number(told, "prompt_tokens"), _number(told, "completion_tokens")
        if not prompt and not output:
            return None
        details = field_of(told, "prompt_tokens_details")
        read = _number(details, "cached_tokens") or _number(told, "prompt_cache_hit_tokens")
        read = read if read <= prompt else 0  # what was not shown cannot have been read: the figure is wrong
        written = min(_number(details, "cache_write_tokens"), prompt - read)
        usage = Usage(input=prompt - read - written, output=output, cache_read=read, cache_write=written)
        charged = _dollars(field_of(told, "cost"))
        if (
            charged is not None and field_of(told, "is_byok") is True
        ):  # OpenRouter with an own key: its fee, and the maker's bill
            charged += _dollars(field_of(field_of(told, "cost_details"), "upstream_inference_cost")) or 0.0
        if charged is not None and (self._charges or self._price is None):
            return replace(usage, cost=charged)
        return usage if self._price is None else replace(usage, cost=self._price.of_usage(usage))


def _words(content: Any) -> str:
    """The text of a delta: a string, or a list of parts as it is in requests."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def _number(holder: Any, name: str) -> int:
    value = field_of(holder, name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _dollars(value: Any) -> float | None:
    """A sum that can be one: finite, and not below nothing."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < math.inf else None


@dataclass(slots=True)
class _Call:
    """A tool call that is being assembled."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: Any = None


class _Calls:
    """Joins pieces of tool calls: by index, by id where servers count every call as the first, by order where they give neither."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def feed(self, piece: Any) -> int:
        """Take a piece of a call, and return how many characters of arguments it has."""
        function = field_of(piece, "function")
        name, arguments = field_of(function, "name") or "", field_of(function, "arguments")
        index, call_id = field_of(piece, "index"), field_of(piece, "id") or ""
        call = self._belongs_to(index, call_id, name)
        call.id = call.id or call_id
        call.name = call.name or name
        call.extra = field_of(piece, "extra_content") or call.extra
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))
            return len(call.arguments[-1])
        return 0

    def _belongs_to(self, index: int | None, call_id: str, name: str) -> _Call:
        same = [call for call in self._calls if index is None or call.index == index]
        last = same[-1] if same else None
        begins = bool(name) and (call_id != last.id if last and call_id else index is None)
        if last is None or begins:
            last = _Call(index)
            self._calls.append(last)
        return last

    def whole(self) -> tuple[ToolCall, ...]:
        """Return the calls, each with an id that no other one of this answer has."""
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for number, call in enumerate(self._calls, 1):
            name = call.id if call.id and call.id not in taken else f"{call.id or 'call'}_{number}"
            taken.add(name)
            raw = "".join(call.arguments)
            arguments = arguments_of(raw)
            calls.append(ToolCall(id=name, name=call.name, arguments=arguments, raw="" if arguments is not None else raw))
        return tuple(calls)

    def extras(self, calls: tuple[ToolCall, ...]) -> dict[str, Any]:
        """Return what came with each call and has to go back with it."""
        pairs = zip(calls, self._calls, strict=True)
        return {whole.id: {"extra_content": call.extra} for whole, call in pairs if call.extra}


class _TaggedText:
    """Text of an answer. What a local model thinks aloud within think tags at the very beginning is thinking, not text."""

    def __init__(self) -> None:
        self._text_parts: list[str] = []
        self._thought: list[str] = []
        self._held = ""
        self._state = "start"

    @property
    def text(self) -> str:
        """What was said so far."""
        return "".join(self._text_parts)

    @property
    def thought(self) -> str:
        """What was thought aloud."""
        return "".join(self._thought).strip()

    def feed(self, piece: str) -> Iterator[TextDelta | ThinkingDelta]:
        """Take the next piece, and yield what may be shown of it."""
        if self._state == "thought":
            piece = piece.lstrip()
            self._state = "text" if piece else "thought"
        if self._state in {"text", "thought"}:
            yield from self._text_deltas(piece)
            return
        self._held += piece
        if self._state == "start":
            bare = self._held.lstrip()
            if bare.startswith(_OPENING):
                self._state, self._held = "thinking", bare[len(_OPENING) :]
            elif not _OPENING.startswith(bare):
                yield from self.finish()
                return
        if self._state == "thinking":
            yield from self._think()

    def _think(self) -> Iterator[TextDelta | ThinkingDelta]:
        thought, closed, said = self._held.partition(_CLOSING)
        if closed:
            self._state, self._held = "thought", ""
            yield from self._mull(thought)
            yield from self.feed(said)
            return
        keep = next((size for size in range(len(_CLOSING) - 1, 0, -1) if thought.endswith(_CLOSING[:size])), 0)
        self._held = thought[len(thought) - keep :]
        yield from self._mull(thought[: len(thought) - keep])

    def finish(self) -> Iterator[TextDelta | ThinkingDelta]:
        """Yield what is still held."""
        held, self._held = self._held, ""
        thinking = self._state == "thinking"
        self._state = "text"
        yield from self._mull(held) if thinking else self._text_deltas(held)

    def _text_deltas(self, text: str) -> Iterator[TextDelta]:
        if text:
            self._text_parts.append(text)
            yield TextDelta(text)

    def _mull(self, text: str) -> Iterator[ThinkingDelta]:
        if text:
            self._thought.append(text)
            yield ThinkingDelta(text)
