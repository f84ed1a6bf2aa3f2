"""The HTML that Telegram takes, parsed as strictly as its documentation says (https://core.telegram.org/bots/api#html-style)."""

from __future__ import annotations

import re
from typing import Any

_NAMES = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[a-z][a-z0-9-]*)(?P<attributes>(?:\s+[a-z-]+(?:=\"[^\"<>]*\")?)*)\s*>")
_ATTRIBUTE = re.compile(r"([a-z-]+)(?:=\"([^\"]*)\")?")
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(lt|gt|amp|quot));")


class Unparsable(Exception):
    """The text is no HTML that Telegram takes."""


def units(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def parse(source: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the text and its entities; raise Unparsable as the server would describe it."""
    text = ""
    entities: list[dict[str, Any]] = []
    stack: list[tuple[str, int, dict[str, str]]] = []
    position = 0
    while position < len(source):
        letter = source[position]
        if letter == "<":
            tag = _TAG.match(source, position)
            if tag is None:
                raise Unparsable(f"Unsupported start tag at byte offset {_byte(source, position)}")
            if tag["end"]:
                _close(tag["name"], stack, entities, text, _byte(source, position))
            else:
                _open(tag, stack, text, _byte(source, position))
            position = tag.end()
        elif letter == "&" and (reference := _REFERENCE.match(source, position)):
            text += _decoded(reference)
            position = reference.end()
        else:
            text += letter
            position += 1
    if stack:
        raise Unparsable(f'Can\'t find end tag corresponding to start tag "{stack[-1][0]}"')
    return text, sorted(entities, key=lambda one: (one["offset"], -one["length"]))


def _byte(source: str, position: int) -> int:
    return len(source[:position].encode())


def _decoded(reference: re.Match[str]) -> str:
    if reference[3]:
        return _ENTITIES[reference[3]]
    return chr(int(reference[1]) if reference[1] else int(reference[2], 16))


def _open(tag: re.Match[str], stack: list[tuple[str, int, dict[str, str]]], text: str, offset: int) -> None:
    name = tag["name"]
    attributes = {key: _REFERENCE.sub(_decoded, value) for key, value in _ATTRIBUTE.findall(tag["attributes"])}
    within = [one[0] for one in stack]
    if name not in _NAMES:
        raise Unparsable(f'Unsupported start tag "{name}" at byte offset {offset}')
    if name == "a" and not attributes.get("href"):
        raise Unparsable(f"Tag a without an address at byte offset {offset}")
    if name in within and name in {"blockquote", "a", "pre", "code"}:
        raise Unparsable(f'Tag "{name}" must not be nested, at byte offset {offset}')
    if ("pre" in within and not (name == "code" and within[-1] == "pre")) or "code" in within:
        raise Unparsable(f'Code must not contain "{name}", at byte offset {offset}')
    stack.append((name, units(text), attributes))


def _close(
    name: str, stack: list[tuple[str, int, dict[str, str]]], entities: list[dict[str, Any]], text: str, offset: int
) -> None:
    if not stack:
        raise Unparsable(f"Unexpected end tag at byte offset {offset}")
    opened, start, attributes = stack.pop()
    if opened != name:
        raise Unparsable(f'Unmatched end tag at byte offset {offset}, expected "</{opened}>", found "</{name}>"')
    entity: dict[str, Any] = {"type": _NAMES[name], "offset": start, "length": units(text) - start}
    if name == "a":
        entity["url"] = attributes["href"]
    if name == "code" and stack and stack[-1][0] == "pre":
        stack[-1][2]["language"] = attributes.get("class", "").removeprefix("language-")
        return
    if name == "pre" and attributes.get("language"):
        entity["language"] = attributes["language"]
    if entity["length"]:
        entities.append(entity)
