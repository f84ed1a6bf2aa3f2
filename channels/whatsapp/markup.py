"""Writes Markdown in WhatsApp's own marks: *bold*, _italic_, ~strike~, `code`, ``` blocks and > quotes.

WhatsApp knows no escape, so that a mark which stands in the text itself is parted from its word by a character without width.
https://faq.whatsapp.com/539178204879377
"""

from __future__ import annotations

import re
from typing import Final

from channels.common.line_marks import WORDLESS, marked, parted
from channels.common.markdown import Span, Styled, plain, styled

_MARKS: Final = {"bold": "*", "italic": "_", "strike": "~"}
_QUOTE: Final = re.compile(r"(?m)^>")


def written(markdown: str) -> str:
    """Return a reply as WhatsApp shows it."""
    return _written(styled(markdown), frozenset())


def _written(content: Styled, within: frozenset[str]) -> str:
    return "".join(_text(part) if isinstance(part, str) else _span(part, within) for part in content)


def _text(text: str) -> str:
    return _QUOTE.sub(f"{WORDLESS}>", parted(text))


def _span(span: Span, within: frozenset[str]) -> str:
    text = plain(span.parts)
    if span.style == "code" and "\n" not in text:
        return f"`{text.replace('`', 'ˋ')}`"
    if span.style in {"code", "pre"}:
        return f"```\n{text.replace('```', f'``{WORDLESS}`')}\n```"
    inside = _written(span.parts, within | {span.style})
    if span.style == "link":
        return inside if not span.detail or text == span.detail else f"{inside} ({span.detail})"
    if span.style in within or not inside.strip():
        return inside
    if span.style == "quote":
        return "\n".join(f"> {line}" for line in inside.split("\n"))
    return marked(inside, _MARKS[span.style])
