"""What the tests of this folder share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.reload.place import Place

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


PIGEON = """
import asyncio
from channels.errors import ChannelBroken
from channels.messages import Sent

class Pigeon:
    name, account, lofts, running, sent = "pigeon", "default", [], [], []

    def __init__(self, loft):
        self.loft = loft

    async def run(self, door):
        Pigeon.running.append(self.loft)
        self.door = door
        door.alive()
        door.ready()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            Pigeon.running.remove(self.loft)
            if self.loft == "cursed":
                raise ValueError("a defect on the way out")

    def chunks(self, markdown):
        return [markdown] if markdown else []

    async def send(self, outbound, record):
        Pigeon.sent.append((self.loft, outbound.text))
        return Sent(platform_id=outbound.key)

    async def typing(self, conversation):
        return

    async def close(self):
        if self.loft == "cursed":
            raise RuntimeError("the door is stuck")

def make(settings, *, account, clock, log):
    if not settings["loft"]:
        raise ChannelBroken("no loft is named", hint="name one")
    return Pigeon(settings["loft"])
"""


@pytest.fixture
def pigeons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    package = tmp_path / "pigeon-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[homebody.channels]\npigeon = pigeons_of_{id(tmp_path)}:make\n")
    (tmp_path / f"pigeons_of_{id(tmp_path)}.py").write_text(PIGEON)
    monkeypatch.syspath_prepend(str(tmp_path))
    return __import__(f"pigeons_of_{id(tmp_path)}").Pigeon
