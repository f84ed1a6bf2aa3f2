"""A house on Telegram with a scripted model, to be killed: ``python telegram_program.py ROOT SETTINGS``. Ends when its input does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from agent.models.scripted import ScriptedModel
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.settings.root import Settings


def answer(request: Any) -> str:
    return f"re: {request.messages[-1].text.splitlines()[-1]}"


async def live(root: Path, settings: dict[str, Any]) -> None:
    paths = Paths(root / "home")
    house = await Gateway.open(
        Dependencies(settings=Settings.model_validate(settings), paths=paths, env=dict(os.environ), serving=True)
    )
    house.model_registry.put("scripted/model", ScriptedModel(answer))
    running = asyncio.ensure_future(house.run())
    await asyncio.to_thread(sys.stdin.buffer.read)
    house.stop()
    await running
    await house.close()


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text("utf-8"))))
