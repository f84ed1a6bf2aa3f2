"""The adapter for OpenAI's Responses API: the default for OpenAI itself, and by ``models.providers.<id>.api`` for other servers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from agent.events import Progress, ReplyNote, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Image, Message, Stop, Text, Thinking, ToolCall, ToolMessage, Usage
from agent.models import failures
from agent.models.adapters import warm_up
from agent.models.adapters.openai_model import CACHE_RULE, OpenAIModel
from agent.models.adapters.sanitize import (
    IMAGE_TYPES,
    TOOLS,
    CallIds,
    arguments_of,
    clean,
    clean_json,
    family,
    field_of,
    is_clean,
)
from agent.models.adapters.settled_entries import SettledEntries, entries_of
from agent.models.catalog.prices import Price
from agent.models.protocol import Request
from agent.models.thinking import THINKING_TOKENS, effort
from agent.settings import Level


class OpenAIResponsesModel(OpenAIModel):
    """A ``Model`` behind the Responses API. Nothing is kept at the provider."""

    path = "/responses"
    warm_up = staticmethod(warm_up.responses)
    _summarises = True
    """Whether the server may be asked for thoughts in words; False once it refused."""

    def body(self, request: Request, level: Level | None) -> dict[str, Any]:
        """Return the body of a request."""
        facts = self._connection.facts
        wanted = body(
            request,
            model=self._model,
            name=self.name,
            max_output=facts.max_output,
            images=facts.images,
            level=level,
            summary=request.thoughts and self._summarises,
            settled=self._settled,
        )
        return wanted | ({CACHE_RULE: facts.cache_rule} if facts.cache_rule else {})

    def answer(self) -> _Answer:
        """Return an answer that grows out of events."""
        return _Answer(self.name, self._label, self._connection.facts.price)

    def gives_up_option(self, error: Any, wanted: Mapping[str, Any]) -> bool:
        """Stop asking for thoughts in words where they are refused, and tell the owner once."""
        if super().gives_up_option(error, wanted):
            return True
        if "summary" not in wanted.get("reasoning", {}) or not _refuses_summary(error):
            return False
        self._summarises = False
        self._asides.append(
            ReplyNote(
                f"💭 {self.name} does not put its thoughts into words for this key; {self._label} may want the account verified."
            )
        )
        return True


class _Answer:
    """One answer as it grows out of the API's events. The items of the final event are the truth; deltas are for showing."""

    def __init__(self, model: str, label: str, price: Price | None) -> None:
        self._model = model
        self._label = label
        self._price = price
        self._items: dict[int, Any] = {}
        self._final: Any = None
        self._failure: Failure | None = None
        self.begun = False
        """Whether anything arrived."""

    def feed(self, event: Any) -> Iterator[TextDelta | ThinkingDelta | Progress]:
        """Take an event, and yield what of it may be shown."""
        self.begun = True
        if (shown := self._take(event)) is not None:
            yield shown

    def rest(self) -> Iterable[TextDelta]:
        """Nothing is held back."""
        return ()

    def _take(self, event: Any) -> TextDelta | ThinkingDelta | Progress | None:
        delta = field_of(event, "delta")
        match field_of(event, "type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return TextDelta(delta) if delta else None
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return ThinkingDelta(delta) if delta else None
            case "response.reasoning_summary_part.added" if field_of(event, "summary_index"):
                return ThinkingDelta("\n\n")
            case "response.function_call_arguments.delta":
                return Progress(len(delta or ""))
            case "response.output_item.done":
                self._items[event["output_index"]] = event["item"]
            case "response.completed" | "response.incomplete" | "response.failed":
                self._final = event["response"]
            case "error":
                code, words = field_of(event, "code") or "", field_of(event, "message") or ""
                self._failure = failures.of_words(code, words, model=self._model, label=self._label)
        return None

    def finish(self) -> AssistantMessage:
        """Return the whole answer, or the record of a failure."""
        if self._failure is not None:
            return failures.answer_with(self._failure, model=self._model)
        if self._final is None:
            return failures.cut(model=self._model, label=self._label, begun=self.begun)
        error = field_of(self._final, "error")
        if field_of(self._final, "status") == "failed" or error is not None:
            code, words = field_of(error, "code") or "", field_of(error, "message") or "it gave no reason"
            failure = failures.of_words(code, words, model=self._model, label=self._label)
            return failures.answer_with(failure, model=self._model)
        items = list(field_of(self._final, "output") or (self._items[index] for index in sorted(self._items)))
        content = tuple(part for item in items for part in _parts(item))
        stop = self._stop(content, refused=any(_refuses(item) for item in items))
        return AssistantMessage(
            content=content,
            model=self._model,
            stop=stop,
            usage=self._used(),
            failure=_refusal(self._model) if stop == "refusal" else None,
        )

    def _stop(self, content: Iterable[Text | Thinking | ToolCall], *, refused: bool) -> Stop:
        reason = field_of(field_of(self._final, "incomplete_details"), "reason")
        if refused or reason == "content_filter":
            return "refusal"
        if field_of(self._final, "status") == "incomplete":
            return "length"
        return "tools" if any(isinstance(part, ToolCall) for part in content) else "end"

    def _used(self) -> Usage | None:
        """Cached tokens are counted within the input here, unlike in ``Usage``."""
        told = field_of(self._final, "usage")
        shown, output = _number(told, "input_tokens"), _number(told, "output_tokens")
        if not shown and not output:
            return None
        details = field_of(told, "input_tokens_details")
        read = _number(details, "cached_tokens")
        read = read if read <= shown else 0  # what was not shown cannot have been read: the figure is wrong
        written = min(_number(details, "cache_write_tokens"), shown - read)
        usage = Usage(input=shown - read - written, output=output, cache_read=read, cache_write=written)
        return usage if self._price is None else replace(usage, cost=self._price.of_usage(usage))


def _parts(item: Any) -> list[Text | Thinking | ToolCall]:
    match item["type"]:
        case "message":
            said = "".join(_words(part) for part in item["content"])
            return [Text(text=said)] if said else []
        case "reasoning":
            thought = "\n\n".join(part["text"] for part in (*(item.get("summary") or ()), *(item.get("content") or ())))
            return [Thinking(text=thought, opaque={name: value for name, value in item.items() if name != "status"})]
        case "function_call":
            arguments = arguments_of(item["arguments"])
            raw = "" if arguments is not None else item["arguments"]
            return [ToolCall(id=item["call_id"], name=item["name"], arguments=arguments, raw=raw)]
    return []


def _words(part: Any) -> str:
    return str(field_of(part, "text") or field_of(part, "refusal") or "")


def _refuses(item: Any) -> bool:
    return item["type"] == "message" and any(field_of(part, "type") == "refusal" for part in item["content"])


def _refusal(model: str) -> Failure:
    return Failure(
        kind="refusal",
        message=f"{model} declined to answer this.",
        hint="Say it differently, or choose another model with /model.",
    )


def _number(holder: Any, name: str) -> int:
    value = field_of(holder, name)
    return value if isinstance(value, int) and value > 0 else 0


def _refuses_summary(error: Any) -> bool:
    """Whether it was only the wish for thoughts in words that is refused: some models have none, some accounts get none."""
    return error.status_code in {400, 403, 422} and "summar" in f"{error.message} {error.body}".lower()


Item = dict[str, Any]

NO_OUTPUT = "(no output)"


def body(
    request: Request,
    *,
    model: str,
    name: str,
    max_output: int,
    images: bool,
    level: Level | None = None,
    summary: bool = False,
    settled: SettledEntries | None = None,
) -> dict[str, Any]:
    """Return the body of a request, without the words on streaming.

    ``store`` is off, so the whole conversation goes along, and reasoning goes back encrypted to the model that made it.
    ``name`` is ``provider/model``, by which that is recognised. ``level`` says how deep to think, ``summary`` asks for thoughts
    that a person can read. ``settled`` remembers the history for the next request; it is then JSON already, but for its last two turns.
    """
    kept, items = entries_of(request, settled, partial(_items, name=name, images=images), images=images)
    wanted: dict[str, Any] = {
        "model": model,
        "input": [*kept, *items],
        "max_output_tokens": max(
            16, min(request.max_output + THINKING_TOKENS.get(level, 0), max_output)
        ),  # fewer than 16 are refused
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if instructions := "\n\n".join(clean(segment.text) for segment in request.system if segment.text.strip()):
        wanted["instructions"] = instructions
    if request.tools:
        wanted["tools"] = [
            {
                "type": "function",
                "name": tool,
                "description": description,
                "parameters": parameters,
                "strict": False,
            }
            for tool, description, parameters in TOOLS.of(request.tools)
        ]
    depth = effort(level)
    reasoning = ({"effort": depth} if depth else {}) | ({"summary": "auto"} if summary and level != "off" else {})
    if reasoning:
        wanted["reasoning"] = reasoning
    if request.cache_key:
        wanted["prompt_cache_key"] = clean(request.cache_key)
    return wanted


def _items(messages: Iterable[Message], ids: CallIds, *, name: str, images: bool) -> list[Item]:
    current: Mapping[str, str] = {}
    items: list[Item] = []
    asked = family(name)
    for message in messages:
        if isinstance(message, AssistantMessage):
            current = ids.of(message.calls)
            items += _answer(message, current, own=family(message.model) == asked)
        elif isinstance(message, ToolMessage):
            items.append(_result(message, current.get(message.call_id, message.call_id), images=images))
        else:
            content = _content(message.content, images=images) or [{"type": "input_text", "text": "(empty message)"}]
            items.append({"type": "message", "role": "user", "content": content})
    return items


def _answer(message: AssistantMessage, ids: Mapping[str, str], *, own: bool) -> list[Item]:
    """An answer's items. Reasoning counts only with what it led to, so none is left at the end."""
    items: list[Item] = []
    for part in message.content:
        if isinstance(part, Text):
            if part.text.strip():
                items.append({"type": "message", "role": "assistant", "content": clean(part.text)})
        elif isinstance(part, Thinking):
            if own and part.opaque is not None and part.opaque.get("type") == "reasoning" and is_clean(part.opaque):
                items.append(dict(part.opaque))
        else:
            items.append(_call(part, ids[part.id]))
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _call(call: ToolCall, call_id: str) -> Item:
    arguments = {"invalid_json": call.raw} if call.arguments is None else call.arguments
    written = json.dumps(clean_json(arguments), ensure_ascii=False)
    return {"type": "function_call", "call_id": call_id, "name": call.name, "arguments": written}


def _result(message: ToolMessage, call_id: str, *, images: bool) -> Item:
    text = clean(message.text) if message.text.strip() else NO_OUTPUT
    said = f"Error: {text}" if message.is_error else text
    output = _content((Text(text=said), *message.images), images=images) if message.images else said
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _content(parts: Iterable[Text | Image], *, images: bool) -> list[Item]:
    content: list[Item] = []
    for part in parts:
        if isinstance(part, Text):
            content += [{"type": "input_text", "text": clean(part.text)}] if part.text.strip() else []
        elif images and part.media_type in IMAGE_TYPES:
            url = f"data:{part.media_type};base64,{part.data}"
            content.append({"type": "input_image", "image_url": url, "detail": "auto"})
        else:
            shown = f"[A picture ({clean(part.media_type)}) that this model cannot be shown.]"
            content.append({"type": "input_text", "text": shown})
    return content
