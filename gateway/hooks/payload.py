"""Bodies of webhooks: JSON, form fields or text, decoded and made readable. Everything else is refused, and nothing is unpacked.

A binary body is not stored as a file either: whoever can send one could fill the disk, and the file tools could show it to nobody.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from gateway.hooks.refusal import HookRefused
from gateway.ledger.values import clean

DEEPEST: Final = 64
"""Levels of nested JSON: nobody sends more, and each level indents all that is in it."""
MOST_INDENTED: Final = 4
"""JSON that is longer by this factor with a line for each value is shown on one line: nearly all of it would be spaces."""
MOST_FIELDS: Final = 2000
"""Form fields in a body."""
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_ONE_FIELD: Final = "payload"
"""The field in which GitHub and Slack send JSON when they send a form."""
_ALLOWED: Final = frozenset("\t\n\r")


@dataclass(frozen=True, slots=True)
class Payload:
    """A decoded body. ``text`` is what is shown of it; ``value`` its JSON value or its form fields, None for plain text."""

    text: str
    value: Any = None


def decode(body: bytes, content_type: str) -> Payload:
    """Decode a body. Blocks for some 100 ms over the largest ones.

    Raises:
        HookRefused: 400 for what is not what it says, 415 for types and encodings that are not taken.
    """
    media_type, charset = _type(content_type)
    if charset and charset not in _UTF_8:
        raise _unfit(415, f"the body is said to be in {charset[:40]!r}", "Send UTF-8.")
    as_json = media_type == _JSON or media_type.endswith("+json")
    if media_type and not (as_json or media_type == _FORM or media_type.startswith("text/")):
        raise _unfit(415, f"bodies of the type {media_type[:80]} are not taken", "Send JSON, form fields or plain text.")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _unfit(
            400 if media_type else 415, "the body is not UTF-8 text", "Send JSON, form fields or plain text."
        ) from None
    if not text.strip():
        return Payload("")
    if as_json:
        return _json(text)
    if media_type == _FORM:
        return _form(text)
    return _guessed(text) if not media_type else _plain(text)


def _type(content_type: str) -> tuple[str, str]:
    """Return the media type and its charset, both in small letters and without quotes."""
    media_type, *parameters = content_type.lower().split(";")
    named = dict(parameter.strip().partition("=")[::2] for parameter in parameters)
    return media_type.strip(), named.get("charset", "").strip().strip('"')


def _guessed(text: str) -> Payload:
    """Read a body that does not say what it is."""
    try:
        return _json(text)
    except HookRefused:
        return _plain(text)


def _json(text: str) -> Payload:
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        deep = _depth(value) > DEEPEST
    except RecursionError:
        deep, value = True, None
    except json.JSONDecodeError as error:
        raise _unfit(400, f"the body is said to be JSON, and is none: {error}"[:200], "Send JSON, or say what it is.") from None
    except _Constant as error:
        why = f"the body is said to be JSON, and is none: JSON has no number {error}"
        raise _unfit(400, why, "Send null, or the number as text.") from None
    except (OverflowError, ValueError):  # it has more digits than Python reads at once, or is beyond its floats
        raise _unfit(400, "the body has a number that is too large", "Send it as text.") from None
    if deep:
        raise _unfit(400, f"the JSON is nested more than {DEEPEST} levels deep", "Send flatter JSON.")
    value = _cleaned(value)
    shown = json.dumps(value, ensure_ascii=False, indent=1)
    if len(shown) > MOST_INDENTED * len(text):
        shown = json.dumps(value, ensure_ascii=False)
    return Payload(shown, value)


class _Constant(ValueError):
    """Raised for a constant that Python reads as a number and JSON does not have."""


def _no_number(name: str) -> None:
    raise _Constant(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise OverflowError
    return number


def _form(text: str) -> Payload:
    if text.lstrip().startswith(("{", "[")):  # curl -d says that it sends a form, whatever it sends
        guessed = _guessed(text)
        if guessed.value is not None:
            return guessed
    try:
        found = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
    except ValueError:
        raise _unfit(400, f"the form has more than {MOST_FIELDS} fields", "Send fewer fields.") from None
    fields = {_visible(name): _visible(value) for name, value in found}
    if list(fields) == [_ONE_FIELD]:
        try:
            return _json(fields[_ONE_FIELD])
        except HookRefused:
            pass  # it is a field like any other
    return Payload("\n".join(f"{name}: {value}" for name, value in fields.items()), fields)


def _plain(text: str) -> Payload:
    if "\0" in text:
        raise _unfit(415, "the body is said to be text, and is binary", "Send JSON, form fields or plain text.")
    return Payload(_visible(text))


def _visible(text: str) -> str:
    """Return a text without control characters and lone surrogates."""
    return "".join(one if one.isprintable() or one in _ALLOWED or one.isspace() else "\ufffd" for one in clean(text))


def _depth(value: Any) -> int:
    """Return how deep a JSON value is nested."""
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
            if isinstance(child, dict | list)
        ]
    return depth


def _cleaned(value: Any) -> Any:
    """Return a JSON value whose texts can be stored. It is not deep."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): _cleaned(child) for name, child in value.items()}
    return [_cleaned(child) for child in value] if isinstance(value, list) else value


def _unfit(status: int, error: str, hint: str) -> HookRefused:
    return HookRefused(status, "bad-body" if status == 400 else "not-taken", error, hint)  # noqa: PLR2004 -- an HTTP status
