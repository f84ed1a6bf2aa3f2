"""Builds the request body of Anthropic's Messages API. Pure functions, no SDK."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from agent.messages import AssistantMessage, Image, Message, Text, Thinking, ToolCall, ToolMessage, UserMessage
from agent.models.adapters.sanitize import IMAGE_TYPES, TOOLS, CallIds, clean, clean_json, family, is_clean
from agent.models.adapters.settled_entries import SettledEntries, entries_of
from agent.models.protocol import Request, Segment, ToolSpec
from agent.models.thinking import THINKING_TOKENS, Style
from agent.settings import Level

Block = dict[str, Any]

_MOST_MARKS = 4
"""Cache breakpoints that the API takes in one request."""
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
NO_OUTPUT = "(no output)"
_LEAST_BUDGET = 1024
"""Tokens for thinking that the API insists on, and that we keep for the answer beside it."""


def body(
    request: Request,
    *,
    model: str,
    name: str,
    max_output: int,
    images: bool = True,
    level: Level | None = None,
    style: Style = "",
    thoughts: bool = False,
    settled: SettledEntries | None = None,
) -> dict[str, Any]:
    """Return the arguments of ``messages.create``.

    ``model`` is the API's id; ``name`` is ``provider/model``, by which thinking blocks are recognised as this model's own.
    Cache marks stand at the segments that ask for it (at the tools where none does), at the very end, which moves (or behind
    ``Request.kept_parts``), and at the end of the request before: the API looks back twenty blocks from a mark, and an answer
    with ten calls has more.

    ``level`` and ``style`` say how deep to think, and in which words; ``thoughts`` asks for them in a form that a person can read.
    ``settled`` remembers the history for the next request; it is then JSON already, but for its last two turns.
    """
    mark: Block = {"type": "ephemeral", "ttl": request.cache_ttl} if request.cache_ttl != "5m" else {"type": "ephemeral"}
    kept, messages = entries_of(request, settled, partial(_messages, name=name, images=images), images=images)
    moving = _mark_messages(messages, mark, request.kept_parts) if request.cached else 0
    system = _system(request.system, mark, most=_MOST_MARKS - moving if request.cached else 0)
    marked = any("cache_control" in block for block in system)
    tools = _tools(request.tools, mark if request.cached and not marked else None)
    longest = max(1, min(request.max_output + THINKING_TOKENS.get(level, 0), max_output))
    wanted: dict[str, Any] = {"model": model, "max_tokens": longest, "messages": [*kept, *messages]}
    wanted |= _thinking(level, style, longest, messages, thoughts=thoughts)
    if system:
        wanted["system"] = system
    if tools:
        wanted["tools"] = tools
    return wanted


def _thinking(
    level: Level | None, style: Style, longest: int, messages: Sequence[Block], *, thoughts: bool = False
) -> dict[str, Any]:
    """Say how deep to think. A budget is left out in the middle of a tool loop that was begun without thinking: that is refused.

    A budget is of models that show their thoughts anyway.
    """
    if level is None:
        return {}
    if style == "budget":
        budget = min(THINKING_TOKENS.get(level, 0), longest - _LEAST_BUDGET)
        fits = budget >= _LEAST_BUDGET and _loop_begins_with_thinking(messages)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if fits else {}
    if level == "off":
        return {"thinking": {"type": "disabled"}}
    fields: dict[str, Any] = {"thinking": {"type": "adaptive"} | ({"display": "summarized"} if thoughts else {})}
    if level != "adaptive":
        fields["output_config"] = {"effort": "low" if level == "minimal" else level}
    return fields


def _loop_begins_with_thinking(messages: Sequence[Block]) -> bool:
    """Whether the first answer since a person last spoke begins with a thinking block, as it must where a budget is given."""
    first: Block | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message
        elif not any(block["type"] == "tool_result" for block in message["content"]):
            break
    return first is None or first["content"][0]["type"] in _UNMARKABLE


def _tools(specs: Sequence[ToolSpec], mark: Block | None) -> list[Block]:
    tools: list[Block] = [
        {"name": name, "description": description, "input_schema": parameters}
        for name, description, parameters in TOOLS.of(specs)
    ]
    if tools and mark is not None:
        tools[-1]["cache_control"] = mark
    return tools


def _system(segments: Sequence[Segment], mark: Block, *, most: int) -> list[Block]:
    """Text blocks with their marks; a mark on an empty segment moves to the text before it. The last marks count most."""
    blocks: list[Block] = []
    marked: list[int] = []
    for segment in segments:
        if segment.text.strip():
            blocks.append({"type": "text", "text": clean(segment.text)})
        if segment.cache_mark and blocks and (len(blocks) - 1) not in marked:
            marked.append(len(blocks) - 1)
    for index in marked[-most:] if most > 0 else ():
        blocks[index]["cache_control"] = mark
    return blocks


def _mark_messages(messages: Sequence[Block], mark: Block, kept_parts: int | None) -> int:
    """Mark what later requests go on from. Return how many blocks were marked.

    Where they share only the first parts of the first message, its end and that of the turn's latest call are kept for a short time.
    """
    if kept_parts is None or not messages:
        return _mark_ends(messages, mark)
    blocks = messages[0]["content"][:kept_parts]
    if blocks:
        blocks[-1]["cache_control"] = mark
    going_on = any(message["role"] == "assistant" for message in messages)
    return bool(blocks) + (_mark_end(messages, {"type": "ephemeral"}) if going_on else 0)


def _mark_ends(messages: Sequence[Block], mark: Block) -> int:
    """Mark the last block, and the last one of the request before, which is what the last answer answered. Return how many were marked."""
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    before = messages[: answers[-1]] if answers else []
    return _mark_end(messages, mark) + _mark_end(before, mark)


def _mark_end(messages: Sequence[Block], mark: Block) -> bool:
    blocks = messages[-1]["content"] if messages else []
    if not blocks or blocks[-1]["type"] in _UNMARKABLE:
        return False
    blocks[-1]["cache_control"] = mark
    return True


def _messages(messages: Iterable[Message], ids: CallIds, *, name: str, images: bool) -> list[Block]:
    """Translate, and join neighbours of one role: results of one answer's calls stand together, before what the person said next."""
    current: Mapping[str, str] = {}
    turns: list[Block] = []
    asked = family(name)
    for message in messages:
        if isinstance(message, AssistantMessage):
            current = ids.of(message.calls)
            role, blocks = "assistant", _assistant(message, current, own=family(message.model) == asked)
        elif isinstance(message, ToolMessage):
            role, blocks = "user", [_result(message, current.get(message.call_id, message.call_id), images=images)]
        else:
            role, blocks = "user", _user(message, images=images)
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _user(message: UserMessage, *, images: bool) -> list[Block]:
    blocks = [
        block
        for part in message.content
        for block in ([_picture(part, images=images)] if isinstance(part, Image) else _text(part.text))
    ]
    return blocks or [{"type": "text", "text": "(empty message)"}]


