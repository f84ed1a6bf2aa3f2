"""Claude, through Anthropic's Messages API (and servers that speak it)."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from agent.events import Progress, ReplyNote, TextDelta, ThinkingDelta
from agent.messages import AssistantMessage, Failure, Stop, Text, Thinking, ToolCall, Usage
from agent.models import failures
from agent.models.adapters import warm_up
from agent.models.adapters.anthropic_request import body
from agent.models.adapters.request_json import encoded, whole_url
from agent.models.adapters.sanitize import arguments_of, field_of
from agent.models.adapters.settled_entries import SettledEntries
from agent.models.catalog.known_models import PROVIDERS, ModelFacts
from agent.models.catalog.prices import Price
from agent.models.protocol import Part, Request
from agent.models.thinking import ThinkingSupport, of_capabilities
from agent.settings import Level

log = logging.getLogger(__name__)

_SESSIONS = 256


class CacheDiagnosis:
    """Asks Anthropic why a session's prompt cache was missed, and logs the reason."""

    def __init__(self) -> None:
        self._latest: OrderedDict[str, str] = OrderedDict()

    def wish(self, session: str) -> dict[str, Any]:
        """Return the ``diagnostics`` of the next request of a session."""
        return {"previous_message_id": self._latest.get(session)}

    def begin_answer(self, session: str, message: Any) -> None:
        """Take the message that begins an answer."""
        self._latest[session] = message["id"]
        self._latest.move_to_end(session)
        while len(self._latest) > _SESSIONS:
            self._latest.popitem(last=False)
        reason = field_of(field_of(message, "diagnostics"), "cache_miss_reason")
        if reason is not None:
            facts = {name: value for name, value in reason.items() if value is not None}
            kind = str(facts.pop("type", "unknown")).replace("_", " ")
            details = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
            log.info("the provider's prompt cache was missed: %s%s", kind, f" ({details})" if details else "")


_STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
}
_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 600.0
"""The longest silence that the HTTP client bears; shorter limits are ``agent.models.middleware.model_retry``'s business."""
_LOOK_UP_SECONDS = 3.0


