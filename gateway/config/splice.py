"""The five ways in which a stretch of a settings file is exchanged, whatever surrounds it staying as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.config.writing import bracketed, json_key, scalar, yaml_entry, yaml_item, yaml_lines

if TYPE_CHECKING:
    from gateway.config.node import Node

_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*|#[^\n]*)?(?=\n|\Z)")
_COMMA = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|#[^\n]*)*,", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Child:
    """One entry or item of a section or list: where it begins (key included), and its value."""

    start: int
    value: Node


def replaced(text: str, node: Node, value: Any, *, block: bool) -> str:
    """Put ``value`` where ``node`` stands. ``block`` says that the place is in YAML's indented form."""
    start, end = node.start, _content_end(text, node)
    if not block:
        return text[:start] + bracketed(value) + text[end:]
    if node.block:
        margin = " " * (start - _line_start(text, start))
        return text[:start] + f"\n{margin}".join(yaml_lines(value)) + text[end:]
    if not isinstance(value, dict | list) or not value:
        space = "" if text[start - 1 : start].isspace() else " "
        return text[:start] + space + scalar(value) + text[end:]
    line = text[_line_start(text, start) : start]
    inner = " " * (len(line) - len(line.lstrip(" -")) + 2)
    return text[:start].rstrip(" ") + "".join(f"\n{inner}{row}" for row in yaml_lines(value)) + text[end:]


def appended(text: str, node: Node, step: str | int, value: Any) -> str:
    """Add a key or an item below the last one of an indented section or list."""
    first = _children(node)[0].start
    if isinstance(step, int):
        first = text.rindex("-", 0, first)
    margin = " " * (first - _line_start(text, first))
    rows = yaml_item(value) if isinstance(step, int) else yaml_entry(step, value)
    at = _line_end(text, _content_end(text, node))
    return text[:at] + "".join(f"\n{margin}{row}" for row in rows) + text[at:]


def bracket_appended(text: str, node: Node, step: str | int, value: Any) -> str:
    """Add a key or an item behind the last one of a section or list within brackets, in its style."""
    parts = _children(node)
    bare = bool(parts) and text[parts[0].start] not in "\"'"
    new = bracketed(value) if isinstance(step, int) else f"{json_key(step, bare=bare)}: {bracketed(value)}"
    if not parts:
        return text[: node.start + 1] + new + text[node.start + 1 :]
    last = parts[-1]
    row = text[_line_start(text, last.start) : last.start]
    own_line = not row.strip()
    comma = _COMMA.match(text, last.value.end)
    has_comma = comma is not None and comma.end() <= max(node.end, last.value.end)
    at = comma.end() if comma and has_comma else last.value.end
    head = text[:at] if has_comma else f"{text[:at]},"
    rest = _REST_OF_LINE.match(text, at)
    if not own_line:
        return f"{head} {new}{',' if has_comma else ''}{text[at:]}"
    beside = rest[0] if rest else ""
    return f"{head}{beside}\n{row}{new}{',' if has_comma else ''}{text[at + len(beside) :]}"


def cut_block(text: str, parent: Node, index: int) -> str:
    """Take the lines of one child out of an indented section or list."""
    parts = _children(parent)
    part = parts[index]
    start = text.rindex("-", 0, part.start) if parent.kind == "list" else part.start
    line = _line_start(text, start)
    if text[line:start].strip():  # it shares its line with the dash of a list
        if index + 1 < len(parts):
            following = parts[index + 1].start
            return text[:start] + text[text.rindex("-", 0, following) if parent.kind == "list" else following :]
        return text[:start] + ("[]" if parent.kind == "list" else "{}") + text[_content_end(text, part.value) :]
    end = _line_end(text, _content_end(text, part.value))
    return text[:line] + text[end + 1 :]


def cut_bracketed(text: str, parent: Node, index: int) -> str:
    """Take one child out of a section or list within brackets, and the comma that is left over."""
    parts = _children(parent)
    part = parts[index]
    comma = _COMMA.match(text, part.value.end)
    limit = parts[index + 1].start if index + 1 < len(parts) else max(parent.end, part.value.end)
    if comma is None or comma.end() > limit:
        start = parts[index - 1].value.end if index else part.start
        return text[:start] + text[part.value.end :]
    line = _line_start(text, part.start)
    rest = _REST_OF_LINE.match(text, comma.end())
    if text[line : part.start].strip() or rest is None:
        return text[: part.start] + text[comma.end() :].lstrip(" ")
    return text[:line] + text[rest.end() + 1 :]


def _children(node: Node) -> list[_Child]:
    if node.kind == "map":
        return [_Child(entry.start, entry.value) for entry in node.value]
    return [_Child(item.start, item) for item in node.value]


def _content_end(text: str, node: Node) -> int:
    """Where the last thing written in a node ends; what YAML counts to it beyond that is blank lines and comments."""
    if node.block and node.value:
        return max(_content_end(text, part.value) for part in _children(node))
    end = node.end
    while end > node.start and text[end - 1] in "\n\r ":
        end -= 1
    return end


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
