"""Writes Markdown as the HTML that Matrix allows (https://spec.matrix.org/latest/client-server-api/#mroommessage-msgtypes).

Raw HTML in a text is shown as text, pictures become links, and addresses that name another host than they lead to stay text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from channels.common.chunking import fitted
from channels.common.markdown import LINKS, misleads, parsed, plain, styled

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

HTML: Final = "org.matrix.custom.html"
EVENT_BYTES: Final = 40_000
"""The most that the content of a message takes: an event has at most 65,536 bytes, of which encryption takes a third."""
KEY: Final = "dev.homebody.key"
"""The field of a message that holds the key of its outbox row, by which it is found again after a new login."""
_MARKS: Final = {"strong": "strong", "em": "em", "s": "del"}
_CONTAINERS: Final = frozenset({"blockquote", "bullet_list", "list_item", "table", "thead", "tbody", "tr"})
_PLAIN_TEXT = re.compile(r"<p>[^<>]*</p>")
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def chunks(markdown: str, limit: int, *, apart: bool = False) -> list[str]:
    """Split a reply into messages of at most ``limit`` letters and ``EVENT_BYTES`` bytes."""
    pieces = fitted(markdown, limit, body, apart=apart)
    return [
        small for piece in pieces for small in ([piece] if _size(piece) <= EVENT_BYTES else fitted(piece, EVENT_BYTES, _wire))
    ]


def _wire(piece: str) -> str:
    """Return the content as it is sent, a character for each byte."""
    return json.dumps(text_content(piece), ensure_ascii=False).encode("utf-8", "replace").decode("latin-1")


def _size(piece: str) -> int:
    return len(_wire(piece))


def text_content(markdown: str, msgtype: str = "m.text") -> dict[str, Any]:
    """Return the content of a message. ``m.mentions`` is empty, so that it notifies nobody by name."""
    content: dict[str, Any] = {"msgtype": msgtype, "body": body(markdown), "m.mentions": {}}
    formatted = html(markdown)
    if not _PLAIN_TEXT.fullmatch(formatted):
        content |= {"format": HTML, "formatted_body": formatted}
    return content


def edit_content(message: str, markdown: str) -> dict[str, Any]:
    """Return the content of an event that replaces the text of a message."""
    fresh = text_content(markdown)
    return {
        "msgtype": "m.text",
        "body": f"* {fresh['body']}",
        "m.new_content": fresh,
        "m.mentions": {},
        "m.relates_to": {"rel_type": "m.replace", "event_id": message},
    }


def body(markdown: str) -> str:
    """Return the text without marks, for clients and notifications that show no HTML."""
    return plain(styled(markdown))


def html(markdown: str) -> str:
    """Return a text as HTML. Never raises: what cannot be parsed is shown as it was written."""
    from markdown_it.tree import SyntaxTreeNode

    clean = markdown if markdown.isascii() else markdown.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    tokens = parsed(clean)
    if tokens is None:
        return f"<p>{_text(clean)}</p>"
    return "".join(_block(node) for node in SyntaxTreeNode(tokens).children)


def _text(text: str) -> str:
    return escape(text, quote=False).replace("\n", "<br>")


def _inside(nodes: Sequence[SyntaxTreeNode], write: Callable[[SyntaxTreeNode], str]) -> str:
    return "".join(write(node) for node in nodes)


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "paragraph":
            inner = _inside(node.children, _inline)
            return inner if node.hidden else f"<p>{inner}</p>"
        case "fence" | "code_block":
            return _code_block(node)
        case "ordered_list":
            return _ordered(int(node.attrs.get("start", 1)), _inside(node.children, _block))
        case "heading" | "th" | "td":
            return f"<{node.tag}>{_inside(node.children, _inline)}</{node.tag}>"
        case kind if kind in _CONTAINERS:
            return f"<{node.tag}>{_inside(node.children, _block)}</{node.tag}>"
        case _:
            return "<hr>" if node.type == "hr" else _inline(node)


def _ordered(start: int, items: str) -> str:
    return f"<ol>{items}</ol>" if start == 1 else f'<ol start="{start}">{items}</ol>'


def _code_block(node: SyntaxTreeNode) -> str:
    words = node.info.split(maxsplit=1) if node.type == "fence" else []
    language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else ""
    kind = f' class="language-{language}"' if language else ""
    return f"<pre><code{kind}>{escape(node.content, quote=False)}</code></pre>"


def _inline(node: SyntaxTreeNode) -> str:
    match node.type:
        case "inline":
            return _inside(node.children, _inline)
        case "strong" | "em" | "s":
            tag = _MARKS[node.type]
            return f"<{tag}>{_inside(node.children, _inline)}</{tag}>"
        case "code_inline":
            return f"<code>{escape(node.content, quote=False)}</code>"
        case "link" | "image":
            return _link(node)
        case "softbreak" | "hardbreak":
            return "<br>"
        case _:
            return _text(node.content)


def _link(node: SyntaxTreeNode) -> str:
    address = str(node.attrs.get("href") or node.attrs.get("src") or "")
    label = node.content if node.type == "image" else _words(node)
    if not label.strip():
        label = address
    inner = _inside(node.children, _inline) if node.type == "link" and node.children else _text(label)
    if address.lower().startswith(LINKS) and not misleads(label, address):
        return f'<a href="{escape(address)}">{inner}</a>'
    return inner if not address or address == label else f"{inner} ({_text(address)})"


def _words(node: SyntaxTreeNode) -> str:
    return "".join(_words(child) if child.children else child.content for child in node.children)


def reply_to(content: dict[str, Any], *, thread: str | None, message: str | None) -> dict[str, Any]:
    """Return the content in a thread, as a reply to a message, or as it is."""
    relation: dict[str, Any] = {}
    if thread is not None:
        relation = {"rel_type": "m.thread", "event_id": thread, "is_falling_back": message is None}
        relation["m.in_reply_to"] = {"event_id": message or thread}
    elif message is not None:
        relation = {"m.in_reply_to": {"event_id": message}}
    return {**content, "m.relates_to": relation} if relation else content


def said(content: Mapping[str, Any]) -> str:
    """Return the text of a message without what it quotes of the message that it answers."""
    text = str(content.get("body") or "")
    if "m.relates_to" in content and text.startswith("> <"):
        lines = text.split("\n")
        rest = next((number for number, line in enumerate(lines) if not line.startswith("> ")), len(lines))
        text = "\n".join(lines[rest:])
    return text.strip()