class AnthropicModel:
    """A Model of Anthropic's API. Each call is made once; retries are the middleware's (``agent.models.middleware.model_retry``).

    ``facts`` are what is known beforehand; when they are assumed, the provider is asked for window and longest answer before
    the first call, and what it says counts from then on. The SDK is imported in a thread at that moment, not before.
    ``diagnose`` asks why the prompt cache was missed: by default only of Anthropic itself, because others may refuse the question.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str,
        facts: ModelFacts,
        base_url: str,
        provider: str = "anthropic",
        label: str = "Anthropic",
        headers: Mapping[str, str] | None = None,
        diagnose: bool | None = None,
    ) -> None:
        self.name = f"{provider}/{model}"
        self.window = facts.window
        self.max_output = facts.max_output
        self._model = model
        self._facts = facts
        self._label = label
        self._displays = True
        self._depth = ThinkingSupport(facts.thinks)
        self._settings: dict[str, Any] = {"api_key": key, "base_url": base_url, "default_headers": dict(headers or {})}
        official = base_url.rstrip("/") == PROVIDERS["anthropic"].base_url.rstrip("/")
        self._diagnosis = CacheDiagnosis() if (official if diagnose is None else diagnose) else None
        self._settled = SettledEntries()
        self._client: Any = None
        self._opening = asyncio.Lock()

    @property
    def cached_by_time(self) -> bool:
        """Whether prompts are kept for the time that is asked for, whoever serves the API."""
        return True

    @property
    def sees_pictures(self) -> bool:
        """Whether the model is shown pictures, as far as it is known."""
        return self._facts.images

    async def stream(self, request: Request) -> AsyncIterator[Part]:
        """Stream one answer. Deltas of a stream that breaks off are void: the last thing yielded then carries the failure."""
        client = await self._open()
        answer = _Answer(self.name, self._label, self._facts.price)
        try:
            events, level = await self._begin(client, request)
            if word := self._depth.word(self.name, request.thinking, level):
                yield ReplyNote(word)
            async with events:
                async for event in events:
                    with failures.read():
                        if field_of(event, "type") == "message_start" and self._diagnosis is not None and request.cache_key:
                            self._diagnosis.begin_answer(request.cache_key, event["message"])
                        delta = answer.feed(event)
                    if delta is not None:
                        yield delta
        except _expected() as error:
            failed = failures.failed(error, model=self.name, label=self._label, begun=answer.begun)
            window = failed.failure.window if failed.failure else None
            self.window = min(self.window, window or self.window)
            yield replace(failed, usage=answer.used())
            return
        try:
            with failures.read():
                whole = answer.finish()
        except failures.InvalidAnswer as error:
            failed = failures.failed(error, model=self.name, label=self._label, begun=True)
            whole = replace(failed, usage=answer.used())
        if whole.failure is None:
            begins = bool(whole.content) and isinstance(whole.content[0], Thinking)
            self._depth.record_answer(level, thought=begins, called=bool(whole.calls))
        yield whole

    async def _begin(self, client: Any, request: Request) -> tuple[Any, Level | None]:
        """Begin a stream, with a thinking level that the model takes; return both."""
        import anthropic

        level = self._depth.pick(request.thinking)
        while True:
            wanted = body(
                request,
                model=self._model,
                name=self.name,
                max_output=self.max_output,
                images=self._facts.images,
                level=level,
                style=self._depth.style,
                thoughts=request.thoughts and self._displays,
                settled=self._settled,
            )
            if self._diagnosis is not None and request.cache_key:
                wanted["diagnostics"] = self._diagnosis.wish(request.cache_key)
            try:
                return await _posted(client, wanted), level
            except anthropic.APIStatusError as error:
                if "display" in wanted.get("thinking", {}) and "display" in error.message:
                    self._displays = False  # a server that stands between, and is older than the wish
                    continue
                instead = self._depth.after(error, request.thinking, level)
                if instead is None:
                    raise
                level = instead[0]

    async def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _open(self) -> Any:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
            if self._facts.assumed:
                await self._ask_limits()
            return self._client

    def _connect(self) -> Any:
        """Import the SDK and make a client: a second or more of work, done in a thread."""
        with warm_up.loading():
            import anthropic

            from agent.models.adapters.sdk_transport import client_for

            warm_up.anthropic_messages()
        limits = anthropic.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        return anthropic.AsyncAnthropic(**self._settings, max_retries=0, timeout=limits, http_client=client_for(anthropic))

    async def _ask_limits(self) -> None:
        """Take over window and longest answer from the provider, where it says them.

        One that could not be reached is asked again before the next call.
        """
        import anthropic

        try:
            facts = await self._client.models.retrieve(self._model, timeout=_LOOK_UP_SECONDS)
        except anthropic.APIStatusError:
            facts = None
        except _expected():
            return
        window, longest = getattr(facts, "max_input_tokens", None), getattr(facts, "max_tokens", None)
        self.window = window if isinstance(window, int) and window > 0 else self.window
        self.max_output = longest if isinstance(longest, int) and longest > 0 else self.max_output
        can = getattr(facts, "capabilities", None)
        style = of_capabilities(can)
        self._depth.style = self._depth.style if style is None else style
        sees = getattr(getattr(can, "image_input", None), "supported", self._facts.images)
        self._facts = structs.replace(self._facts, assumed=False, images=bool(sees))


async def _posted(client: Any, wanted: dict[str, Any]) -> Any:
    """Post a request's body as it is, and return the SDK's stream of events. Raises what the SDK raises."""
    import anthropic

    return await client.post(
        whole_url(client, "/v1/messages"),
        content=encoded({**wanted, "stream": True}),
        cast_to=object,
        stream=True,
        stream_cls=anthropic.AsyncStream[object],
    )


def _expected() -> tuple[type[Exception], ...]:
    """What a call may raise: the SDK's errors, bare transport errors (a stream cut in the middle), and an answer that is not JSON."""
    import anthropic

    httpx2 = importlib.import_module("httpx2")  # the SDK's own HTTP client
    return anthropic.AnthropicError, httpx2.TransportError, httpx2.InvalidURL, httpx2.StreamError, ValueError, RecursionError


