"""How providers say that a conversation is too long: thirty sentences, as each sends them, through the real SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.models.conversation import ask, hear, user
from tests.models.test_openai_chat import at
from tests.peers.compatible import Refuse

if TYPE_CHECKING:
    from tests.peers.compatible import CompatiblePeer

WORDINGS: dict[str, tuple[int, Any, int | None, int | None]] = {
    "OpenAI": (
        400,
        {
            "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 130012 tokens.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        },
        128_000,
        130_012,
    ),
    "OpenAI, Responses": (
        400,
        {"message": "Your input exceeds the context window of this model.", "code": "context_length_exceeded"},
        None,
        None,
    ),
    "OpenAI, by code alone": (400, {"message": "No.", "code": "context_length_exceeded"}, None, None),
    "Anthropic": (
        400,
        {"message": "prompt is too long: 208310 tokens > 200000 maximum", "type": "invalid_request_error"},
        200_000,
        208_310,
    ),
    "Anthropic, with the answer": (
        400,
        {"message": "input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000"},
        200_000,
        None,
    ),
    "Anthropic, bytes": (413, {"message": "Request exceeds the maximum size", "type": "request_too_large"}, None, None),
    "Gemini": (
        400,
        {
            "message": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            "status": "INVALID_ARGUMENT",
        },
        1_048_575,
        1_196_265,
    ),
    "OpenRouter": (
        400,
        {
            "message": "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens.",
            "code": 400,
        },
        131_072,
        150_000,
    ),
    "xAI": (
        400,
        {"message": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."},
        131_072,
        537_812,
    ),
    "Kimi": (
        400,
        {
            "message": "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
            "type": "invalid_request_error",
        },
        262_144,
        291_351,
    ),
    "GLM": (400, {"message": "Prompt exceeds max length", "code": "1261"}, None, None),
    "DashScope": (
        400,
        {
            "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
            "code": "invalid_parameter_error",
        },
        98_304,
        None,
    ),
    "TGI": (
        422,
        {"message": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5123", "type": "validation"},
        4096,
        5123,
    ),
    "Together": (
        422,
        {
            "message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512",
            "type": "invalid_request_error",
        },
        8193,
        9000,
    ),
    "Ollama": (500, {"message": "input length exceeds maximum context length", "type": "api_error"}, None, None),
    "Ollama's cloud": (400, {"message": "prompt too long; exceeded max context length by 4242 tokens"}, None, None),
    "Groq, a minute's tokens": (
        413,
        {
            "message": "Request too large for model `llama-3.1-8b-instant` in organization `o` on tokens per minute (TPM): "
            "Limit 6000, Requested 7241, please reduce your message size and try again.",
            "type": "tokens",
            "code": "rate_limit_exceeded",
        },
        6000,
        7241,
    ),
    "Groq": (
        400,
        {"message": "Please reduce the length of the messages or completion.", "code": "context_length_exceeded"},
        None,
        None,
    ),
    "Cerebras": (
        400,
        {"message": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"},
        8192,
        None,
    ),
    "llama.cpp": (
        400,
        {
            "message": "request (3432 tokens) exceeds the available context size (2048 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 3432,
            "n_ctx": 2048,
        },
        2048,
        3432,
    ),
    "llama.cpp, by its figures alone": (400, {"message": "No.", "n_prompt_tokens": 3432, "n_ctx": 2048}, 2048, 3432),
    "llama.cpp, older": (
        500,
        {"message": "the request exceeds the available context size. try increasing the context size"},
        None,
        None,
    ),
    "LM Studio": (
        400,
        {
            "message": "The number of tokens to keep from the initial prompt is greater than the context length. "
            "Try to load the model with a larger context length"
        },
        None,
        None,
    ),
    "vLLM": (
        400,
        {
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages)."
        },
        4096,
        5000,
    ),
    "vLLM, older": (
        400,
        {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096."},
        4096,
        None,
    ),
    "SGLang": (
        400,
        {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."},
        4096,
        5000,
    ),
    "Mistral": (
        400,
        {"message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"},
        32_768,
        40_000,
    ),
    "Copilot": (
        400,
        {"message": "prompt token count of 100000 exceeds the limit of 64000", "code": "model_max_prompt_tokens_exceeded"},
        64_000,
        100_000,
    ),
    "MiniMax": (400, {"message": "invalid params, context window exceeds limit (2013)"}, None, None),
    "Cohere": (
        400,
        {"message": "too many tokens: size limit exceeded by 11326 tokens. The limit for this model is 4081 tokens."},
        4081,
        None,
    ),
    "Bedrock": (400, {"message": "ValidationException: Input is too long for requested model."}, None, None),
    "DeepSeek": (
        400,
        {
            "message": "This model's maximum context length is 65536 tokens. However, you requested 81234 tokens",
            "type": "invalid_request_error",
        },
        65_536,
        81_234,
    ),
}


@pytest.mark.parametrize("name", WORDINGS)
async def test_every_known_wording_is_an_overflow_and_its_figures_are_read(compatible_peer: CompatiblePeer, name: str) -> None:
    status, error, window, prompt = WORDINGS[name]
    model = at(compatible_peer.url)
    compatible_peer.answer(Refuse(status, error))
    _, answer = await hear(model, ask(user("a")))
    await model.close()
    assert answer.failure is not None
    assert (answer.failure.kind, answer.stop) == ("overflow", "overflow")
    assert (answer.failure.window, answer.failure.prompt) == (window, prompt)
    assert window is None or model.window == min(window, 100_000), "and kept as the window"


OTHERS: dict[str, tuple[int, Any, str]] = {
    "tokens a minute": (
        429,
        {
            "message": "Rate limit reached on tokens per min. Limit: 30000, Requested 4000. Reduce the length of",
            "type": "tokens",
        },
        "rate_limit",
    ),
    "too many tokens today": (429, {"message": "You sent too many tokens today", "code": "rate_limit_exceeded"}, "rate_limit"),
    "a wrong key": (401, {"message": "The key for this context window is wrong"}, "auth"),
    "credit": (400, {"message": "Your credit balance is too low for this context length"}, "billing"),
    "a wrong field": (400, {"message": "messages.3.role: odd", "type": "invalid_request_error"}, "bad_request"),
    "the answer": (400, {"message": "max_tokens: must be at most 8192"}, "bad_request"),
    "trouble": (500, {"message": "internal error"}, "overloaded"),
    "a filter": (400, {"message": "Your prompt was filtered", "code": "content_filter"}, "refusal"),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_other_failures_are_none(compatible_peer: CompatiblePeer, name: str) -> None:
    status, error, kind = OTHERS[name]
    model = at(compatible_peer.url)
    compatible_peer.answer(Refuse(status, error))
    _, answer = await hear(model, ask(user("a")))
    await model.close()
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.window) == (kind, None)


async def test_llama_cpp_is_asked_for_the_window_it_was_started_with(compatible_peer: CompatiblePeer) -> None:
    compatible_peer.pages["/v1/models"] = {"data": [{"id": "m-1", "object": "model", "meta": {"n_ctx_train": 131072}}]}
    compatible_peer.pages["/props"] = {
        "default_generation_settings": {"n_ctx": 2048},
        "total_slots": 1,
        "modalities": {"vision": True},
    }
    model = at(compatible_peer.url, assumed=True)
    await hear(model, ask(user("a")))
    assert model.window == 2048
    await model.close()


def test_thirty_wordings_are_known() -> None:
    assert len(WORDINGS) >= 30
