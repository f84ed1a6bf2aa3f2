"""Styled text as the HTML that Telegram takes (https://core.telegram.org/bots/api#html-style)."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.common.styled_text import Span, Styled

_TAGS = {"bold": "b", "italic": "i", "strike": "s", "quote": "blockquote"}
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def html(styled: Styled, within: frozenset[str] = frozenset()) -> str:
    """Return Telegram's HTML. A style inside the same style adds nothing, for block quotes must not be nested."""
    return "".join(escape(part, quote=False) if isinstance(part, str) else _span(part, within) for part in styled)


def _span(span: Span, within: frozenset[str]) -> str:
    inside = html(span.parts, within | {span.style})
    if span.style in within or not inside:
        return inside
    match span.style:
        case "code":
            return f"<code>{inside}</code>"
        case "pre" if _LANGUAGE.fullmatch(span.detail):
            return f'<pre><code class="language-{span.detail}">{inside}</code></pre>'
        case "pre":
            return f"<pre>{inside}</pre>"
        case "link":
            return f'<a href="{escape(span.detail)}">{inside}</a>'
        case _:
            return f"<{_TAGS[span.style]}>{inside}</{_TAGS[span.style]}>"
