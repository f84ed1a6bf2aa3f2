"""Files of a message: the handle of each, which holds the key of an encrypted one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from channels.errors import NotFetched
from channels.messages import Attachment, AttachmentKind

_ADDRESS = re.compile(r"mxc://([A-Za-z0-9.\-:\[\]]{1,255})/([A-Za-z0-9_\-]{1,255})")
_KINDS: Final[Mapping[str, AttachmentKind]] = {
    "m.image": "image",
    "m.audio": "audio",
    "m.video": "video",
    "m.file": "document",
}
VOICE: Final = "org.matrix.msc3245.voice"
"""The field of an audio message that was spoken. Clients copy it when they forward one, so that it says nothing of who spoke."""


def attachment_of(content: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Return the file of a message; none for other messages, and for one whose address is no file of a homeserver."""
    kind = _KINDS.get(str(content.get("msgtype")))
    file = content.get("file") if isinstance(content.get("file"), dict) else None
    address = str((file or content).get("url") or "")
    if kind is None or not _ADDRESS.fullmatch(address):
        return ()
    info = content.get("info") if isinstance(content.get("info"), dict) else {}
    assert isinstance(info, dict)
    size = info.get("size")
    return (
        Attachment(
            kind="voice" if kind == "audio" and (VOICE in content or "m.voice" in content) else kind,
            handle=json.dumps({"url": address, **({"file": _key(file)} if file else {})}, separators=(",", ":")),
            name=str(content.get("filename") or content.get("body") or "")[:255],
            media_type=str(info.get("mimetype") or "")[:100],
            size=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        ),
    )


def _key(file: Mapping[str, Any]) -> dict[str, str]:
    """Return what decrypts a file. Raises LookupError or TypeError where a part is missing."""
    return {"k": str(file["key"]["k"]), "iv": str(file["iv"]), "sha256": str(file["hashes"]["sha256"])}


def parsed_handle(handle: str) -> tuple[str, str, dict[str, str] | None]:
    """Return the server, the id and the key of a file. Raises NotFetched if the handle is none."""
    try:
        found = json.loads(handle)
        server, media = _ADDRESS.fullmatch(found["url"]).groups()  # type: ignore[union-attr]
        key = found.get("file")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise NotFetched(f"{handle[:80]!r} is not a file of a Matrix message") from None
    return server, media, key if isinstance(key, dict) else None
