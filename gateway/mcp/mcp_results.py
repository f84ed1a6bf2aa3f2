"""What a server answered, as a model is shown it: text, pictures, and files for what is neither or too long."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from agent.errors import InvalidImage
from agent.messages import Image
from agent.taint import source
from agent.tools.image_resize import resized
from agent.tools.protocol import Outcome, ToolContext
from gateway.mcp.filing import Files

MOST_PICTURES: Final = 4
"""Pictures of one answer that a model is shown; the others are kept as files."""
_SHOWN: Final = 0.75
"""The share of what may be shown that goes to the beginning of a long text; the rest shows its end."""
_SHORT: Final = 300


def source_of(server: str) -> str:
    """Return the name of a server as a source of untrusted text."""
    return source("mcp", server)


@dataclass
class _Answer:
    """Collects what is shown."""

    server: str
    files: Files
    now: datetime
    texts: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)

    def add(self, block: Mapping[str, Any]) -> None:
        """Add one block of content, as the protocol writes it. Blocking."""
        kind = block.get("type")
        if kind == "text":
            self.texts.append(str(block.get("text", "")))
        elif kind == "image":
            self._picture(str(block.get("data", "")), str(block.get("mimeType", "")))
        elif kind == "audio":
            self._file(str(block.get("data", "")), str(block.get("mimeType", "")), "a recording")
        elif kind == "resource_link":
            about = [str(block[key]) for key in ("title", "name", "description", "mimeType") if block.get(key)]
            self.texts.append(f"[resource {block.get('uri')}: {'; '.join(dict.fromkeys(about))[:_SHORT]}]")
        elif kind == "resource":
            self.resource(block.get("resource") or {})
        else:
            self.texts.append(f"[content of the kind {str(kind)[:40]!r}, which is not known]")

    def resource(self, content: Mapping[str, Any]) -> None:
        """Add the content of a resource. Blocking."""
        uri, media_type = str(content.get("uri", ""))[:_SHORT], str(content.get("mimeType") or "")
        if "text" in content:
            self.texts.append(f"[{uri}]\n{content['text']}")
        elif media_type.startswith("image/"):
            self._picture(str(content.get("blob", "")), media_type)
        else:
            self._file(str(content.get("blob", "")), media_type or "application/octet-stream", uri)

    def _picture(self, encoded: str, media_type: str) -> None:
        data = _decoded(encoded)
        if data is None:
            self.texts.append("[a picture that is no base64]")
            return
        if len(self.images) >= MOST_PICTURES:
            self._file(encoded, media_type, "a further picture")
            return
        try:
            self.images.append(resized(data))
        except InvalidImage as refused:
            self._file(encoded, media_type, f"a picture that cannot be shown ({refused})")

    def _file(self, encoded: str, media_type: str, what: str) -> None:
        data = _decoded(encoded)
        path = self.files.keep(data, media_type, source_of(self.server), self.now) if data is not None else ""
        where = f"kept as {path}" if path else "not kept"
        self.texts.append(f"[{what}, {media_type[:60]}, {len(data or b''):,} bytes: {where}]")

    def text(self, most: int) -> str:
        """Return the text for a model; what is longer is kept as a file, and its beginning and end are shown. Blocking."""
        whole = "\n".join(self.texts)
        if len(whole) <= most:
            return whole or ("" if self.images else "[the answer is empty]")
        path = self.files.keep(whole.encode("utf-8", "replace"), "text/plain", source_of(self.server), self.now)
        kept = f"; all of it: {path}" if path else ""
        mark = f"\n[cut: {len(whole):,} characters in all; the middle is left out{kept}]\n"
        room = max(0, most - len(mark))
        head = int(room * _SHOWN)
        return whole[:head] + mark + whole[len(whole) - (room - head) :]


async def outcome_of(server: str, result: Mapping[str, Any], context: ToolContext, files: Files) -> Outcome:
    """Return the answer to a call of a tool, as the protocol writes it (``content``, ``structuredContent``, ``isError``)."""
    blocks = [one for one in result.get("content", []) if isinstance(one, Mapping)]
    structured = result.get("structuredContent")
    if structured is not None and not any(one.get("type") == "text" for one in blocks):
        blocks.append({"type": "text", "text": json.dumps(structured, ensure_ascii=False)})
    return await _shown(server, blocks, context, files, failed=result.get("isError") is True)


async def resource_outcome(server: str, contents: Iterable[Mapping[str, Any]], context: ToolContext, files: Files) -> Outcome:
    """Return the contents of a resource."""
    return await _shown(server, [{"type": "resource", "resource": one} for one in contents], context, files)


async def prompt_outcome(server: str, messages: Iterable[Mapping[str, Any]], context: ToolContext, files: Files) -> Outcome:
    """Return the messages of a prompt, each with who says it."""
    blocks: list[Mapping[str, Any]] = []
    for one in messages:
        blocks += [{"type": "text", "text": f"{one.get('role')}:"}, one.get("content") or {}]
    return await _shown(server, blocks, context, files)


async def _shown(
    server: str, blocks: Iterable[Mapping[str, Any]], context: ToolContext, files: Files, *, failed: bool = False
) -> Outcome:
    def make() -> tuple[str, tuple[Image, ...]]:
        answer = _Answer(server, files, context.now)
        for block in blocks:
            answer.add(block)
        return answer.text(context.max_chars), tuple(answer.images)

    text, images = await asyncio.to_thread(make)
    return Outcome(text=text, images=images, is_error=failed, sources=(source_of(server),))


def _decoded(encoded: str) -> bytes | None:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
