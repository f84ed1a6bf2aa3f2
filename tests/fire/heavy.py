"""A house in a process of its own that is given one message of so many megabytes; prints its answer and the most memory it ever held."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agent.messages import AssistantMessage, Text
from agent.models.scripted import ScriptedModel
from channels.platform import Policy
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.fire.paper import Line, Platform


def held() -> int:
    """Megabytes, at the most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def main(root: Path, megabytes: int) -> None:
    given = {"agents": {"defaults": {"workspace": str(root / "workspace"), "model": "scripted/model"}}}
    house = await Gateway.open(
        Dependencies(settings=Settings.model_validate(given), paths=Paths(root / "home"), env={}, random=random.Random(7))
    )
    heard: list[int] = []

    def answer(request: object) -> AssistantMessage:
        heard.append(max(len(message.text) for message in request.messages if message.role == "user"))  # type: ignore[attr-defined]
        return AssistantMessage(content=(Text(text="well"),), model="scripted/model", stop="end")

    house.model_registry.put("scripted/model", ScriptedModel(answer))
    platform = Platform(keyed=True)
    line = Line(platform)
    house.channel_supervisor.keep(line, Policy(allow_from=("anna",)))
    running = asyncio.ensure_future(house.run())
    platform.queue.append(platform.message("tell me apple"))
    await line.offer()
    await house.lanes.quiet()
    before = held()
    platform.queue.append(platform.message("word " * (megabytes * 200_000)))
    await line.offer()
    await house.lanes.quiet()
    platform.queue.append(platform.message("tell me plum"))
    await line.offer()
    await house.lanes.quiet()
    await house.delivery.settled()
    house.stop()
    await running
    await house.close()
    kept = sum(path.stat().st_size for path in (root / "workspace" / "inbox").glob("*.txt"))
    found = {"before": before, "most": held(), "heard": heard, "kept": kept, "shown": [one.text for one in platform.shown]}
    sys.stdout.write(json.dumps(found))


asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
