"""Makes voice messages of answers: one recording for each answer, which goes out behind its text as any file does."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from agent.timing import Clock
from agent.tools.web.fetch_protocol import Fetcher
from gateway.budget.budget_guard import BudgetGuard
from gateway.media.file_types import media_type
from gateway.media.outgoing import OutgoingFiles
from gateway.net.targets import place_in
from gateway.settings.media_settings import TtsSettings
from gateway.voice.speech_costs import booked
from gateway.voice.speech_prices import per_thousand
from gateway.voice.speech_server_choice import OpenAiKey, server_of

if TYPE_CHECKING:
    from gateway.voice.speech_server import SpeechServer

log = logging.getLogger(__name__)

WHERE: Final = "messages.tts"
_DEFAULT_MODEL: Final = {False: "gpt-4o-mini-tts", True: "tts-1"}
"""By whether the settings name the server."""
_ENDINGS: Final = {"opus": "ogg", "mp3": "mp3"}
REMEMBERED: Final = 1000
"""Turns of which it is remembered that their text is not sent; more than ever end at once."""


class SpokenWish(Struct, frozen=True, kw_only=True):
    """An answer that may be spoken. ``text`` is Markdown without secrets. ``form`` is the format: "opus" or "mp3".

    ``switch`` is what `/voice` said of the conversation: "on", "off" or "". ``spoken_to``: the message was a voice message.
    """

    turn: str
    agent: str
    session: str
    text: str
    form: str
    switch: str
    spoken_to: bool


class SpokenReplies:
    """Speaks answers. ``files`` keeps recordings until they are sent. For the others see ``Transcription``."""

    def __init__(
        self,
        files: OutgoingFiles,
        *,
        settings: Callable[[], TtsSettings],
        fetcher: Fetcher,
        clock: Clock,
        key: OpenAiKey,
        guard: Callable[[str], BudgetGuard | None],
    ) -> None:
        self._files = files
        self._settings = settings
        self._fetcher = fetcher
        self._clock = clock
        self._key = key
        self._guard = guard
        self.alone: dict[str, None] = {}
        """Turns whose answers are sent as recordings alone."""

    async def speak(self, wish: SpokenWish) -> str:
        """Put a recording of an answer among the files of its turn; return "", or why there is none. Raises nothing.

        One that an attempt before a crash made is used again.
        """
        from gateway.voice.speakable import speakable
        from gateway.voice.speech_server import SpeechFailed

        settings = self._settings()
        server = server_of(settings.base_url, settings.api_key, agent=wish.agent, where=WHERE, key=self._key)
        if server is None:
            return f"no server is set: homebody config set {WHERE}.baseUrl http://nas.lan:8000/v1"
        text = await asyncio.to_thread(speakable, wish.text)
        if not text or len(text) > settings.max_chars:
            return (
                f"the answer is too long ({len(text):,} characters; {WHERE}.maxChars allows {settings.max_chars:,})"
                if text
                else ""
            )
        name = f"voice-{hashlib.sha256(text.encode()).hexdigest()[:12]}.{_ENDINGS[wish.form]}"
        there = await asyncio.to_thread(self._files.of, wish.turn)
        why = ""
        if not any(one.enclosure.name == name for one in there):
            try:
                data = await self._request(server, wish, text, settings)
            except SpeechFailed as failed:
                why = str(failed)
            else:
                refused = await asyncio.to_thread(self._files.put, wish.turn, name, data, "")
                why = refused or ""
        if why:
            log.warning("an answer in %s was not spoken: %s", wish.session, why)
        elif not settings.text:
            self._remember(wish.turn)
        return why

    def _remember(self, turn: str) -> None:
        while len(self.alone) >= REMEMBERED:
            del self.alone[next(iter(self.alone))]
        self.alone[turn] = None

    async def _request(self, server: SpeechServer, wish: SpokenWish, text: str, settings: TtsSettings) -> bytes:
        """Ask the server, and book what that costs. Raises SpeechFailed."""
        model = settings.model or _DEFAULT_MODEL[server.own]
        usd, estimated = per_thousand(model, server.base_url, settings.usd_per_thousand)
        cost = round(usd * len(text) / 1000, 6)
        async with booked(self._guard(wish.agent), wish.session, server, model, usd=cost, estimated=estimated):
            data = await server.speak(
                self._fetcher,
                self._clock,
                text=text,
                model=model,
                voice=settings.voice,
                form=wish.form,
                most=settings.max_bytes,
                seconds=settings.timeout_sec,
            )
            _check(data, server)
        return data


def _check(data: bytes, server: SpeechServer) -> None:
    """Raise SpeechFailed for what is no recording."""
    from gateway.voice.speech_server import SpeechFailed

    if not media_type(data).startswith("audio/"):
        raise SpeechFailed(f"what {place_in(server.base_url)} sent is no recording; check {WHERE}.baseUrl")
