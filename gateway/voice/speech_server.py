"""Calls of a server that speaks OpenAI's audio API: ``/audio/transcriptions`` and ``/audio/speech``."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from agent.errors import FetchFailed, FetchRefused
from agent.timing import Clock
from agent.tools.web.fetch_protocol import Fetched, Fetcher, FetchRequest
from gateway.net.targets import place_in

TRIES: Final = 3
FIRST_WAIT: Final = 1.0
MAX_WAIT: Final = 20.0
"""A server that asks for a longer pause is not waited for."""
MAX_JSON: Final = 2_000_000
MAX_TEXT: Final = 40_000
"""Characters of a transcript that are taken: an hour of fast talk has about 60,000, and longer recordings are not sent."""
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_OK: Final = 200
_ENDINGS: Final = {
    "audio/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/wav": "wav",
    "audio/flac": "flac",
    "audio/aac": "aac",
    "audio/amr": "amr",
    "video/webm": "webm",
    "video/mp4": "mp4",
}
"""The servers tell formats apart by the ends of file names."""
_TEXTS: Final = frozenset({"application/json", "text/html", "text/plain", "text/json", ""})


class SpeechFailed(Exception):
    """A call gave nothing. The message says why, and what mends it, behind the name of what failed and a colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechServer:
    """One server. ``own``: the owner's settings name it, so it may be in the own network. ``where`` is the section of the settings."""

    base_url: str
    key: str = field(repr=False)
    own: bool
    where: str

    async def transcribe(
        self,
        fetcher: Fetcher,
        clock: Clock,
        *,
        data: bytes,
        media_type: str,
        model: str,
        language: str | None,
        seconds: float,
    ) -> str:
        """Return what is said in a recording. Raises SpeechFailed."""
        fields = {"model": model, "response_format": "json"} | ({"language": language} if language else {})
        body, content_type = _form(fields, data, media_type)
        request = self._request("/audio/transcriptions", body, content_type, accept="application/json", most=MAX_JSON)
        answer = await self._call(fetcher, clock, request, seconds)
        try:
            text = json.loads(answer.body)["text"]
        except (ValueError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise SpeechFailed(f"{self._name} sent no transcript; {self._mend('baseUrl')}")
        return text.strip()[:MAX_TEXT]

    async def speak(
        self,
        fetcher: Fetcher,
        clock: Clock,
        *,
        text: str,
        model: str,
        voice: str,
        form: str,
        most: int,
        seconds: float,
    ) -> bytes:
        """Return a text as a recording in the format ``form``. Raises SpeechFailed."""
        wish = {"model": model, "voice": voice, "input": text, "response_format": form}
        request = self._request("/audio/speech", json.dumps(wish).encode(), "application/json", accept="audio/*", most=most)
        answer = await self._call(fetcher, clock, request, seconds)
        if answer.media_type in _TEXTS - {""} or not answer.body:
            raise SpeechFailed(f"{self._name} sent no recording; {self._mend('baseUrl')}")
        if answer.cut:
            raise SpeechFailed(f"the recording of {self._name} is not whole: {answer.cut}")
        return answer.body

    @property
    def _name(self) -> str:
        return place_in(self.base_url)

    def _mend(self, key: str) -> str:
        return f"check {self.where}.{key}: homebody config get {self.where}"

    def _request(self, path: str, body: bytes, content_type: str, *, accept: str, most: int) -> FetchRequest:
        base = self.base_url if "/" in self.base_url.partition("://")[2] else f"{self.base_url}/v1"
        headers = [("Content-Type", content_type)]
        if self.key:
            headers.append(("Authorization", f"Bearer {self.key}"))
        return FetchRequest(
            url=base + path,
            method="POST",
            headers=tuple(headers),
            body=body,
            accept=accept,
            max_redirects=0,
            limit_of=lambda kind: MAX_JSON if kind in _TEXTS else most,
            own_hosts=frozenset({place_in(self.base_url)}) if self.own else frozenset(),
        )

    async def _call(self, fetcher: Fetcher, clock: Clock, request: FetchRequest, seconds: float) -> Fetched:
        """Send a request, again where that may help, within ``seconds`` of the clock in all."""
        end = clock.monotonic() + seconds
        why, wait = "", FIRST_WAIT
        for attempt in range(1, TRIES + 1):
            left = end - clock.monotonic()
            if left <= 0:
                break
            try:
                answer = await fetcher.fetch(_within(request, left))
            except FetchRefused as refused:
                raise SpeechFailed(f"{self._name} may not be asked: {refused}; {self._mend('baseUrl')}") from refused
            except FetchFailed as failed:
                why, pause = str(failed), wait
            else:
                if answer.status == _OK:
                    return answer
                why = self._refusal(answer.status)
                if answer.status not in _PASSING:
                    raise SpeechFailed(why)
                pause = max(wait, float(answer.wait or 0))
            if attempt == TRIES or pause > min(MAX_WAIT, end - clock.monotonic()):
                break
            await clock.sleep(pause)
            wait *= 2
        raise SpeechFailed(why or f"{self._name} gave no answer in time")

    def _refusal(self, status: int) -> str:
        match status:
            case 401 | 403:
                return f"{self._name} refused the key (status {status}); {self._mend('apiKey')}"
            case 404 | 405:
                return f"{self._name} knows no such address or model (status {status}); {self._mend('model')}"
            case 413:
                return f"the recording is too large for {self._name}"
        return f"{self._name} answered with status {status}"


def _within(request: FetchRequest, seconds: float) -> FetchRequest:
    seconds = max(0.1, round(seconds, 1))
    return replace(request, seconds=seconds, step_seconds=seconds)


def _form(fields: Mapping[str, str], data: bytes, media_type: str) -> tuple[bytes, str]:
    """Return a body of ``multipart/form-data`` with a file, and its content type."""
    boundary = secrets.token_hex(16)
    ending = _ENDINGS.get(media_type, "ogg")
    parts: list[bytes] = []
    for name, value in fields.items():
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="voice.{ending}"\r\n'
    parts.append(f"{head}Content-Type: {media_type}\r\n\r\n".encode())
    parts += [data, f"\r\n--{boundary}--\r\n".encode()]
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"
