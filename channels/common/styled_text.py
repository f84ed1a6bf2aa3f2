"""Styled text: what every messenger can show in some way. Text with nested styles and no block structure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Style = Literal["bold", "italic", "strike", "code", "pre", "quote", "link"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch in one style. ``detail`` is a link's address or a code block's language. Code holds a plain string only."""

    style: Style
    parts: Styled
    detail: str = ""


Styled = tuple["str | Span", ...]


def plain(styled: Styled) -> str:
    """Return the text without its styles: what a reader of the plain form gets, and what platforms count."""
    return "".join(part if isinstance(part, str) else plain(part.parts) for part in styled)


def prefixed(styled: Styled, prefix: str) -> Styled:
    """Return the text with a prefix on every further line that is not empty, except inside code blocks, where it would become code."""
    return tuple(
        re.sub(r"\n(?!\n)", "\n" + prefix, part)
        if isinstance(part, str)
        else part
        if part.style == "pre"
        else Span(part.style, prefixed(part.parts, prefix), part.detail)
        for part in styled
    )
