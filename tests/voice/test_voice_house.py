"""A voice message by Telegram, from the platform to the model and back, with a speech server on loopback."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest

from agent.models.scripted import Stall
from agent.transcript.history_view import STOPPED_SILENT
from tests.gateway.test_telegram_house import ANNA, Home
from tests.peers.speech import SpeechPeer
from tests.peers.telegram import TelegramPeer
from tests.peers.web import web_peer
from tests.voice.recordings import opus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Parlour(Home):
    """A house on Telegram that asks a speech server."""

    speech: SpeechPeer
    port: int

    def asking(self, **audio: Any) -> dict[str, Any]:
        return {"tools": {"media": {"audio": {"baseUrl": f"http://127.0.0.1:{self.port}/v1", **audio}}}}

    async def speak(self, seconds: float = 12, **more: Any) -> None:
        await self.peer.attach(ANNA, "voice", opus(seconds), media_type="audio/ogg", **more)


@pytest.fixture
async def parlour(tmp_path: Path) -> AsyncIterator[Parlour]:
    speech = SpeechPeer()
    async with TelegramPeer(local=True) as peer, web_peer({"*": speech}) as web:
        made = Parlour(tmp_path, peer)
        made.speech, made.port = speech, web.port
        yield made
    assert speech.refused == []


async def test_a_voice_message_is_answered_and_shown_as_text(parlour: Parlour) -> None:
    async with parlour.lived_in(more=parlour.asking()):
        await parlour.speak()
        said = await parlour.says(2)
    assert said == ["🎤 “remember the milk”", "re: [voice message, 0:12] remember the milk"]
    assert parlour.seen.shown[0].endswith("[voice message, 0:12] remember the milk")
    assert "untrusted" not in parlour.seen.shown[0]
    assert len(parlour.speech.heard) == 1
    assert parlour.speech.heard[0]["file"] == opus(12)


async def test_without_the_echo_the_answer_comes_alone(parlour: Parlour) -> None:
    async with parlour.lived_in(more=parlour.asking(echo=False)):
        await parlour.speak()
        assert await parlour.says(1) == ["re: [voice message, 0:12] remember the milk"]


async def test_a_forwarded_voice_message_is_somebody_else_s(parlour: Parlour) -> None:
    origin = {"type": "hidden_user", "date": 1, "sender_user_name": "Mallory"}
    async with parlour.lived_in(more=parlour.asking()):
        await parlour.speak(forward_origin=origin)
        said = await parlour.says(1)
    assert not said[0].startswith("🎤")
    shown = parlour.seen.shown[0]
    assert "<untrusted" in shown
    assert shown.index("<untrusted") < shown.index("remember the milk")


async def test_a_server_that_fails_leaves_the_message_with_a_reason(parlour: Parlour) -> None:
    parlour.speech.moods = ["no key"]
    async with parlour.lived_in(more=parlour.asking()):
        await parlour.speak()
        await parlour.says(1)
    assert "a voice message]\n[it could not be transcribed: 127.0.0.1:" in parlour.seen.shown[0]


async def test_a_turn_that_is_cut_off_asks_the_speech_server_no_second_time(parlour: Parlour) -> None:
    answers = itertools.chain([[Stall()]], itertools.repeat("here I am"))
    parlour.seen = lambda _: next(answers)  # type: ignore[assignment]
    async with parlour.lived_in(more=parlour.asking()) as house:
        await parlour.speak()
        await parlour.peer.until(lambda: bool(list((parlour.root / "home").rglob("transcripts/*.json"))))
        await house.lanes.drain(0)
    async with parlour.lived_in(more=parlour.asking()):
        said = await parlour.says(2)
    assert said[0].endswith("🎤 “remember the milk”")
    assert said[1] == "here I am"
    assert len(parlour.speech.heard) == 1


async def test_a_voice_message_that_is_stopped_while_it_is_transcribed_is_named(parlour: Parlour) -> None:
    parlour.speech.moods = ["hang"]
    async with parlour.lived_in(more=parlour.asking()) as house:
        await parlour.speak()
        await parlour.speech.hanging.wait()
        await parlour.peer.say(ANNA, "/stop")
        assert await parlour.says(1) == ["⏹️ Stopped."]
        await house.lanes.quiet()
        await parlour.peer.say(ANNA, "what now?")
        await parlour.says(2)
    shown = next(one for one in parlour.seen.shown if "what now?" in one)
    assert re.search(r"\[file: inbox/\S+ \d+ bytes audio/ogg, a voice message\]\n\[it was not transcribed\]", shown), shown
    assert shown.index("a voice message") < shown.index(STOPPED_SILENT) < shown.index("what now?")
