"""A gateway that is killed between storing an event and saying so: after the restart there is one event, and an answer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import programs
from tests.calendar.conftest import calendar, event
from tests.models.conftest import compatible_peer
from tests.patience import PATIENCE
from tests.peers.compatible import Chunks, words

if TYPE_CHECKING:
    from pathlib import Path

    from tests.calendar.conftest import Radicale
    from tests.peers.compatible import CompatiblePeer

__all__ = ["compatible_peer"]

DENTIST = calendar(
    event("SUMMARY:Dentist", "DTSTART;TZID=Europe/Berlin:20300204T100000", "DTEND;TZID=Europe/Berlin:20300204T110000", uid="d1")
)


def calls(**arguments: Any) -> Chunks:
    function = {"name": "calendar", "arguments": json.dumps(arguments)}
    return Chunks(({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]},), finish="tool_calls")


class Home:
    """A home on the disk, in which processes live one after another."""

    def __init__(self, root: Path, radicale: Radicale, model: CompatiblePeer) -> None:
        self.root = root
        root.mkdir()
        settings = {
            "agents": {
                "defaults": {
                    "workspace": str(root.with_name("workspace")),
                    "userTimezone": "Europe/Berlin",
                    "model": {"primary": "nas/one"},
                }
            },
            "models": {
                "providers": {"nas": {"baseUrl": model.url, "apiKey": "k", "models": [{"id": "one", "contextWindow": 100_000}]}}
            },
            "calendar": {"accounts": {"personal": {"url": radicale.url, "user": "anna", "password": "s3cret-word"}}},
            "approvals": {"rules": [{"decision": "allow", "tool": "calendar", "untrusted": True}]},
            "gateway": {"port": 0},
        }
        (root / "homebody.json").write_text(json.dumps(settings))

    def start(self, *arguments: str, fault: str = "") -> programs.Program:
        return programs.start(
            [sys.executable, "-m", "gateway", "--home", self.root, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOMEBODY_FAULT": fault},
        )

    async def killed_at(self, fault: str, text: str) -> None:
        process = self.start("agent", "-m", text, fault=fault)
        assert await asyncio.to_thread(process.wait) == -signal.SIGKILL

    async def until_asked(self, model: CompatiblePeer, times: int) -> None:
        """Let a gateway go on until the model was asked so often, and end it."""
        process = self.start("gateway")
        try:
            async with asyncio.timeout(PATIENCE):
                while len(model.requests) < times:
                    assert process.poll() is None
                    await asyncio.sleep(0.05)
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait)


def told(model: CompatiblePeer) -> str:
    """The result of the call, as the model was told it."""
    return next(str(one["content"]) for one in reversed(model.requests[-1]["messages"]) if one["role"] == "tool")


async def test_an_event_is_made_once(radicale: Radicale, compatible_peer: CompatiblePeer, tmp_path: Path) -> None:
    home = Home(tmp_path / "home", radicale, compatible_peer)
    compatible_peer.answer(calls(action="create", title="Lunch", **{"from": "2030-02-05T12:30"}), words("It is in."))
    await home.killed_at("before-transcript:2", "lunch on 5 February 2030 at half past twelve")
    assert len(radicale.objects()) == 1, "it was killed after the event was stored"
    await home.until_asked(compatible_peer, 2)
    assert len(radicale.objects()) == 1
    assert "is already in personal" in told(compatible_peer)


@pytest.mark.long
async def test_an_event_is_moved_once(radicale: Radicale, compatible_peer: CompatiblePeer, tmp_path: Path) -> None:
    await radicale.put("personal/dentist.ics", DENTIST)
    home = Home(tmp_path / "home", radicale, compatible_peer)
    listing = calls(action="list", **{"from": "2030-02-04"})
    compatible_peer.answer(listing, words("There it is."))
    first = home.start("agent", "-m", "when is the dentist?")
    assert await asyncio.to_thread(first.wait) == 0
    found = re.search(r"Dentist \| personal \| (\S+)", told(compatible_peer))
    assert found is not None
    compatible_peer.answer(calls(action="change", event=found[1], **{"from": "2030-02-11"}), words("Moved."))
    await home.killed_at("before-transcript:2", "move it to the week after")
    (moved,) = radicale.objects()
    assert "20300211T100000" in moved
    await home.until_asked(compatible_peer, 4)
    assert radicale.objects() == [moved], "the repeat changed nothing"
    assert "is so already" in told(compatible_peer)
