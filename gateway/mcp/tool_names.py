"""Names of the tools of MCP servers, as models and rules know them: ``mcp_<server>_<tool>``."""

from __future__ import annotations

import hashlib
import re
from typing import Final

PREFIX: Final = "mcp_"
LONGEST: Final = 64
"""Characters of a tool's name: the limit of OpenAI and Anthropic."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASH: Final = 6


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool. It follows from the two names alone, and different tools have different names.

    A name that holds other characters than ASCII letters, figures, ``_`` and ``-``, or is too long, is changed and gets a digest.
    """
    name = f"{PREFIX}{server}_{_UNFIT.sub('_', tool)}"
    if len(name) <= LONGEST and not _UNFIT.search(tool):
        return name
    digest = hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}-{digest}"
