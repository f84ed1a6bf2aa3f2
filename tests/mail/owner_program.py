"""A whole house in a process that can be killed: the owner has a mail answered. ``python owner_program.py ROOT SETTINGS.json``.

The first life is asked, and its owner says yes; each further one takes up what the one before it left. It prints what the owner read.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage, UserMessage
from gateway.approvals.record import public_name
from tests.approvals.house import Buttons, asked, open_questions, value
from tests.queueing.conftest import Town, newest

if TYPE_CHECKING:
    from agent.models.protocol import Request

ASKED = "answer Anna that Thursday is fine"


class Office(Town):
    """The model lists the mail, answers the first one, and tells what came of it."""

    def __init__(self, root: Path, settings: dict[str, Any], life: int) -> None:
        super().__init__(root, settings)
        self.answer = self.worked
        self.life = life

    def wire(self, name: str = "wire", account: str = "default") -> Buttons:
        return Buttons(name=name, account=account, first=1000 * self.life)

    def worked(self, request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, UserMessage):
            if last.runtime:
                return f"so: {last.text}"
            said = newest(request)
            if said and ASKED in said[-1]:
                return [ToolCall(id="c1", name="mail", arguments={"action": "list"})]
            return "re: " + " | ".join(said)
        if isinstance(last, ToolMessage) and last.call_id == "c1":
            found = re.search(r"\S+#\w+\.\d+", last.text)
            wish = {"action": "reply", "id": found[0] if found else "", "text": "Thursday is fine."}
            return [ToolCall(id="c2", name="mail", arguments=wish)]
        return "asked you"


async def live(root: Path, settings: dict[str, Any], life: int) -> list[str]:
    office = Office(root, settings, life)
    wire = office.wire()
    async with office.house(wire) as house:
        if life == 1:
            ask = await asked(wire, ASKED)
            await wire.say(value(ask, "once"), event="button")
            await wire.until(lambda: any(text.startswith("so: ") for text in wire.said()))
        else:
            await house.lanes.quiet()
            for one in await open_questions(house):
                await wire.say(f"/approve {public_name(one)} once")
                await wire.until(lambda: any(text.startswith("so: ") for text in wire.said()))
            await house.lanes.quiet()
        await house.delivery.settled()
        return list(wire.said())


if __name__ == "__main__":
    place, given = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    lives = place / "lives"
    place.mkdir(exist_ok=True)
    life = int(lives.read_text()) + 1 if lives.exists() else 1
    lives.write_text(str(life))
    sys.stdout.write(json.dumps(asyncio.run(live(place, given, life))))
