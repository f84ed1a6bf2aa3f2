"""Writes a message as the Web API takes it: Markdown with escaped commands, or mrkdwn, and buttons.

Everything that Slack would read as a command is escaped, so that a model's text cannot notify people. Slack reads ``<!channel>`` and
``<@U…>`` in Markdown too, and Markdown has no escape for them, so a zero-width character is put between the bracket and what follows.
https://docs.slack.dev/messaging/formatting-message-text
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from channels.common.chunking import fitted
from channels.common.line_marks import WORDLESS, marked, parted
from channels.common.markdown import Span, Styled, plain, styled
from channels.messages import Button

MOST_MARKDOWN = 12_000
ACTIONS = "homebody"
"""How our own block of buttons begins its name."""
_MOST_SECTION = 2900
_MOST_LABEL = 75
_MOST_BUTTONS = 25
_COMMAND = re.compile(r"<(?=@|#|!(?!--|DOCTYPE|\[CDATA))")
_PERHAPS = re.compile(r"<!?[A-Z\[-]{0,8}\Z")
_APART = "\u200b"


def harmless(markdown: str) -> str:
    """Return Markdown with escaped commands, so that a model's text cannot notify people."""
    return _COMMAND.sub(f"<{_APART}", markdown)


def streamable(markdown: str, limit: int) -> str:
    """Return the beginning of a text that does not change as the text grows: a possible command at its end is held back."""
    return harmless(_PERHAPS.sub("", markdown[:limit]))


def longer(markdown: str) -> str:
    """Return the longer of a text's two forms."""
    return max(written(markdown), harmless(markdown), key=len)


def letter(markdown: str, buttons: tuple[Button, ...] = (), *, as_markdown: bool) -> dict[str, Any]:
    """Return the arguments of ``chat.postMessage`` and ``chat.update`` for this message."""
    if buttons:
        blocks = [{"type": "markdown", "text": harmless(markdown)}] if as_markdown else sections(markdown)
        return {"text": written(markdown), "blocks": [*blocks, actions(buttons)]}
    return {"markdown_text": harmless(markdown)} if as_markdown else {"text": written(markdown)}


def sections(markdown: str) -> list[dict[str, Any]]:
    """Return a text as blocks of mrkdwn, which hold less than a message."""
    pieces = fitted(markdown, _MOST_SECTION, written)
    return [{"type": "section", "text": {"type": "mrkdwn", "text": written(piece)}} for piece in pieces]


def actions(buttons: Iterable[Button]) -> dict[str, Any]:
    """Return the block that shows buttons. Their ids only have to differ: the value says what was pressed."""
    shown = [
        {
            "type": "button",
            "action_id": f"{ACTIONS}-{number}",
            "text": {"type": "plain_text", "text": _label(button.label), "emoji": True},
            "value": button.value,
        }
        for number, button in enumerate(buttons)
    ]
    return {"type": "actions", "block_id": ACTIONS, "elements": shown[:_MOST_BUTTONS]}


def pressed(blocks: Iterable[dict[str, Any]], label: str) -> list[dict[str, Any]]:
    """Return a message's blocks with the pressed label in place of its buttons."""
    left = [block for block in blocks if block.get("type") != "actions"]
    return [*left, {"type": "context", "elements": [{"type": "plain_text", "text": f"✓ {_label(label)}"}]}]


def _label(text: str) -> str:
    cut = " ".join(text.split()) or "…"
    return cut if len(cut) <= _MOST_LABEL else f"{cut[: _MOST_LABEL - 1]}…"


_MARKS = {"bold": "*", "italic": "_", "strike": "~"}
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
    """Escape, and separate a mark from its word, because mrkdwn has no escape for marks."""
    return _QUOTE.sub(f"{WORDLESS}&gt;", escaped(parted(text)))


def _span(span: Span, within: frozenset[str]) -> str:
    if span.style == "code" and "\n" not in plain(span.parts):
        return f"`{escaped(plain(span.parts)).replace('`', 'ˋ')}`"
    if span.style in {"code", "pre"}:
        return f"```\n{escaped(plain(span.parts)).replace('```', f'``{WORDLESS}`')}\n```"
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
            return marked(inside, _MARKS[span.style])
