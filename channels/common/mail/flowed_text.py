"""Joins the lines of a text whose program wrapped them and says so: ``format=flowed`` (RFC 3676)."""

from __future__ import annotations

from typing import Final

_SIGNATURE: Final = b"-- "
"""The line above a signature: it ends with a space and is not joined."""


def joined_lines(text: bytes, *, without_space: bool) -> bytes:
    """Return the text with each paragraph in one line, behind its marks of quotation. The encoding is one that contains ASCII.

    A line that ends with a space goes on in the next one of the same depth of quotation. ``without_space``: that space is no part of
    the text (``DelSp=yes``). One space at the beginning of a line is no part of it either; it stays before a ">" that
    is no mark.
    """
    paragraphs: list[tuple[int, bytes]] = []
    goes_on = False
    for written in text.removesuffix(b"\n").split(b"\n"):
        line = written.removesuffix(b"\r")
        content = line.lstrip(b">")
        depth = len(line) - len(content)
        content = content.removeprefix(b" ")
        signature = content == _SIGNATURE
        flowed = content.endswith(b" ") and not signature
        if goes_on and paragraphs[-1][0] == depth and not signature:
            content = paragraphs.pop()[1] + content
        paragraphs.append((depth, content[:-1] if flowed and without_space else content))
        goes_on = flowed
    joined = b"\n".join(
        b">" * depth + (b" " if (depth and content) or content.startswith(b">") else b"") + content
        for depth, content in paragraphs
    )
    return joined + (b"\n" if text.endswith(b"\n") else b"")
