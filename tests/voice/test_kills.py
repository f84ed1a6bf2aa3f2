"""A house is killed while it answers a voice message with one: it asks each server at most once more, and answers once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import programs
from tests.gateway.test_telegram_house import ANNA
from tests.peers.speech import SpeechPeer
from tests.peers.telegram import TOKEN, TelegramPeer
from tests.peers.web import web_peer
from tests.sampling import parametrize_some
from tests.voice.recordings import opus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PROGRAM = Path(__file__).with_name("telegram_program.py")
STEPS = [
    "before-accept:1",
    "after-accept:1",
    "after-claim:1",
    "before-keep_result:1",
    "after-keep_result:1",
    "before-transcript:1",
    "after-transcript:1",
    "before-keep_file:1",
    "after-keep_file:1",
    "before-finish:1",
    "after-finish:1",
]
ANSWER = "re: [voice message, 0:12] remember the milk"


class Street:
    """Lets houses live on the same folder, one after the other."""

    def __init__(self, root: Path, peer: TelegramPeer, speech: SpeechPeer, port: int) -> None:
        self.root, self.peer, self.speech = root, peer, speech
        server = f"http://127.0.0.1:{port}/v1"
        telegram = {"botToken": TOKEN, "apiRoot": peer.root, "pollTimeoutSeconds": 2, "pacing": False, "allowFrom": [ANNA]}
        settings: dict[str, Any] = {
            "agents": {"defaults": {"workspace": str(root / "workspace"), "model": "scripted/model"}},
            "channels": {"telegram": telegram},
            "gateway": {"port": 0},
            "tools": {"media": {"audio": {"baseUrl": server}}},
            "messages": {"tts": {"baseUrl": server, "auto": "inbound"}},
        }
        (root / "settings.json").write_text(json.dumps(settings))

    @contextlib.asynccontextmanager
    async def house(self, fault: str = "") -> AsyncIterator[programs.Program]:
        process = programs.start(
            [sys.executable, PROGRAM, self.root, self.root / "settings.json"],
            stdin=subprocess.PIPE,
            env={**os.environ, "HOMEBODY_FAULT": fault, "PYTHONPATH": str(PROGRAM.parents[2])},
        )
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.to_thread(process.wait)
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)

    def said(self) -> list[str]:
        return [text.removeprefix("(I was restarted and went on.)\n\n") for text in self.peer.chats.said(ANNA)]


@pytest.fixture
async def street(tmp_path: Path) -> AsyncIterator[Street]:
    speech = SpeechPeer(audio=opus(3))
    async with TelegramPeer(local=True) as peer, web_peer({"*": speech}) as web:
        yield Street(tmp_path, peer, speech, web.port)
    assert speech.refused == []


@pytest.mark.cpu_seconds(300)
@parametrize_some(3, "step", STEPS)
async def test_a_kill_at_any_step_answers_once_and_asks_at_most_once_more(street: Street, step: str) -> None:
    async with street.house(step) as process:
        await street.peer.attach(ANNA, "voice", opus(12), media_type="audio/ogg")
        assert await asyncio.to_thread(process.wait) == -9, "the step was not reached"
    async with street.house():
        await street.peer.until(lambda: len(street.said()) >= 3)
    async with street.house():  # nothing comes afterwards
        await street.peer.until(lambda: street.peer.unconfirmed == 0)
    assert street.said() == ["🎤 “remember the milk”", ANSWER, ""]
    recordings = [one for one in street.peer.chats.messages[ANNA] if "voice" in one and one["from"]["id"] != ANNA]
    assert len(recordings) == 1
    assert len(street.speech.heard) == (2 if step == "before-keep_result:1" else 1)
    assert len(street.speech.spoken) == (2 if step == "before-keep_file:1" else 1)
