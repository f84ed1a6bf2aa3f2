"""Set or remove one setting in the text of a settings file; every other character stays: comments, order, quotes, spacing.

Own code because a round trip through ruamel.yaml lays untouched lines out anew (indentation, spaces in brackets, folded text). The
position of the value comes from the syntax tree, and only that part of the text is replaced. The result is parsed again and compared
with the intended values; where they differ (the place is an alias, say), the edit is refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

from gateway.base.errors import HomebodyError, SettingsError
from gateway.config.document import Document, is_json5, read_document
from gateway.config.syntax_tree import KeyPath, Node, dotted_key, plain
from gateway.config.yaml_format import yaml_lines

_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*[^\n]*?\*/[ \t]*|#[^\n]*)?(?=\n|\Z)")
_COMMA = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|#[^\n]*)*,", re.DOTALL)
_BARE_KEY = re.compile(r"(?!(?:null|true|false|yes|no|on|off|y|n)\Z)[A-Za-z_$][A-Za-z0-9_$]*", re.IGNORECASE)
_UNPRINTABLE = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


class EditRefused(HomebodyError):
    """Raised when a setting cannot be changed at its place; nothing was written."""


def with_value(document: Document, path: KeyPath, value: Any) -> str:
    """Return the text with ``path`` set to ``value``; missing sections are added. Raises EditRefused."""
    text, root = document.text, document.root
    expected = _expected(plain(root), path, value)
    if root is None:
        return _verified(document, _first(document, _nested(path, value)), expected, path)
    node, depth, block = root, 0, root.block
    while depth < len(path) and (below := node.child(path[depth])) is not None:
        node, depth, block = below, depth + 1, block and node.block
    rest = path[depth:]
    if not rest or not isinstance(node.value, dict | list):
        after = _replaced(text, node, _nested(rest, value), block=block)
    elif node.block and not _written_in(node):
        raise _refusal(document, path)  # all its keys come from elsewhere, by `<<`
    elif node.block:
        after = _block_appended(text, node, rest[0], _nested(rest[1:], value))
    else:
        after = _bracket_appended(text, node, rest[0], _nested(rest[1:], value))
    return _verified(document, after, expected, path)


def without(document: Document, path: KeyPath) -> str:
    """Return the text with ``path`` removed. Raises EditRefused, also when it is not set."""
    parent = document.root
    for step in path[:-1]:
        parent = parent.child(step) if parent else None
    removed = parent.child(path[-1]) if parent else None
    if parent is None or removed is None:
        raise EditRefused(f"{dotted_key(path)} is not set in {document.file}", hint="`homebody config get` shows what is set.")
    expected = section = plain(document.root)
    for step in path[:-1]:
        section = section[step]
    del section[path[-1]]
    parts = _written_in(parent)
    if removed not in parts:
        raise _refusal(document, path)
    cut = _block_cut if parent.block else _bracket_cut
    return _verified(document, cut(document.text, parent, parts, parts.index(removed)), expected, path)


def bracketed(value: Any) -> str:
    """Write a value on one line as JSON, which YAML and JSON5 both read."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _expected(values: Any, path: KeyPath, value: Any) -> Any:
    """Return the values as they are to be after the change, which also says whether ``path`` fits them."""
    here = values
    for depth, step in enumerate(path[:-1], 1):
        below = here.get(step) if isinstance(here, dict) else here[step] if _has(here, step) else None
        if below is None:
            _put(here, step, _nested(path[depth:], value), path)
            return values
        if not isinstance(below, dict | list):
            raise EditRefused(f"{dotted_key(path[:depth])} is a single value, not a section", hint="Unset it first.")
        here = below
    _put(here, path[-1], value, path)
    return values


def _put(here: Any, step: str | int, value: Any, path: KeyPath) -> None:
    if (isinstance(here, dict) and isinstance(step, str)) or _has(here, step):
        here[step] = value
    elif isinstance(here, list) and step == len(here):
        here.append(value)
    elif isinstance(here, list):
        raise EditRefused(f"{dotted_key(path)} does not fit: a list takes [0], [1] ..., and [n] only where n - 1 is")
    else:
        raise EditRefused(f"{dotted_key(path)} does not fit: a section takes names")


def _has(here: Any, step: str | int) -> bool:
    return isinstance(here, list) and isinstance(step, int) and step < len(here)


def _nested(path: KeyPath, value: Any) -> Any:
    for step in reversed(path):
        if isinstance(step, int) and step:
            raise EditRefused(f"a new list begins at [0], not at [{step}]")
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _verified(document: Document, text: str, expected: Any, path: KeyPath) -> str:
    try:
        if _without_empty(plain(read_document(text, document.file).root)) == _without_empty(expected):
            return text
    except SettingsError:
        pass
    raise _refusal(document, path)


def _refusal(document: Document, path: KeyPath) -> EditRefused:
    return EditRefused(
        f"{dotted_key(path)} cannot be changed here without touching other settings",
        where=document.file,
        hint="Change it by hand in an editor, then run: homebody config validate",
    )


def _without_empty(value: Any) -> Any:
    """Leave out empty sections and lists: a key without a value means the same as no key."""
    if isinstance(value, dict):
        return {key: kept for key, child in value.items() if (kept := _without_empty(child)) is not None} or None
    return [_without_empty(item) for item in value] or None if isinstance(value, list) else value


