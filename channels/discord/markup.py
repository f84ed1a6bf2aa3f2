"""Writes styled text as Discord Markdown (https://discord.com/developers/docs/reference#message-formatting)."""

from __future__ import annotations

import re

from channels.common.markdown import Span, Styled, plain, styled

_MARKS = {"bold": "**", "italic": "*", "strike": "~~"}
_ADDRESS = re.compile(r"(https?://[^\s<>]+)")
_SPECIAL = re.compile(r"([\\*_~`|\[])")
_LINE_START = re.compile(r"(?m)^(\s*)([>#+-](?=[\s>#-])|>>>|-#)")
_NUMBER = re.compile(r"[\w+#.-]{1,40}")
_WORDLESS = "\u200b"


def written(markdown: str) -> str:
    """Return a reply as Discord Markdown. Plain text stays plain text."""
    return markup(styled(markdown))


def markup(content: Styled, within: frozenset[str] = frozenset()) -> str:
    """Return Discord's Markdown. A style inside the same style adds nothing."""
    return "".join(_escaped(part) if isinstance(part, str) else _span(part, within) for part in content)


def _escaped(text: str) -> str:
    """Escape all marks except in URLs, which Discord takes literally."""
    parts = _ADDRESS.split(text)
    parts[::2] = [_LINE_START.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", part)) for part in parts[::2]]
    return "".join(parts)


def _span(span: Span, within: frozenset[str]) -> str:
    if span.style in {"code", "pre"}:
        return _code(span)
    inside = markup(span.parts, within | {span.style})
    if span.style in within or not inside.strip():
        return inside
    match span.style:
        case "quote":
            return "\n".join(f"> {line}" for line in inside.split("\n"))
        case "link":
            label = plain(span.parts)
            return span.detail if label == span.detail else f"[{inside}]({span.detail.replace(')', '%29')})"
        case _:
            mark = _MARKS[span.style]
            core = inside.strip()
            before = inside[: len(inside) - len(inside.lstrip())]
            return f"{before}{mark}{core}{mark}{inside[len(before) + len(core) :]}"


def _code(span: Span) -> str:
    code = plain(span.parts)
    if span.style == "code" and "\n" not in code:
        return f"``{_WORDLESS}{code}{_WORDLESS}``" if "`" in code else f"`{code}`"
    language = span.detail if _NUMBER.fullmatch(span.detail) else ""
    return f"```{language}\n{code.replace('```', f'``{_WORDLESS}`')}\n```"