class _Answer:
    """One answer as it grows out of the API's events."""

    def __init__(self, model: str, label: str, price: Price | None) -> None:
        self._model = model
        self._label = label
        self._price = price
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, list[str]] = {}
        self._usage: dict[str, Any] = {}
        self._stop: str | None = None
        self._refusal = ""

    @property
    def begun(self) -> bool:
        """Whether anything arrived."""
        return bool(self._usage)

    def feed(self, event: Any) -> TextDelta | ThinkingDelta | Progress | None:
        """Take an event, and return what of it may be shown."""
        match field_of(event, "type"):
            case "message_start":
                self._count(event["message"].get("usage"))
            case "content_block_start":
                block = self._blocks[event["index"]] = dict(event["content_block"])
                return _first_words(block)
            case "content_block_delta":
                return self._grow(event["index"], event["delta"])
            case "message_delta":
                self._count(event.get("usage"))
                self._stop = event["delta"].get("stop_reason") or self._stop
                self._refusal = field_of(event["delta"].get("stop_details"), "explanation") or self._refusal
        return None

    def _grow(self, index: int, delta: dict[str, Any]) -> TextDelta | ThinkingDelta | Progress:
        block = self._blocks[index]
        match delta["type"]:
            case "text_delta":
                text = delta["text"]
                block["text"] = block.get("text", "") + text
                return TextDelta(text) if text else Progress()
            case "thinking_delta":
                thought = delta["thinking"]
                block["thinking"] = block.get("thinking", "") + thought
                return ThinkingDelta(thought) if thought else Progress()
            case "signature_delta":
                block["signature"] = block.get("signature", "") + delta["signature"]
            case "input_json_delta":
                self._json.setdefault(index, []).append(delta["partial_json"])
                return Progress(len(delta["partial_json"]))
        return Progress()

    def _count(self, usage: Any) -> None:
        """Figures are cumulative: the newest that is given counts."""
        self._usage.update({name: value for name, value in (usage or {}).items() if value is not None})

    def finish(self) -> AssistantMessage:
        """Return the whole answer, or the record of a failure when the stream ended too early, was refused or filled the window."""
        if self._stop is None:
            return replace(failures.cut(model=self._model, label=self._label, begun=self.begun), usage=self.used())
        content = tuple(part for index in sorted(self._blocks) if (part := self._part(index)) is not None)
        calls = any(isinstance(part, ToolCall) for part in content)
        stop = _STOPS.get(self._stop, "end")
        if calls and stop == "end":
            stop = "tools"
        return AssistantMessage(content=content, model=self._model, stop=stop, usage=self.used(), failure=self._failure(stop))

    def _failure(self, stop: Stop) -> Failure | None:
        if stop == "overflow":
            return Failure(
                kind="overflow",
                message=f"The answer filled the window of {self._model}.",
                hint="Shorten the conversation with /compact, or begin anew with /new.",
            )
        if stop == "refusal":
            reason = f" ({' '.join(self._refusal.split())})" if self._refusal else ""
            return Failure(
                kind="refusal",
                message=f"{self._model} declined to answer this{reason}.",
                hint="Say it differently, or choose another model with /model.",
            )
        return None

    def _part(self, index: int) -> Text | Thinking | ToolCall | None:
        block = self._blocks[index]
        match block.get("type"):
            case "text":
                return Text(text=block.get("text", "")) if block.get("text") else None
            case "thinking":
                return Thinking(text=block.get("thinking", ""), opaque=block)
            case "redacted_thinking":
                return Thinking(text="", opaque=block)
            case "tool_use":
                raw = "".join(self._json.get(index, ()))
                arguments = arguments_of(raw) if raw else block.get("input") or {}
                return ToolCall(
                    id=block["id"], name=block["name"], arguments=arguments, raw="" if arguments is not None else raw
                )
        return None

    def used(self) -> Usage | None:
        """Return what was told so far: the prompt when the answer begins, all of it at the end."""
        told = self._usage
        usage = Usage(
            input=_number(told, "input_tokens"),
            output=_number(told, "output_tokens"),
            cache_read=_number(told, "cache_read_input_tokens"),
            cache_write=_number(told, "cache_creation_input_tokens"),
        )
        if not usage.prompt and (not usage.output or self._stop is None):  # some servers begin with figures that say nothing
            return None
        if self._price is None:
            return usage
        kinds = told.get("cache_creation")
        hour = _number(kinds, "ephemeral_1h_input_tokens") if isinstance(kinds, dict) else 0
        return replace(usage, cost=self._price.of_usage(usage, written_for_an_hour=min(hour, usage.cache_write)))


def _number(fields: Mapping[str, Any], name: str) -> int:
    """A count of tokens; nothing where a server that speaks this API gives something else."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _first_words(block: Mapping[str, Any]) -> TextDelta | ThinkingDelta | None:
    """Blocks usually begin empty; a server may put the first words into the beginning."""
    if block.get("type") == "text" and block.get("text"):
        return TextDelta(block["text"])
    if block.get("type") == "thinking" and block.get("thinking"):
        return ThinkingDelta(block["thinking"])
    return None
