"""Builds the request body of OpenAI's Responses API, with storage off. Pure functions, no SDK."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.messages import AssistantMessage, Image, Message, Text, Thinking, ToolCall, ToolMessage
from agent.models.adapters.sanitize import IMAGE_TYPES, CallIds, clean, clean_json, family, is_clean
from agent.models.protocol import Request
from agent.models.thinking import effort, thinking_tokens
from agent.settings import Level

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
) -> dict[str, Any]:
    """Return the body of a request, without the words on streaming.

    ``store`` is off, so the whole conversation goes along, and reasoning goes back encrypted to the model that made it.
    ``name`` is ``provider/model``, by which that is recognised. ``level`` says how deep to think, ``summary`` asks for thoughts
    that a person can read.
    """
    wanted: dict[str, Any] = {
        "model": model,
        "input": _items(request.messages, name=name, images=images),
        "max_output_tokens": max(16, min(request.max_output + thinking_tokens(level), max_output)),  # fewer than 16 are refused
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if instructions := "\n\n".join(clean(segment.text) for segment in request.system if segment.text.strip()):
        wanted["instructions"] = instructions
    if request.tools:
        wanted["tools"] = [
            {
                "type": "function",
                "name": spec.name,
                "description": clean(spec.description),
                "parameters": clean_json(spec.parameters),
                "strict": False,
            }
            for spec in request.tools
        ]
    depth = effort(level)
    reasoning = ({"effort": depth} if depth else {}) | ({"summary": "auto"} if summary and level != "off" else {})
    if reasoning:
        wanted["reasoning"] = reasoning
    if request.cache_key:
        wanted["prompt_cache_key"] = clean(request.cache_key)
    return wanted


def _items(messages: Iterable[Message], *, name: str, images: bool) -> list[Item]:
    ids = CallIds()
    current: Mapping[str, str] = {}
    items: list[Item] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            current = ids.of(message.calls)
            items += _answer(message, current, own=family(message.model) == family(name))
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
