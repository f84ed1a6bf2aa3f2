"""A call that Slack reads and never answers ends after `timeoutSeconds`."""

from __future__ import annotations

import asyncio

import pytest

from channels.slack.settings import SlackSettings
from channels.slack.web_client import make_session, make_web


async def test_a_call_that_is_never_answered_ends_after_the_time_of_the_settings() -> None:
    open_ends: list[asyncio.StreamWriter] = []

    async def listen(_: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        open_ends.append(answer)

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = SlackSettings.model_validate(
        {"botToken": "xoxb-1", "appToken": "xapp-1", "apiRoot": f"http://127.0.0.1:{port}/api", "timeoutSeconds": 1}
    )
    async with make_session(settings) as session:
        with pytest.raises(TimeoutError):
            await make_web(settings, session).chat_postMessage(channel="D1", text="hello")
    for one in open_ends:
        one.close()
    server.close()
