"""Reads a request for a chat completion: the last message of its user is new, all others of its history are not.

A conversation is kept by the gateway. Programs send all of theirs each time; what they say of earlier messages is not taken.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from channels.openai_api.uploads import Upload
from gateway.api.openai.openai_errors import ApiRefusal

MODEL: Final = "homebody"
"""The model that stands for the usual agent; ``homebody/<agent>`` stands for another one."""
MOST_FILES: Final = 20
_LONGEST_USER: Final = 256
_LONGEST_CONTEXT: Final = 200_000
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*;base64,", re.IGNORECASE)
_IMAGES: Final = "Send images inside the request, as a data: URL; this gateway fetches no address that a program names."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request. ``agent`` is empty for the usual one; ``context`` holds the messages of the system and the developer."""

    model: str
    agent: str
    text: str
    context: str
    user: str
    files: tuple[Upload, ...]
    stream: bool
    include_usage: bool


def read_request(body: bytes) -> Wanted:
    """Return what a request wants. Blocking: bodies may be large. Raises ApiRefusal for what cannot be answered."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise _wrong("the body is not JSON", "body") from None
    if not isinstance(given, dict):
        raise _wrong("the body is no JSON object", "body")
    _check_wishes(given)
    model = _text(given, "model")
    if not model:
        raise _wrong("you must name a model; GET /v1/models lists those there are", "model")
    prefix, _, agent = model.partition("/")
    if prefix != MODEL or (not agent and "/" in model):
        raise unknown_model(model)
    user = _text(given, "user")
    if len(user) > _LONGEST_USER:
        raise _wrong(f"user has more than {_LONGEST_USER} characters", "user")
    text, context, files = _messages(given.get("messages"))
    options = given.get("stream_options") or {}
    return Wanted(
        model=model,
        agent=agent,
        text=text,
        context=context,
        user=user,
        files=files,
        stream=given.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def unknown_model(model: str) -> ApiRefusal:
    """Return the error for a model that is no agent that the token may use."""
    message = f"there is no model {model[:100]!r} for this token; GET /v1/models lists those there are"
    return ApiRefusal(404, "model_not_found", message, param="model")


def _check_wishes(given: Mapping[str, Any]) -> None:
    """Refuse what would be answered otherwise than the program believes."""
    if given.get("n") not in (None, 1):
        raise _wrong("n must be 1: an agent answers once", "n", "unsupported_value")
    form = given.get("response_format")
    if isinstance(form, dict) and form.get("type") not in (None, "text"):
        raise _wrong("an agent answers in prose: response_format can only be text", "response_format", "unsupported_value")
    if given.get("tool_choice") not in (None, "none", "auto"):
        raise _wrong("an agent uses its own tools: tool_choice can only be auto or none", "tool_choice", "unsupported_value")
    if given.get("audio") is not None or "audio" in (given.get("modalities") or ()):
        raise _wrong("answers are text alone", "modalities", "unsupported_value")


def _messages(given: object) -> tuple[str, str, tuple[Upload, ...]]:
    """Return the new message, what the program says beside it, and the message's files."""
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise _wrong("messages must be a list of messages", "messages")
    last = given[-1]
    if last.get("role") != "user":
        raise _wrong("the last message must be the user's; it is the one that is answered", f"messages[{len(given) - 1}].role")
    beside = [_content(one.get("content"), [], "messages") for one in given if one.get("role") in {"system", "developer"}]
    context = "\n\n".join(filter(None, (one.strip() for one in beside)))
    if len(context) > _LONGEST_CONTEXT:
        raise _wrong(f"the messages of the system have more than {_LONGEST_CONTEXT:,} characters", "messages")
    files: list[Upload] = []
    text = _content(last.get("content"), files, f"messages[{len(given) - 1}].content")
    if not text.strip() and not files:
        raise _wrong("the user's message is empty", f"messages[{len(given) - 1}].content")
    return text, context, tuple(files)


def _content(given: object, files: list[Upload], where: str) -> str:
    """Return the text of a message's content, and add its files."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise _wrong("content must be a text or a list of parts", where)
    texts = []
    for number, part in enumerate(given):
        here = f"{where}[{number}]"
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image_url" | "file" | "input_audio" as kind}:
                files.append(_file(kind, part.get(kind), here))
            case _:
                raise _wrong("a part of the content is of no kind that is taken: text, image_url, file, input_audio", here)
        if len(files) > MOST_FILES:
            raise _wrong(f"a message can have {MOST_FILES} files", where)
    return "\n".join(texts)


def _file(kind: str, given: object, where: str) -> Upload:
    match kind, given:
        case "image_url", {"url": str(url)} | str(url):
            data, media_type = _from_url(url, where)
            return Upload(kind="image", data=data, media_type=media_type)
        case "file", {"file_data": str(url), **more}:
            data, media_type = _from_url(url, where) if url.startswith("data:") else (_bytes(url, where), "")
            return Upload(kind="document", data=data, name=str(more.get("filename") or "")[:200], media_type=media_type)
        case "file", {"file_id": _}:
            raise _wrong("there are no stored files here; send the file itself in file_data", where)
        case "input_audio", {"data": str(text), "format": str(form)}:
            return Upload(kind="audio", data=_bytes(text, where), name=f"audio.{re.sub('[^a-z0-9]', '', form.lower())[:8]}")
        case _:
            raise _wrong(f"the part {kind} lacks its data", where)


def _from_url(url: str, where: str) -> tuple[bytes, str]:
    found = _DATA_URL.match(url)
    if found is None:
        raise _wrong(_IMAGES, where, "unsupported_value")
    return _bytes(url[found.end() :], where), (found[1] or "").lower()


def _bytes(text: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _wrong("its data is no base64", where) from None
    if not data:
        raise _wrong("its data is empty", where)
    return data


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong(f"{name} must be a text", name)
    return value or ""


def _wrong(message: str, param: str, code: str = "invalid_value") -> ApiRefusal:
    return ApiRefusal(400, code, message, param=param)


def model_names(agents: Sequence[str], default: str, only: str) -> list[str]:
    """Return the models of a token: those of all agents, or of the ``only`` one that it may use."""
    if only:
        return [f"{MODEL}/{only}"] if only in agents else []
    return [*([MODEL] if default in agents else []), *(f"{MODEL}/{one}" for one in agents)]
