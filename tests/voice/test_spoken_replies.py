"""Answers as voice messages: when, with which words, once, and never at the cost of the text."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.media.outgoing import OutgoingFiles
from gateway.net.fetcher import GuardedFetcher
from gateway.settings.media_settings import TtsSettings
from gateway.settings.message_settings import AttachmentSettings
from gateway.turns.answering import is_spoken
from gateway.voice.speakable import CODE, speakable
from gateway.voice.spoken_replies import SpokenReplies, SpokenWish
from tests.attachments.test_intake import NOON
from tests.gateway.test_telegram_house import ANNA
from tests.peers.speech import SpeechPeer
from tests.peers.telegram import TelegramPeer
from tests.peers.web import web_peer
from tests.voice.recordings import opus, wav
from tests.voice.test_transcription import Guard, QuickClock
from tests.voice.test_voice_house import Parlour

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WORDS = [
    ("# Plan\n\nDo **this** and `that`.", "Plan\n\nDo this and that."),
    ("See [the page](https://example.org/a_(b)?c=d) or https://www.example.org/x/y.", "See the page or example.org"),
    ("Run\n\n```sh\nrm -rf /\n```\n\nnow.", f"Run\n\n{CODE}\n\nnow."),
    ("Open\n\n```\nnever closed", f"Open\n\n{CODE}"),
    ("| a | b |\n|---|---|\n| 1 | 2 |", "a, b\n\n1, 2"),
    ("> quoted\n\n- one\n- two", "quoted\n\n• one\n• two"),
    ("![a cat](https://example.org/cat.png)", "a cat"),
    ("---", ""),
    ("", ""),
]


@pytest.mark.parametrize(("markdown", "words"), WORDS)
def test_markup_is_not_read_out(markdown: str, words: str) -> None:
    assert speakable(markdown) == words


@given(st.text(max_size=300))
def test_any_text_can_be_prepared(text: str) -> None:
    assert "http://" not in speakable(text)


def test_what_could_take_for_ever_does_not() -> None:
    for text in ("[" * 20_000, "`" * 20_000, "![](" * 5000, "|" * 20_000, "```\n" * 5000, "https://" * 3000):
        speakable(text)


class Stage:
    """What speaks, and the server that it asks."""

    def __init__(self, folder: Path, peer: SpeechPeer, port: int, **settings: Any) -> None:
        self.peer = peer
        self.guard = Guard()
        self.files = OutgoingFiles(folder / "media", AttachmentSettings)
        self.settings = TtsSettings.model_validate({"baseUrl": f"http://127.0.0.1:{port}"} | settings)

    def replies(self) -> SpokenReplies:
        return SpokenReplies(
            self.files,
            settings=lambda: self.settings,
            fetcher=GuardedFetcher(),
            clock=QuickClock(NOON),
            key=lambda _: None,
            guard=lambda _: self.guard,  # type: ignore[arg-type, return-value]
        )

    async def speak(self, text: str = "**Hello** you", turn: str = "t1") -> str:
        wish = SpokenWish(turn=turn, agent="main", session="s", text=text, form="opus", switch="", spoken_to=True)
        return await self.replies().speak(wish)


@contextlib.asynccontextmanager
async def stage(folder: Path, *moods: str, **settings: Any) -> AsyncIterator[Stage]:
    peer = SpeechPeer(moods=list(moods), audio=opus(2), key=settings.get("apiKey", ""))
    async with web_peer({"*": peer}) as web:
        yield Stage(folder, peer, web.port, **settings)
    assert peer.refused == []


async def test_an_answer_is_spoken_once_however_often_its_turn_ends(tmp_path: Path) -> None:
    async with stage(tmp_path, apiKey="sk-1", voice="nova", model="kokoro") as here:
        assert await here.speak() == ""
        assert await here.speak() == ""
    wanted = {"model": "kokoro", "voice": "nova", "input": "Hello you", "response_format": "opus"}
    assert here.peer.spoken == [wanted]
    (file,) = here.files.of("t1")
    assert file.enclosure.media_type == "audio/ogg"
    assert file.enclosure.path.read_bytes() == opus(2)


TROUBLE = {
    "broken": "answered with status 500",
    "no key": "refused the key (status 401); check messages.tts.apiKey",
    "no model": "knows no such address or model (status 404)",
    "html": "sent no recording; check messages.tts.baseUrl",
    "wrong json": "sent no recording",
    "flood": "sent no recording",
}


@pytest.mark.parametrize("mood", TROUBLE)
async def test_a_server_that_fails_leaves_the_text_alone(tmp_path: Path, mood: str) -> None:
    async with stage(tmp_path, *[mood] * 3, text=False) as here:
        assert TROUBLE[mood] in await here.speak()
        assert here.files.of("t1") == []
        assert "t1" not in here.replies().alone


async def test_bytes_that_are_no_recording_are_not_sent(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        here.peer.audio = b"<html>It works</html>"
        assert "is no recording" in await here.speak()
        here.peer.audio = opus(2) + bytes(20_000)
        here.settings = here.settings.model_copy(update={"max_bytes": 10_000})
        assert "is not whole: only the first 10,000 bytes were read" in await here.speak()
    assert here.files.of("t1") == []


async def test_long_answers_are_not_spoken_and_cost_is_booked(tmp_path: Path) -> None:
    async with stage(tmp_path, maxChars=10, usdPerThousand=1.0) as here:
        assert await here.speak("12345678901") == "the answer is too long (11 characters; messages.tts.maxChars allows 10)"
        assert await here.speak("**1234567890**") == ""
        assert await here.speak("```\ncode\n```\n\n---\n", "t2") != ""
        here.guard.left = 0.002
        assert await here.speak("abc", "t3") == "today's budget is used up (budgets.day.usd)"
    assert [(one.model, one.usd) for one in here.guard.reserved] == [("tts-1", 0.01)]


def test_the_switch_of_a_conversation_goes_before_the_settings() -> None:
    table = {
        ("off", "", True): False,
        ("off", "on", False): True,
        ("always", "", False): True,
        ("always", "off", True): False,
        ("inbound", "", True): True,
        ("inbound", "", False): False,
    }
    for (auto, switch, spoken_to), wanted in table.items():
        assert is_spoken(auto, switch=switch, spoken_to=spoken_to) is wanted


@pytest.fixture
async def parlour(tmp_path: Path) -> AsyncIterator[Parlour]:
    speech = SpeechPeer(audio=opus(3))
    async with TelegramPeer(local=True) as peer, web_peer({"*": speech}) as web:
        made = Parlour(tmp_path, peer)
        made.speech, made.port = speech, web.port
        yield made
    assert speech.refused == []


def speaking(parlour: Parlour, **tts: Any) -> dict[str, Any]:
    return {**parlour.asking(), "messages": {"tts": {"baseUrl": f"http://127.0.0.1:{parlour.port}/v1", **tts}}}


def voices(parlour: Parlour) -> list[dict[str, Any]]:
    return [one for one in parlour.peer.chats.messages.get(ANNA, []) if "voice" in one and one["from"]["id"] != ANNA]


async def test_a_voice_message_is_answered_by_one(parlour: Parlour) -> None:
    async with parlour.lived_in(more=speaking(parlour, auto="inbound")):
        await parlour.peer.say(ANNA, "by hand")
        assert await parlour.says(1) == ["re: by hand"]
        await parlour.speak()
        said = await parlour.says(4)
    assert said[1:] == ["🎤 “remember the milk”", "re: [voice message, 0:12] remember the milk", ""]
    assert len(voices(parlour)) == 1
    assert [one["input"] for one in parlour.speech.spoken] == ["re: [voice message, 0:12] remember the milk"]
    assert not list((parlour.root / "home" / "state" / "media").rglob("*.ogg")), "the copy goes when it is sent"


async def test_voice_on_and_off_in_a_conversation(parlour: Parlour) -> None:
    async with parlour.lived_in(more=speaking(parlour)):
        await parlour.peer.say(ANNA, "/voice on")
        await parlour.says(1)
        await parlour.peer.say(ANNA, "hello")
        assert (await parlour.says(3))[1:] == ["re: hello", ""]
        await parlour.peer.say(ANNA, "/voice off")
        await parlour.says(4)
        await parlour.peer.say(ANNA, "hello again")
        assert (await parlour.says(5))[4] == "re: hello again"
    assert len(voices(parlour)) == 1


async def test_without_text_the_answer_is_the_recording_unless_it_fails(parlour: Parlour) -> None:
    async with parlour.lived_in(more=speaking(parlour, auto="always", text=False)):
        await parlour.peer.say(ANNA, "one")
        assert await parlour.says(1) == [""]
        assert len(voices(parlour)) == 1
        parlour.speech.moods = ["no key"]
        await parlour.peer.say(ANNA, "two")
        assert await parlour.says(2) == ["", "re: two"]


async def test_stop_while_an_answer_is_spoken_leaves_its_text(parlour: Parlour) -> None:
    """The answer is in the transcript by then, so the model believes that it was said."""
    parlour.speech.moods = ["hang"]
    async with parlour.lived_in(more=speaking(parlour, auto="always")):
        await parlour.peer.say(ANNA, "one")
        await parlour.speech.hanging.wait()
        await parlour.peer.say(ANNA, "/stop")
        said = await parlour.says(2)
        assert "re: one" in said
        await parlour.peer.say(ANNA, "two")
        assert [one for one in await parlour.says(4) if one.startswith("re: ")] == ["re: one", "re: two"]
    assert len(voices(parlour)) == 1


def test_recordings_of_the_tests_are_what_they_say() -> None:
    assert wav(1).startswith(b"RIFF")
