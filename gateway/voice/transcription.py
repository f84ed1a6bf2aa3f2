"""Transcribes recordings that people send: within limits and budgets, and once for each recording."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.timing import Clock
from agent.tools.web.fetch_protocol import Fetcher
from gateway.budget.budget_guard import BudgetGuard
from gateway.media.file_types import format_size
from gateway.media.kept_results import KeptResults
from gateway.media.recordings import Recording, Transcript, clock_time
from gateway.settings.media_settings import AudioSettings
from gateway.voice.speech_costs import booked
from gateway.voice.speech_prices import per_minute
from gateway.voice.speech_server_choice import OpenAiKey, server_of

if TYPE_CHECKING:
    from gateway.voice.speech_server import SpeechServer

log = logging.getLogger(__name__)

WHERE: Final = "tools.media.audio"
_DEFAULT_MODEL: Final = {False: "gpt-4o-mini-transcribe", True: "whisper-1"}
"""By whether the settings name the server."""
BYTES_A_SECOND: Final = 2000
"""What a recording of unknown length is taken for, in bytes a second: less than any voice message has, so that none costs more."""
NOTHING: Final = "nothing was understood in it"


class Transcription:
    """Implements ``gateway.media.recordings.Transcriber``.

    ``folder`` keeps results. ``settings`` returns those in force, ``guard`` an agent's budget guard, ``key`` its key for OpenAI.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Callable[[], AudioSettings],
        fetcher: Fetcher,
        clock: Clock,
        key: OpenAiKey,
        guard: Callable[[str], BudgetGuard | None],
    ) -> None:
        self._kept = KeptResults(folder)
        self._settings = settings
        self._fetcher = fetcher
        self._clock = clock
        self._key = key
        self._guard = guard

    async def transcribe(self, recording: Recording) -> Transcript | None:
        """Return the text of a recording. See ``Transcriber``."""
        from gateway.voice.speech_server import SpeechFailed

        settings = self._settings()
        if settings.enabled is False:
            return None
        server = server_of(settings.base_url, settings.api_key, agent=recording.agent, where=WHERE, key=self._key)
        if server is None:
            if not settings.enabled:
                return None
            return Transcript(trouble=f"no server is set: homebody config set {WHERE}.baseUrl http://nas.lan:8000/v1")
        if (why := _too_much(recording, settings)) != "":
            return Transcript(trouble=why)
        model = settings.model or _DEFAULT_MODEL[server.own]
        name = KeptResults.key(recording.data, server.base_url, model, settings.language or "")
        text = await asyncio.to_thread(self._kept.get, name)
        if text is None:
            try:
                text = await self._request(server, recording, settings, model)
            except SpeechFailed as failed:
                log.warning("a recording of %s was not transcribed: %s", recording.session, failed)
                return Transcript(trouble=str(failed))
            await asyncio.to_thread(self._kept.put, name, text)
        return Transcript(text=text, trouble="" if text else NOTHING, echo=settings.echo)

    async def _request(self, server: SpeechServer, recording: Recording, settings: AudioSettings, model: str) -> str:
        """Ask the server, and book what that costs. Raises SpeechFailed."""
        seconds = recording.seconds if recording.seconds is not None else len(recording.data) / BYTES_A_SECOND
        usd, estimated = per_minute(model, server.base_url, settings.usd_per_minute)
        cost = round(usd * seconds / 60, 6)
        estimated = estimated or recording.seconds is None
        async with booked(self._guard(recording.agent), recording.session, server, model, usd=cost, estimated=estimated):
            return await server.transcribe(
                self._fetcher,
                self._clock,
                data=recording.data,
                media_type=recording.media_type,
                model=model,
                language=settings.language,
                seconds=settings.timeout_sec,
            )


def _too_much(recording: Recording, settings: AudioSettings) -> str:
    if len(recording.data) > settings.max_bytes:
        return (
            f"it is too large ({format_size(len(recording.data))}; {WHERE}.maxBytes allows {format_size(settings.max_bytes)})"
        )
    if recording.seconds is not None and recording.seconds > settings.max_seconds:
        length = clock_time(recording.seconds)
        return f"it is too long ({length}; {WHERE}.maxSeconds allows {clock_time(settings.max_seconds)})"
    return ""