def _assistant(message: AssistantMessage, ids: Mapping[str, str], *, own: bool) -> list[Block]:
    blocks: list[Block] = []
    for part in message.content:
        if isinstance(part, Text):
            blocks += _text(part.text)
        elif isinstance(part, ToolCall):
            blocks.append({"type": "tool_use", "id": ids[part.id], "name": part.name, "input": _input(part)})
        elif own and _is_block(part):
            blocks.append(dict(part.opaque or {}))
    return blocks


def _is_block(part: Thinking) -> bool:
    """Whether a thinking block can go back as it came: it is signed, so a changed one would be refused."""
    return part.opaque is not None and part.opaque.get("type") in _UNMARKABLE and is_clean(part.opaque)


def _input(call: ToolCall) -> dict[str, Any]:
    arguments = {"invalid_json": call.raw} if call.arguments is None else call.arguments
    cleaned: dict[str, Any] = clean_json(arguments)
    return cleaned


def _result(message: ToolMessage, call_id: str, *, images: bool) -> Block:
    content = [*_text(message.text), *(_picture(image, images=images) for image in message.images)]
    result: Block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": content or [{"type": "text", "text": NO_OUTPUT}],
    }
    if message.is_error:
        result["is_error"] = True
    return result


def _text(text: str) -> list[Block]:
    """A text block; the API refuses blank ones, so those become nothing."""
    return [{"type": "text", "text": clean(text)}] if text.strip() else []


def _picture(image: Image, *, images: bool) -> Block:
    if not images or image.media_type not in IMAGE_TYPES:
        return {"type": "text", "text": f"[A picture ({clean(image.media_type)}) that this model cannot be shown.]"}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}