def _first(document: Document, value: Any) -> str:
    """Write the first settings of a file that holds none, below its comments."""
    head = document.text if not document.text or document.text.endswith("\n") else document.text + "\n"
    if is_json5(document.file):
        return head + json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    head = re.sub(r"^---[ \t]*\n|\A(?:null|~)\s*\Z", "", head, flags=re.MULTILINE)
    return head + "\n".join(yaml_lines(value)) + "\n"


def _replaced(text: str, node: Node, value: Any, *, block: bool) -> str:
    """Write ``value`` in place of ``node``. ``block``: the place is not within brackets."""
    start, end = node.start, _content_end(text, node)
    if not block:
        return text[:start] + bracketed(value) + text[end:]
    rows = yaml_lines(value)
    single = not isinstance(value, dict | list) or not value
    if node.block:
        if single and (before := text[:start].rstrip()).endswith(":"):
            return f"{before} {rows[0]}{text[end:]}"
        column, key_column = (at - _line_start(text, at) for at in (start, node.entry_start))
        below_key = isinstance(value, dict) and node.entry_start < start and column == key_column  # its list was not indented
        first, margin = ("  ", " " * (column + 2)) if below_key else ("", " " * column)
        return text[:start] + first + f"\n{margin}".join(rows) + text[end:]
    if single:
        space = "" if text[start - 1 : start].isspace() else " "
        return text[:start] + space + rows[0] + text[end:]
    line = text[_line_start(text, start) : start]
    margin = " " * (len(line) - len(line.lstrip(" -")) + 2)
    return text[:start].rstrip(" ") + "".join(f"\n{margin}{row}" for row in rows) + text[end:]


def _block_appended(text: str, node: Node, step: str | int, value: Any) -> str:
    """Add a key or an item below the last one of an indented section or list."""
    first = _starts(text, node, _written_in(node))[0]
    margin = " " * (first - _line_start(text, first))
    rows = yaml_lines([value] if isinstance(step, int) else {step: value})
    at = _line_end(text, _content_end(text, node))
    return text[:at] + "".join(f"\n{margin}{row}" for row in rows) + text[at:]


def _bracket_appended(text: str, node: Node, step: str | int, value: Any) -> str:
    """Add a key or an item behind the last one within brackets, in its style: bare keys, own lines, a trailing comma."""
    parts = _written_in(node)
    bare = bool(parts) and text[parts[0].entry_start] not in "\"'" and isinstance(step, str) and _BARE_KEY.fullmatch(step)
    new = bracketed(value) if isinstance(step, int) else f"{step if bare else bracketed(step)}: {bracketed(value)}"
    if not parts:
        return text[: node.start + 1] + new + text[node.start + 1 :]
    last = parts[-1]
    row = text[_line_start(text, last.entry_start) : last.entry_start]
    comma = _COMMA.match(text, last.end)
    if comma is None or comma.end() > max(node.end, last.end):
        at, head, after = last.end, f"{text[: last.end]},", ""
    else:
        at, head, after = comma.end(), text[: comma.end()], ","
    if row.strip():
        return f"{head} {new}{after}{text[at:]}"
    rest = _REST_OF_LINE.match(text, at)
    beside = rest[0] if rest else ""
    return f"{head}{beside}\n{row}{new}{after}{text[at + len(beside) :]}"


def _block_cut(text: str, parent: Node, parts: list[Node], index: int) -> str:
    """Remove the lines of one child of an indented section or list."""
    starts = _starts(text, parent, parts)
    start, end = starts[index], _content_end(text, parts[index])
    line = _line_start(text, start)
    if not text[line:start].strip():
        return text[:line] + text[_line_end(text, end) + 1 :]
    if index + 1 < len(parts):  # it shares its line with the dash of a list
        return text[:start] + text[starts[index + 1] :]
    return text[:start] + ("[]" if isinstance(parent.value, list) else "{}") + text[end:]


def _bracket_cut(text: str, parent: Node, parts: list[Node], index: int) -> str:
    """Remove one child within brackets, and the comma that is left over."""
    part = parts[index]
    head, end = text[: part.entry_start], part.end
    limit = parts[index + 1].entry_start if index + 1 < len(parts) else max(parent.end, part.end)
    comma = _COMMA.match(text, end)
    is_last = comma is None or comma.end() > limit
    if comma is not None and not is_last:
        end = comma.end()
    elif index and (before := _COMMA.match(text, parts[index - 1].end)):
        head = head[: before.end() - 1] + head[before.end() :]
    line = _line_start(head, len(head))
    rest = _REST_OF_LINE.match(text, end)
    if rest and not head[line:].strip():
        return head[:line] + text[rest.end() + 1 :]
    return head.rstrip(" ") + text[end:] if is_last else head + text[end:].lstrip(" ")


def _written_in(node: Node) -> list[Node]:
    """Return the children that stand in the text of ``node`` itself, without those that ``<<`` takes from elsewhere."""
    return [child for _, child in node.children() if node.start <= child.entry_start <= node.end]


def _starts(text: str, node: Node, parts: list[Node]) -> list[int]:
    """Return where each child of an indented section or list begins: its key, or its dash."""
    return [text.rindex("-", 0, part.start) if isinstance(node.value, list) else part.entry_start for part in parts]


def _content_end(text: str, node: Node) -> int:
    """Return where the last value in a node ends; PyYAML counts the blank lines and comments below it to the node."""
    if node.block and (parts := _written_in(node)):
        return max(_content_end(text, part) for part in parts)
    end = node.end
    while end > node.start and text[end - 1] in "\n\r ":
        end -= 1
    return end


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
