"""The model peer answers both SDKs, keeps a journal, and starts each test empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.peers.aimock import Aimock


async def test_the_anthropic_sdk_streams_from_the_peer(aimock: Aimock) -> None:
    from anthropic import AsyncAnthropic

    aimock.answer({"match": {"userMessage": "hello"}, "response": {"content": "Good day, and come in."}})
    async with AsyncAnthropic(base_url=aimock.anthropic_url, api_key="test", max_retries=0) as client:
        call = client.messages.stream(
            model="claude-opus-5-20260801", max_tokens=64, messages=[{"role": "user", "content": "hello"}]
        )
        async with call as stream:
            pieces = [piece async for piece in stream.text_stream]
    assert "".join(pieces) == "Good day, and come in."
    assert len(pieces) > 1
    [request] = aimock.requests()
    assert request["path"].startswith("/v1/messages")
    assert request["headers"]["anthropic-version"]


async def test_the_openai_sdk_streams_from_the_peer(aimock: Aimock) -> None:
    from openai import AsyncOpenAI

    aimock.answer({"match": {"userMessage": "hello"}, "response": {"content": "Good day, and come in."}})
    async with AsyncOpenAI(base_url=aimock.openai_url, api_key="test", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="gpt-6-sol", messages=[{"role": "user", "content": "hello"}], stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text == "Good day, and come in."
    assert [entry["path"] for entry in aimock.requests("/chat/completions")] == ["/v1/chat/completions"]


async def test_an_error_is_told_once(aimock: Aimock) -> None:
    from openai import AsyncOpenAI, RateLimitError

    aimock.answer({"match": {}, "response": {"content": "fine"}})
    aimock.fail_next(429, "slow down", error_type="rate_limit_error")
    async with AsyncOpenAI(base_url=aimock.openai_url, api_key="test", max_retries=0) as client:
        with pytest.raises(RateLimitError, match="slow down"):
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    assert answer.choices[0].message.content == "fine"


@pytest.mark.parametrize("order", ["first", "second"])
def test_every_test_finds_the_peer_empty(aimock: Aimock, order: str) -> None:
    assert aimock.requests() == []
    aimock.answer({"match": {"userMessage": order}, "response": {"content": order}})
