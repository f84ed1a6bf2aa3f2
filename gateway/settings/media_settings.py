"""The sections ``tools.media`` (what people send besides text) and ``messages.tts`` (answers as voice messages)."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from agent.section import Section

_MB = 1024 * 1024


def _address(text: str) -> str:
    if re.fullmatch(r"https?://[^\s@?#]+", text) is None:
        raise ValueError(f"{text!r} is no address of a server (write it like http://nas.lan:8000/v1)")
    return text.rstrip("/")


Address = Annotated[str, AfterValidator(_address)]


class AudioSettings(Section):
    """Voice messages and audio files as text."""

    enabled: bool | None = None
    """Transcribe voice messages and audio files. Unset: where `baseUrl` is set, or the agent has a key for OpenAI (about $0.003 a minute)."""  # noqa: E501
    base_url: Address | None = None
    """Address of a server with `/v1/audio/transcriptions`, which may be in the own network, such as `http://nas.lan:8000/v1`. Unset: OpenAI."""  # noqa: E501
    model: str | None = None
    """Model that transcribes. Unset: `gpt-4o-mini-transcribe` at OpenAI, `whisper-1` elsewhere."""
    api_key: SecretStr | None = None
    """Key of that server. Unset: the key for OpenAI where `baseUrl` is not set, otherwise none."""
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")] | None = None
    """Language that is spoken, such as `de`. Unset: the model finds out."""
    max_seconds: Annotated[int, Field(ge=1, le=14_400)] = 600
    """Longer recordings are not transcribed, in seconds."""
    max_bytes: Annotated[int, Field(ge=1000, le=100 * _MB)] = 20 * _MB
    """Larger recordings are not transcribed, in bytes."""
    timeout_sec: Annotated[float, Field(ge=1, le=600)] = 60.0
    """Longest wait for a transcription with its repeats, in seconds; the answer waits for it."""
    echo: bool = True
    """Show in the chat what was understood, in front of the answer."""
    usd_per_minute: Annotated[float, Field(ge=0)] | None = None
    """What a minute costs, in dollars. Unset: the published price of OpenAI's models, nothing in the own network."""


class MediaSettings(Section):
    """What people send besides text."""

    audio: AudioSettings = AudioSettings.model_construct()
    """Voice messages and audio files as text."""


class TtsSettings(Section):
    """Answers as voice messages."""

    auto: Literal["off", "always", "inbound"] = "off"
    """Which answers are also spoken: none, all, or those to voice messages. `/voice` in a conversation takes precedence."""
    base_url: Address | None = None
    """Address of a server with `/v1/audio/speech`, which may be in the own network, such as `http://nas.lan:8000/v1`. Unset: OpenAI."""
    model: str | None = None
    """Model that speaks. Unset: `gpt-4o-mini-tts` at OpenAI, `tts-1` elsewhere."""
    voice: Annotated[str, Field(min_length=1, max_length=100)] = "alloy"
    """Voice, as the server calls it."""
    api_key: SecretStr | None = None
    """Key of that server. Unset: the key for OpenAI where `baseUrl` is not set, otherwise none."""
    max_chars: Annotated[int, Field(ge=1, le=4096)] = 1500
    """Longer answers are not spoken, in characters without markup."""
    max_bytes: Annotated[int, Field(ge=1000, le=50 * _MB)] = 10 * _MB
    """Largest recording that is taken from the server, in bytes."""
    timeout_sec: Annotated[float, Field(ge=1, le=600)] = 60.0
    """Longest wait for a recording, in seconds; the answer waits for it."""
    text: bool = True
    """Send the text as well. With false, the text is sent only where the answer cannot be spoken."""
    usd_per_thousand: Annotated[float, Field(ge=0)] | None = None
    """What a thousand characters cost, in dollars. Unset: the published price of OpenAI's models, nothing in the own network."""
