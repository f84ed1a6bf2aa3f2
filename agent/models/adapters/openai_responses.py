"""OpenAI's Responses API: the way to OpenAI itself, whose models reason best through it, and to others by ``models.providers.<id>.api``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.events import Aside, Progress, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Text, Thinking, ToolCall, Usage
from agent.models import failures
from agent.models.adapters import warm_up
from agent.models.adapters.openai_connection import Connection, expected
from agent.models.adapters.openai_responses_request import body
from agent.models.adapters.sanitize import arguments_of
from agent.models.thinking import Depth

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from agent.messages import Stop
    from agent.models.catalog.known_models import Facts
    from agent.models.catalog.prices import Price
    from agent.models.protocol import Part, Request
    from agent.settings import Level


class OpenAIResponsesModel:
    """A Model behind the Responses API. Each call is tried once; nothing is kept at the provider."""

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
        self._depth = Depth(facts.thinks)
        self._summarises = True
        self._told_mute = False
        self._connection = Connection(
            model,
            key=key,
            base_url=base_url,
            provider=provider,
            headers=headers,
            facts=facts,
            rehearse=warm_up.responses,
        )

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
        answer = _Answer(self.name, self._label, self._connection.facts.price)
        try:
            events, level = await self._begin(request)
            if word := self._depth.word(self.name, request.thinking, level):
                yield Aside(word)
            if request.thoughts and not self._summarises and not self._told_mute:
                self._told_mute = True
                yield Aside(
                    f"💭 {self.name} does not put its thoughts into words for this key; {self._label} may want the account verified."
                )
            async with events:
                async for event in events:
                    with failures.read():
                        delta = answer.feed(event)
                    if delta is not None:
                        yield delta
        except expected() as error:
            yield self._connection.failed(error, model=self.name, label=self._label, begun=answer.begun)
            return
        try:
            with failures.read():
                whole = answer.finish()
        except failures.OddAnswer as error:
            whole = self._connection.failed(error, model=self.name, label=self._label, begun=True)
        yield self._connection.keep(whole)

    async def _begin(self, request: Request) -> tuple[Any, Level | None]:
        """Begin a stream, with a thinking level that the model takes; return both."""
        import openai
        from openai.types.responses import ResponseStreamEvent

        facts, level = self._connection.facts, self._depth.pick(request.thinking)
        while True:
            summary = request.thoughts and self._summarises
            wanted = body(
                request,
                model=self._model,
                name=self.name,
                max_output=facts.max_output,
                images=facts.images,
                level=level,
                summary=summary,
            )
            try:
                return await self._connection.begin("/responses", wanted, ResponseStreamEvent), level
            except openai.APIStatusError as error:
                if summary and _refuses_summary(error):
                    self._summarises = False
                    continue
                instead = self._depth.after(error, request.thinking, level)
                if instead is None:
                    raise
                level = instead[0]

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        await self._connection.close()


class _Answer:
    """One answer as it grows out of the API's events. The items of the final event are the truth; deltas are for showing."""

    def __init__(self, model: str, label: str, price: Price | None) -> None:
        self._model = model
        self._label = label
        self._price = price
        self._items: dict[int, Any] = {}
        self._final: Any = None
        self._failure: Failure | None = None
        self.begun = False
        """Whether anything arrived."""

    def feed(self, event: Any) -> TextDelta | ThinkingDelta | Progress | None:
        """Take an event, and return what of it may be shown."""
        self.begun = True
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return TextDelta(event.delta) if event.delta else None
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return ThinkingDelta(event.delta) if event.delta else None
            case "response.reasoning_summary_part.added" if getattr(event, "summary_index", 0):
                return ThinkingDelta("\n\n")
            case "response.function_call_arguments.delta":
                return Progress(len(event.delta or ""))
            case "response.output_item.done":
                self._items[event.output_index] = event.item
            case "response.completed" | "response.incomplete" | "response.failed":
                self._final = event.response
            case "error":
                self._failure = failures.of_words(event.code or "", event.message or "", model=self._model, label=self._label)
        return None

    def finish(self) -> AssistantMessage:
        """Return the whole answer, or the record of a failure."""
        if self._failure is not None:
            return failures.answer_with(self._failure, model=self._model)
        if self._final is None:
            return failures.cut(model=self._model, label=self._label, begun=self.begun)
        told = getattr(self._final, "error", None)
        if self._final.status == "failed" or told is not None:
            code, words = getattr(told, "code", None) or "", getattr(told, "message", None) or "it gave no reason"
            failure = failures.of_words(code, words, model=self._model, label=self._label)
            return failures.answer_with(failure, model=self._model)
        items = list(getattr(self._final, "output", None) or (self._items[index] for index in sorted(self._items)))
        content = tuple(part for item in items for part in _parts(item))
        stop = self._stop(content, refused=any(_refuses(item) for item in items))
        return AssistantMessage(
            content=content,
            model=self._model,
            stop=stop,
            usage=self._used(),
            failure=_refusal(self._model) if stop == "refusal" else None,
        )

    def _stop(self, content: Iterable[Text | Thinking | ToolCall], *, refused: bool) -> Stop:
        reason = getattr(getattr(self._final, "incomplete_details", None), "reason", None)
        if refused or reason == "content_filter":
            return "refusal"
        if self._final.status == "incomplete":
            return "length"
        return "tools" if any(isinstance(part, ToolCall) for part in content) else "end"

    def _used(self) -> Usage | None:
        """Cached tokens are counted within the input here, unlike in ``Usage``."""
        told = getattr(self._final, "usage", None)
        shown, output = _number(told, "input_tokens"), _number(told, "output_tokens")
        if not shown and not output:
            return None
        details = getattr(told, "input_tokens_details", None)
        read = min(_number(details, "cached_tokens"), shown)
        written = min(_number(details, "cache_write_tokens"), shown - read)
        usage = Usage(input=shown - read - written, output=output, cache_read=read, cache_write=written)
        return usage if self._price is None else replace(usage, cost=self._price.of_usage(usage))


def _parts(item: Any) -> list[Text | Thinking | ToolCall]:
    match item.type:
        case "message":
            said = "".join(_words(part) for part in item.content)
            return [Text(text=said)] if said else []
        case "reasoning":
            thought = "\n\n".join(part.text for part in (*(item.summary or ()), *(getattr(item, "content", None) or ())))
            return [
                Thinking(
                    text=thought, opaque=item.model_dump(mode="json", exclude_unset=True, exclude={"status"}, warnings=False)
                )
            ]
        case "function_call":
            arguments = arguments_of(item.arguments)
            raw = "" if arguments is not None else item.arguments
            return [ToolCall(id=item.call_id, name=item.name, arguments=arguments, raw=raw)]
    return []


def _words(part: Any) -> str:
    return str(getattr(part, "text", None) or getattr(part, "refusal", None) or "")


def _refuses(item: Any) -> bool:
    return item.type == "message" and any(getattr(part, "type", "") == "refusal" for part in item.content)


def _refusal(model: str) -> Failure:
    return Failure(
        kind="refusal",
        message=f"{model} declined to answer this.",
        hint="Say it differently, or choose another model with /model.",
    )


def _number(holder: Any, name: str) -> int:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and value > 0 else 0


def _refuses_summary(error: Any) -> bool:
    """Whether it was only the wish for thoughts in words that is refused: some models have none, some accounts get none."""
    return error.status_code in {400, 403, 422} and "summar" in f"{error.message} {error.body}".lower()
