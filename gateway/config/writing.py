"""How a value is written down in a settings file: indented YAML, or JSON that YAML and JSON5 both read."""

from __future__ import annotations

import json
import re
from typing import Any

_SAFE = re.compile(r"[A-Za-z_/~][A-Za-z0-9_./~@+-]*(?::[A-Za-z0-9_./~@+-]+)*")
_BARE_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_AMBIGUOUS = frozenset({"~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})  # for readers of older YAML too
_UNPRINTABLE = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def bracketed(value: Any) -> str:
    """Write a value on one line, within brackets where it has parts."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def scalar(value: Any) -> str:
    """Write a single value (or an empty list or section) as YAML."""
    return value if isinstance(value, str) and _plain(value) else bracketed(value)


def yaml_lines(value: Any) -> list[str]:
    """Write a value as the lines of YAML's indented form."""
    if isinstance(value, dict) and value:
        return [line for key, child in value.items() for line in yaml_entry(key, child)]
    if isinstance(value, list) and value:
        return [line for child in value for line in yaml_item(child)]
    return [scalar(value)]


def yaml_entry(key: str, value: Any) -> list[str]:
    """Write a key and its value as lines of YAML."""
    name = key if _plain(key) else bracketed(key)
    if value and isinstance(value, dict | list):
        return [f"{name}:", *(f"  {line}" for line in yaml_lines(value))]
    return [f"{name}: {scalar(value)}"]


def yaml_item(value: Any) -> list[str]:
    """Write one item of a list as lines of YAML."""
    first, *rest = yaml_lines(value)
    return [f"- {first}", *(f"  {line}" for line in rest)]


def json_key(key: str, *, bare: bool) -> str:
    """Write a key for use within brackets; ``bare`` asks for one without quotes where that is allowed."""
    return key if bare and _BARE_KEY.fullmatch(key) and key.lower() not in _AMBIGUOUS else bracketed(key)


def _plain(text: str) -> bool:
    return bool(_SAFE.fullmatch(text)) and text.lower() not in _AMBIGUOUS
