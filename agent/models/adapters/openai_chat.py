"""Chat completions: OpenAI, and every server that speaks as it does (Ollama, OpenRouter, vLLM, LM Studio, LiteLLM, Gemini)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from agent.messages import AssistantMessage, Failure, Image, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent.models import token_estimate
from agent.models.adapters import warm_up
from agent.models.adapters.openai_chat_answer import ChatAnswer
from agent.models.adapters.openai_model import CACHE_RULE, OpenAIModel
from agent.models.adapters.sanitize import IMAGE_TYPES, TOOLS, CallIds, clean, clean_json, family, is_clean
from agent.models.adapters.settled_entries import SettledEntries, entries_of
from agent.models.protocol import Request, Segment
from agent.models.thinking import THINKING_TOKENS, effort
from agent.settings import Level

_USAGE_OPTION = "stream_options"


class OpenAIChatModel(OpenAIModel):
    """A ``Model`` of a server that speaks chat completions. The provider "openai" means OpenAI itself."""

    path = "/chat/completions"
    warm_up = staticmethod(warm_up.chat_completions)
    _takes_usage_option = True
    """Whether the server may be asked to report usage at the end of a stream; False once it refused to be asked."""

    def body(self, request: Request, level: Level | None) -> dict[str, Any]:
        """Return the body of a chat completion."""
        facts = self._connection.facts
        wanted = body(
            request,
            model=self._model,
            name=self.name,
            max_output=facts.max_output,
            images=facts.images,
            hosted_by_openai=self._provider == "openai",
            marks=self._provider == "openrouter" and self._model.startswith("anthropic/"),
            level=level,
            routed=self._provider == "openrouter",
            settled=self._settled,
        )
        wanted |= {CACHE_RULE: facts.cache_rule} if facts.cache_rule else {}
        return {**wanted, _USAGE_OPTION: {"include_usage": True}} if self._takes_usage_option else wanted

    def answer(self) -> ChatAnswer:
        """Return an answer that grows out of chunks."""
        return ChatAnswer(self.name, self._label, self._connection.facts.price, charges=self._provider == "openrouter")

    def refused_beforehand(self, request: Request) -> Failure | None:
        """Refuse what Ollama would cut without a word: it drops the beginning of a prompt that is too long."""
        facts = self._connection.facts
        if self._provider != "ollama" or facts.assumed or token_estimate.weight_of_request(request).total <= facts.window:
            return None
        return Failure(
            kind="overflow",
            message=f"{self.name} is loaded with a window of only {facts.window:,} tokens, which this conversation does not fit into.",
            hint="Start Ollama with a larger one (OLLAMA_CONTEXT_LENGTH=32768 ollama serve), "
            "or shorten the conversation with /compact.",
        )

    def gives_up_option(self, error: Any, wanted: Mapping[str, Any]) -> bool:
        """Stop asking for usage where the server refuses to be asked."""
        if super().gives_up_option(error, wanted):
            return True
        message = f"{error.message} {error.body}"
        refused = error.status_code in {400, 422} and (_USAGE_OPTION in message or "include_usage" in message)
        if not refused or _USAGE_OPTION not in wanted:
            return False
        self._takes_usage_option = False
        return True


Entry = dict[str, Any]

NO_OUTPUT = "(no output)"
_EPHEMERAL = {"type": "ephemeral"}
_SYSTEM_MARKS = 2
PICTURES = "[Pictures from the tool results above]"


def body(
    request: Request,
    *,
    model: str,
    name: str,
    max_output: int,
    images: bool,
    hosted_by_openai: bool,
    marks: bool = False,
    level: Level | None = None,
    routed: bool = False,
    settled: SettledEntries | None = None,
) -> dict[str, Any]:
    """Return the body of a request, without the words on streaming.

    ``hosted_by_openai`` decides what only OpenAI itself takes: its name for the longest answer, and the cache key. ``marks``
    says that the server passes Anthropic's cache marks on (OpenRouter does). ``name`` is ``provider/model``, by which reasoning
    is recognised as this model's own. ``level`` says how deep to think; ``routed`` that OpenRouter is to be told, in its own words.
    ``settled`` remembers the history for the next request; it is then JSON already, but for its last two turns.
    """
    longest = max(1, min(request.max_output + THINKING_TOKENS.get(level, 0), max_output))
    system = _system(request.system)
    kept, messages = entries_of(request, settled, partial(_messages, name=name, images=images), images=images)
    if marks and request.cached:
        _mark([*system, *messages], request)
    wanted: dict[str, Any] = {
        "model": model,
        "messages": [*system, *kept, *messages],
        "max_completion_tokens" if hosted_by_openai else "max_tokens": longest,
    }
    if request.tools:
        wanted["tools"] = [_tool(*told) for told in TOOLS.of(request.tools)]
    if depth := effort(level):
        wanted |= {"reasoning": {"effort": depth}} if routed else {"reasoning_effort": depth}
    if hosted_by_openai and request.cache_key:
        wanted["prompt_cache_key"] = clean(request.cache_key)
    return wanted


def _tool(name: str, description: str, parameters: Any) -> Entry:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _mark(entries: list[Entry], request: Request) -> None:
    """Mark the system text where segments ask for it (the last two marks count), and the ends of what was said."""
    kept = [segment for segment in request.system if segment.text.strip()]
    if kept:
        parts: list[Entry] = [{"type": "text", "text": clean(segment.text)} for segment in kept]
        marked = [index for index, segment in enumerate(kept) if segment.cache_mark]
        for index in marked[-_SYSTEM_MARKS:]:
            parts[index]["cache_control"] = _EPHEMERAL
        entries[0]["content"] = parts
    for entry in _ends(entries):
        entry["content"] = [dict(part) for part in _as_parts(entry["content"])]
        entry["content"][-1]["cache_control"] = _EPHEMERAL


def _ends(entries: Sequence[Entry]) -> list[Entry]:
    """The last entry of a person or a tool, and the last one of a person where that is another: a mark on a result may be passed over."""
    last = next((entry for entry in reversed(entries) if entry["role"] in {"user", "tool"} and entry["content"]), None)
    said = next((entry for entry in reversed(entries) if entry["role"] == "user" and entry["content"]), None)
    return [entry for entry in ([last] if last is said else [last, said]) if entry is not None]


def _system(segments: Sequence[Segment]) -> list[Entry]:
    text = "\n\n".join(clean(segment.text) for segment in segments if segment.text.strip())
    return [{"role": "system", "content": text}] if text else []


def _messages(messages: Iterable[Message], ids: CallIds, *, name: str, images: bool) -> list[Entry]:
    """Translate. Neighbours of one role are joined, since the templates of many local models insist on taking turns."""
    current: Mapping[str, str] = {}
    entries: list[Entry] = []
    asked = family(name)
    pictures: list[Image] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            entries.append(_result(message, current.get(message.call_id, message.call_id)))
            pictures += message.images
            continue
        if pictures:
            _add(entries, {"role": "user", "content": _parts((Text(text=PICTURES), *pictures), images=images)})
            pictures = []
        if isinstance(message, AssistantMessage):
            calls = message.calls
            current = ids.of(calls)
            entry = _assistant(message, calls, current, own=family(message.model) == asked)
        else:
            entry = _user(message, images=images)
        if entry is not None:
            _add(entries, entry)
    if pictures:
        _add(entries, {"role": "user", "content": _parts((Text(text=PICTURES), *pictures), images=images)})
    return entries


def _add(entries: list[Entry], entry: Entry) -> None:
    """Append, or join with the last entry when it has the same role and made no calls."""
    last = entries[-1] if entries else None
    if last is None or last["role"] != entry["role"] or "tool_calls" in last:
        entries.append(entry)
        return
    joined = _joined(last["content"], entry["content"])
    last.update(entry)
    last["content"] = joined


def _joined(one: str | list[Entry], other: str | list[Entry]) -> str | list[Entry]:
    if isinstance(one, str) and isinstance(other, str):
        return "\n\n".join(text for text in (one, other) if text)
    return [*_as_parts(one), *_as_parts(other)]


def _as_parts(content: str | list[Entry]) -> list[Entry]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _user(message: UserMessage, *, images: bool) -> Entry:
    return {"role": "user", "content": _parts(message.content, images=images) or "(empty message)"}


def _parts(content: Sequence[Text | Image], *, images: bool) -> str | list[Entry]:
    """One string where there is only text, which every server takes; parts where there are pictures."""
    if len(content) == 1 and isinstance(content[0], Text):
        return clean(content[0].text) if content[0].text.strip() else ""
    parts: list[Entry] = []
    for part in content:
        if isinstance(part, Text):
            parts += [{"type": "text", "text": clean(part.text)}] if part.text.strip() else []
        elif images and part.media_type in IMAGE_TYPES:
            parts.append({"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}})
        else:
            parts.append({"type": "text", "text": f"[A picture ({clean(part.media_type)}) that this model cannot be shown.]"})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _assistant(message: AssistantMessage, calls: Sequence[ToolCall], ids: Mapping[str, str], *, own: bool) -> Entry | None:
    text = message.text
    if not calls:
        return {"role": "assistant", "content": clean(text)} if text.strip() else None
    opaque = _opaque(message) if own else {}
    extras = opaque.get("calls", {})
    called = [_call(call, ids[call.id]) | extras.get(call.id, {}) for call in calls]
    return {"role": "assistant", "content": clean(text), **opaque.get("message", {}), "tool_calls": called}


def _opaque(message: AssistantMessage) -> dict[str, Any]:
    """What this model wants back with its calls: its reasoning, under the name it came by, and signatures of the calls."""
    kept = (part.opaque for part in message.content if isinstance(part, Thinking))
    return next((opaque for opaque in kept if opaque and opaque.keys() <= {"message", "calls"} and is_clean(opaque)), {})


def _call(call: ToolCall, call_id: str) -> Entry:
    arguments = {"invalid_json": call.raw} if call.arguments is None else call.arguments
    function = {"name": call.name, "arguments": json.dumps(clean_json(arguments), ensure_ascii=False)}
    return {"id": call_id, "type": "function", "function": function}


def _result(message: ToolMessage, call_id: str) -> Entry:
    text = clean(message.text) if message.text.strip() else NO_OUTPUT
    return {"role": "tool", "tool_call_id": call_id, "content": f"Error: {text}" if message.is_error else text}
