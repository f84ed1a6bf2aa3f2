"""Loads what turns alone need, before the first of them: a gateway at rest holds none of it.

It is loaded in a thread, because so many modules take 60 ms, and the event loop goes on meanwhile. Whoever needs a part of it before
imports that where it is used.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Final

from gateway.base.wait import finish_despite_cancel

CODE: Final = (
    "agent.loop.turn",
    "agent.context.context_budget",
    "agent.context.flush",
    "agent.context.session_context",
    "gateway.tools.registry",
    "gateway.models.model_stack",
    "gateway.outbound.blocks",
    "gateway.outbound.replying",
)
"""Modules that need all the others of a turn."""


async def load_turn_code() -> None:
    """Return once it is loaded, at once where it is. A cancellation meanwhile is raised at the caller's next await."""
    if not all(name in sys.modules for name in CODE):
        await finish_despite_cancel(asyncio.to_thread(lambda: [import_module(name) for name in CODE]))
