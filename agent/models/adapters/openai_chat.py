"""Chat completions: OpenAI, and every server that speaks as it does (Ollama, OpenRouter, vLLM, LM Studio, LiteLLM, Gemini)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.messages import Failure
from agent.models import token_estimate
from agent.models.adapters import warm_up
from agent.models.adapters.openai_chat_answer import ChatAnswer
from agent.models.adapters.openai_chat_request import body
from agent.models.adapters.openai_model import OpenAIModel
from agent.models.protocol import Request
from agent.settings import Level

_USAGE_OPTION = "stream_options"


class OpenAIChatModel(OpenAIModel):
    """A ``Model`` of a server that speaks chat completions. The provider "openai" means OpenAI itself."""

    path = "/chat/completions"
    warm_up = staticmethod(warm_up.chat_completions)
    _takes_usage_option = True
    """Whether the server may be asked to report usage at the end of a stream; False once it refused to be asked."""

    def body(self, request: Request, level: Level | None) -> dict[str, Any]:
        """Return the body of a chat completion."""
        facts = self._connection.facts
        wanted = body(
            request,
            model=self._model,
            name=self.name,
            max_output=facts.max_output,
            images=facts.images,
            hosted_by_openai=self._provider == "openai",
            marks=self._provider == "openrouter" and self._model.startswith("anthropic/"),
            level=level,
            routed=self._provider == "openrouter",
        )
        return {**wanted, _USAGE_OPTION: {"include_usage": True}} if self._takes_usage_option else wanted

    def answer(self) -> ChatAnswer:
        """Return an answer that grows out of chunks."""
        return ChatAnswer(self.name, self._label, self._connection.facts.price, charges=self._provider == "openrouter")

    def streamed_type(self) -> Any:
        """Import and return the type of a chunk."""
        from openai.types.chat import ChatCompletionChunk

        return ChatCompletionChunk

    def refused_beforehand(self, request: Request) -> Failure | None:
        """Refuse what Ollama would cut without a word: it drops the beginning of a prompt that is too long."""
        facts = self._connection.facts
        if self._provider != "ollama" or facts.assumed or token_estimate.of_request(request) <= facts.window:
            return None
        return Failure(
            kind="overflow",
            message=f"{self.name} is loaded with a window of only {facts.window:,} tokens, which this conversation does not fit into.",
            hint="Start Ollama with a larger one (OLLAMA_CONTEXT_LENGTH=32768 ollama serve), "
            "or shorten the conversation with /compact.",
        )

    def gives_up_option(self, error: Any, wanted: Mapping[str, Any]) -> bool:
        """Stop asking for usage where the server refuses to be asked."""
        told = f"{error.message} {error.body}"
        refused = error.status_code in {400, 422} and (_USAGE_OPTION in told or "include_usage" in told)
        if not refused or _USAGE_OPTION not in wanted:
            return False
        self._takes_usage_option = False
        return True
