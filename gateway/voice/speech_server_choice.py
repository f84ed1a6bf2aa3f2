"""Which speech server an agent uses: that of the settings, or OpenAI where the agent has a key for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import SecretStr

    from gateway.voice.speech_server import SpeechServer

OPENAI: Final = "https://api.openai.com/v1"
OpenAiKey = Callable[[str], str | None]
"""Returns an agent's first key for OpenAI itself, if it has one."""


def server_of(
    base_url: str | None, api_key: SecretStr | None, *, agent: str, where: str, key: OpenAiKey
) -> SpeechServer | None:
    """Return the server; None where the settings name none and there is no key for OpenAI."""
    from gateway.voice.speech_server import SpeechServer

    given = api_key.get_secret_value().strip() if api_key is not None else ""
    if base_url is not None:
        return SpeechServer(base_url=base_url, key=given, own=True, where=where)
    found = given or key(agent)
    return SpeechServer(base_url=OPENAI, key=found, own=False, where=where) if found else None
