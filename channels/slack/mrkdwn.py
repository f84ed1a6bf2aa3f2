"""Writes styled text as Slack's mrkdwn (https://docs.slack.dev/messaging/formatting-message-text).

Everything that Slack would read as a command is escaped, so that a model's text cannot notify people.
"""

from __future__ import annotations

import re

from channels.common.markdown import styled
from channels.common.styled_text import Span, Styled, plain

_MARKS = {"bold": "*", "italic": "_", "strike": "~"}
_WORDLESS = "\u200b"
_ADDRESS = re.compile(r"(https?://[^\s<>]+)")
_MARK = re.compile(r"(?<!\w)([*_~`])(?=\S)")
_QUOTE = re.compile(r"(?m)^&gt;")


def written(markdown: str) -> str:
    """Return a reply as Slack takes it."""
    return mrkdwn(styled(markdown))


def mrkdwn(content: Styled, within: frozenset[str] = frozenset()) -> str:
    """Return Slack's mrkdwn. A style inside the same style adds nothing."""
    return "".join(_text(part) if isinstance(part, str) else _span(part, within) for part in content)


def escaped(text: str) -> str:
    """Return text in which Slack sees no command."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _text(text: str) -> str:
    """Escape, and part a mark from its word, for mrkdwn has no escape for marks."""
    parts = _ADDRESS.split(text)
    parts[::2] = [_MARK.sub(rf"\1{_WORDLESS}", part) for part in parts[::2]]
    return _QUOTE.sub(f"{_WORDLESS}&gt;", escaped("".join(parts)))


def _span(span: Span, within: frozenset[str]) -> str:
    if span.style == "code" and "\n" not in plain(span.parts):
        return f"`{escaped(plain(span.parts)).replace('`', 'ˋ')}`"
    if span.style in {"code", "pre"}:
        return f"```\n{escaped(plain(span.parts)).replace('```', f'``{_WORDLESS}`')}\n```"
    inside = mrkdwn(span.parts, within | {span.style})
    if span.style in within or not inside.strip():
        return inside
    match span.style:
        case "quote":
            return "\n".join(f"> {line}" for line in inside.split("\n"))
        case "link":
            label = escaped(plain(span.parts)).replace("|", "¦").replace("\n", " ")
            return f"<{escaped(span.detail).replace('|', '%7C')}|{label}>"
        case _:
            return _marked(inside, _MARKS[span.style])


def _marked(inside: str, mark: str) -> str:
    """Mark each line, for marks do not reach over line ends, and blanks inside them are not taken."""
    lines = []
    for line in inside.split("\n"):
        core = line.strip()
        before = line[: len(line) - len(line.lstrip())]
        lines.append(f"{before}{mark}{core}{mark}{line[len(before) + len(core) :]}" if core else line)
    return "\n".join(lines)
