"""Chat completions: OpenAI, and every server that speaks as it does (Ollama, OpenRouter, vLLM, LM Studio, LiteLLM, Gemini)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.events import Aside
from agent.messages import Failure
from agent.models import failures, token_estimate
from agent.models.adapters import warm_up
from agent.models.adapters.openai_chat_answer import ChatAnswer
from agent.models.adapters.openai_chat_request import body
from agent.models.adapters.openai_connection import Connection, expected
from agent.models.thinking import Depth

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from agent.models.catalog.known_models import Facts
    from agent.models.protocol import Part, Request
    from agent.settings import Level


class OpenAIChatModel:
    """A Model of a server that speaks chat completions. Each call is tried once (twice where the server refuses an option).

    ``provider`` "openai" means OpenAI itself. When ``facts`` are assumed, compatible servers are asked for the window before a
    call until they have told it. The SDK is imported in a thread at the first call, not before.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str,
        facts: Facts,
        base_url: str,
        provider: str = "openai",
        label: str = "OpenAI",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{provider}/{model}"
        self._model = model
        self._label = label
        self._is_openai = provider == "openai"
        self._depth = Depth(facts.thinks)
        self._routed = provider == "openrouter"
        self._connection = Connection(
            model,
            key=key,
            base_url=base_url,
            provider=provider,
            headers=headers,
            facts=facts,
            rehearse=warm_up.chat_completions,
        )
        self._cuts_silently = provider == "ollama"
        self._passes_marks = provider == "openrouter" and model.startswith("anthropic/")
        self._takes_usage_option = True

    @property
    def window(self) -> int:
        """What the model can be shown, in tokens, as far as it is known."""
        return self._connection.facts.window

    @property
    def max_output(self) -> int:
        """How long one answer can be, in tokens."""
        return self._connection.facts.max_output

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Stream one answer. Deltas of a stream that breaks off are void: the last thing yielded then carries the failure."""
        await self._connection.open()
        facts = self._connection.facts
        if self._cuts_silently and not facts.assumed and token_estimate.of_request(request) > facts.window:
            yield failures.answer_with(_too_small(self.name, facts.window), model=self.name)
            return
        answer = ChatAnswer(self.name, self._label, facts.price, charges=self._routed)
        try:
            chunks, level = await self._begin(request)
            if word := self._depth.word(self.name, request.thinking, level):
                yield Aside(word)
            async with chunks:
                async for chunk in chunks:
                    with failures.read():
                        deltas = tuple(answer.feed(chunk))
                    for delta in deltas:
                        yield delta
        except expected() as error:
            failed = self._connection.failed(error, model=self.name, label=self._label, begun=answer.begun)
            yield await self._connection.with_names(failed)
            return
        for delta in answer.rest():
            yield delta
        try:
            with failures.read():
                whole = answer.finish()
        except failures.OddAnswer as error:
            whole = self._connection.failed(error, model=self.name, label=self._label, begun=True)
        yield whole

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        await self._connection.close()

    async def _begin(self, request: Request) -> tuple[Any, Level | None]:
        """Begin a stream, with a thinking level that the model takes; return both."""
        import openai

        facts, level = self._connection.facts, self._depth.pick(request.thinking)
        while True:
            wanted = body(
                request,
                model=self._model,
                name=self.name,
                max_output=facts.max_output,
                images=facts.images,
                hosted_by_openai=self._is_openai,
                marks=self._passes_marks,
                level=level,
                routed=self._routed,
            )
            try:
                return await self._counted(wanted), level
            except openai.APIStatusError as error:
                instead = self._depth.after(error, request.thinking, level)
                if instead is None:
                    raise
                level = instead[0]

    async def _counted(self, wanted: dict[str, Any]) -> Any:
        """Start a stream that reports usage at its end, or without when the server refuses to be asked; that is remembered."""
        import openai
        from openai.types.chat import ChatCompletionChunk

        if self._takes_usage_option:
            asked = {**wanted, "stream_options": {"include_usage": True}}
            try:
                return await self._connection.begin("/chat/completions", asked, ChatCompletionChunk)
            except openai.APIStatusError as error:
                if not _refuses_usage_option(error):
                    raise
            self._takes_usage_option = False
        return await self._connection.begin("/chat/completions", wanted, ChatCompletionChunk)


def _too_small(name: str, window: int) -> Failure:
    """Ollama drops the beginning of a prompt that is too long and says nothing; so it is not asked at all."""
    return Failure(
        kind="overflow",
        message=f"{name} is loaded with a window of only {window:,} tokens, which this conversation does not fit into.",
        hint="Start Ollama with a larger one (OLLAMA_CONTEXT_LENGTH=32768 ollama serve), or shorten the conversation with /compact.",
    )


def _refuses_usage_option(error: Any) -> bool:
    told = f"{error.message} {error.body}"
    return error.status_code in {400, 422} and ("stream_options" in told or "include_usage" in told)
