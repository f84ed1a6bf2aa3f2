"""Styled text: nested styles without block structure, which every platform writes in its own notation."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

Style = Literal["bold", "italic", "strike", "code", "pre", "quote", "link"]


class Span(Struct, frozen=True):
    """Text in one style. ``detail`` is a link's address or a code block's language. Code holds one plain string."""

    style: Style
    parts: Styled
    detail: str = ""


Styled = tuple["str | Span", ...]


def plain(styled: Styled) -> str:
    """Return the text without styles, which is what platforms count."""
    return "".join(part if isinstance(part, str) else plain(part.parts) for part in styled)


def prefixed(styled: Styled, prefix: str) -> Styled:
    """Return the text with a prefix on every further non-empty line, except inside code blocks."""
    return tuple(
        re.sub(r"\n(?!\n)", "\n" + prefix, part)
        if isinstance(part, str)
        else part
        if part.style == "pre"
        else Span(part.style, prefixed(part.parts, prefix), part.detail)
        for part in styled
    )
