"""Chat completions for programs that speak OpenAI's API.

POST /v1/chat/completions   the last message of the user goes to an agent, as one of a chat does; its answer, whole or in pieces
GET  /v1/models             the agents that the token may use
GET  /v1/models/ID

A request is stored before anything is done with it. Whoever goes away ends the stream, and not the turn: the same request with the same
``Idempotency-Key`` has its answer.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.requests import ClientDisconnect

from channels.errors import ChannelError
from channels.openai_api.channel import OWNER, ApiChannel, Question, alias_of, key_of
from channels.openai_api.pending_answer import Ended, PendingAnswer
from gateway.api.answers import json_answer
from gateway.api.middleware import LARGEST_API_BODY, LARGEST_BODY
from gateway.api.openai.answer_response import AnswerResponse
from gateway.api.openai.chat_completion import Completion
from gateway.api.openai.openai_errors import ApiRefusal
from gateway.api.openai.request_reading import MODEL, Wanted, model_names, read_request, unknown_model
from gateway.hooks.rate_limits import RateLimits
from gateway.ledger.values import clean
from gateway.routing.routed_message import UnreadableMessage, decode_received

if TYPE_CHECKING:
    import structlog
    from starlette.requests import Request
    from starlette.responses import Response

    from agent.timing import Clock
    from gateway.base.client_tokens import ClientTokens
    from gateway.ledger.protocol import InboxLedger
    from gateway.ledger.rows import InboxRow, Outcome

GATEWAY: Final = "gateway"
"""The id of the gateway's own token, in the names of sessions."""
MOST_WAITING: Final = 64
"""Requests that wait for an answer at a time; each holds a connection, of which there are 200."""
MOST_OF_ONE: Final = 16
"""The same of one token."""
MOST_LARGE: Final = 2
"""Bodies above the usual size that are read at a time."""
REPEATED_WITHIN: Final = timedelta(minutes=15)
"""How long after a message a library that says that it asks again is taken to repeat it."""
BODY_SECONDS: Final = 60.0
WRONG_BURST: Final = 10
WRONG_PER_MINUTE: Final = 10
_LONGEST_KEY: Final = 255
_IN_A_THREAD: Final = 16 * 1024
_SUSPENDED: Final = "I asked my owner about this, in a chat of theirs. What comes of it follows after the decision."


Elsewhere: TypeAlias = "Callable[[str, bytes, Mapping[str, str]], Response | None]"
"""Returns the answer to a caller's request (its body) for an agent that another gateway of a cluster holds; None for one that is here."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token a request carries. ``only``: the one agent that it may use; empty for all."""

    token: str
    sender: str
    only: str


class OpenAiRoutes:
    """Answers requests. ``agents`` returns their ids and which is the usual one."""

    def __init__(
        self,
        channel: ApiChannel,
        tokens: ClientTokens,
        *,
        ledger: InboxLedger,
        agents: Callable[[], tuple[Sequence[str], str]],
        clock: Clock,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._channel = channel
        self._tokens = tokens
        self._ledger = ledger
        self._agents = agents
        self._clock = clock
        self._log = log
        self._wrong = RateLimits(clock.monotonic)
        self._open: dict[str, int] = {}
        self._large = 0
        self.elsewhere: Elsewhere | None = None

    async def answer(self, request: Request) -> Response:
        """Answer a request below ``/v1``."""
        try:
            return await self._answer(request, self._caller(request))
        except ApiRefusal as refused:
            self._log.info("an API request was refused", code=refused.code, error=str(refused)[:200])
            return refused.response()

    async def _answer(self, request: Request, caller: Caller) -> Response:
        path: str = request.path_params["path"]
        if request.method == "POST" and path == "chat/completions":
            return await self._complete(request, caller)
        models = self._models(caller)
        if request.method == "GET" and path == "models":
            return json_answer({"object": "list", "data": [_model(one) for one in models]})
        if request.method == "GET" and path.startswith("models/"):
            wanted = path.removeprefix("models/")
            if wanted not in models:
                raise unknown_model(wanted)
            return json_answer(_model(wanted))
        message = f"{request.method} /v1/{path[:100]} is not served; there are POST /v1/chat/completions and GET /v1/models"
        raise ApiRefusal(404, "unknown_url", message)

    def _caller(self, request: Request) -> Caller:
        if (vouched := request.scope.get("caller")) is not None:  # another gateway of the cluster looked at the token
            return Caller(**vouched)
        if request.scope.get("owner"):
            return Caller(GATEWAY, OWNER, "")
        bearer: bytes = request.scope.get("bearer", b"")
        found = self._tokens.find(bearer)
        if found is not None:
            return Caller(found.id, found.guest or OWNER, found.agent)
        address = request.client.host if request.client is not None else ""
        if wait := self._wrong.take(address, burst=WRONG_BURST, per_minute=WRONG_PER_MINUTE):
            raise ApiRefusal(
                429, "too_many_wrong_tokens", "too many wrong tokens came from here", headers={"retry-after": str(wait)}
            )
        how = "send 'Authorization: Bearer TOKEN'; `homebody api tokens add NAME` makes one for this home"
        raise ApiRefusal(
            401, "invalid_api_key", f"the token is wrong or missing; {how}", headers={"www-authenticate": "Bearer"}
        )

    def _models(self, caller: Caller) -> list[str]:
        agents, default = self._agents()
        return model_names(agents, default, caller.only)

    async def _complete(self, request: Request, caller: Caller) -> Response:
        if self._open.get(caller.token, 0) >= MOST_OF_ONE or self._channel.waiting >= MOST_WAITING:
            message = f"{MOST_OF_ONE} requests of this token, or {MOST_WAITING} in all, wait for an answer already"
            raise ApiRefusal(429, "too_many_requests", message, retry=True, headers={"retry-after": "5"})
        self._open[caller.token] = self._open.get(caller.token, 0) + 1
        handed_on = False
        try:
            key = _idempotency_key(request)
            body = await self._body(request)
            wanted = await asyncio.to_thread(read_request, body) if len(body) > _IN_A_THREAD else read_request(body)
            question = self._question(wanted, caller, key)
            held_elsewhere = self.elsewhere(question.agent, body, asdict(caller)) if self.elsewhere is not None else None
            if held_elsewhere is not None:
                return held_elsewhere
            if not key and request.headers.get("x-stainless-retry-count", "0") not in {"", "0"}:
                question = await self._repeated(question)
            pending, ended = await self._began(question)
            handed_on = True
            completion = Completion(
                id=f"chatcmpl-{question.key}", model=wanted.model, created=int(self._clock.now().timestamp())
            )

            def over() -> None:
                self._channel.leave(question.place, pending)
                self._left(caller)

            asked_usage = wanted.include_usage
            return AnswerResponse(completion, pending, ended, stream=wanted.stream, with_usage=asked_usage, over=over)
        finally:
            if not handed_on:
                self._left(caller)

    def _question(self, wanted: Wanted, caller: Caller, key: str) -> Question:
        agents, default = self._agents()
        agent = wanted.agent or caller.only or default
        allowed = agent in agents and (not caller.only or agent == caller.only)
        if not allowed or (caller.only and not wanted.agent and wanted.model != MODEL):
            raise unknown_model(wanted.model)
        return Question(
            agent=agent,
            token=caller.token,
            sender=caller.sender,
            text=wanted.text,
            context=wanted.context,
            session=wanted.user,
            name=key or secrets.token_hex(16),
            files=wanted.files,
        )

    async def _repeated(self, question: Question) -> Question:
        """Return what a library asks again by itself, as it does when a connection broke: the same message, if that was stored."""
        latest = await self._ledger.newest(f"{self._channel.name}:{self._channel.account}", question.place.address)
        if latest is None or self._clock.now() - latest.received_at > REPEATED_WITHIN or not _same(latest, question):
            return question
        return replace(question, repeats=key_of(latest.alias))

    async def _body(self, request: Request) -> bytes:
        """Read the body of a caller who is known; few large ones at a time."""
        body, large = bytearray(), False
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if not large and len(body) > LARGEST_BODY:
                        if self._large >= MOST_LARGE:
                            message = f"{MOST_LARGE} large requests are being read already"
                            raise ApiRefusal(429, "too_many_requests", message, retry=True, headers={"retry-after": "5"})
                        large = True
                        self._large += 1
                    if len(body) > LARGEST_API_BODY:
                        raise ApiRefusal(413, "request_too_large", f"the request is larger than {LARGEST_API_BODY:,} bytes")
        except TimeoutError:
            raise ApiRefusal(408, "request_timeout", "the request did not come in time", retry=True) from None
        except ClientDisconnect:
            raise ApiRefusal(400, "gone", "the request did not come whole") from None
        finally:
            self._large -= large
        return bytes(body)

    def _left(self, caller: Caller) -> None:
        """A request of a caller is over."""
        self._open[caller.token] -= 1
        if not self._open[caller.token]:
            del self._open[caller.token]

    async def _began(self, question: Question) -> tuple[PendingAnswer, Ended | None]:
        """Store a request, unless it is known. Return what comes of it, or, of one that was answered before, the end.

        Raises:
            ApiRefusal: it was not stored, or is another one under the same key.
        """
        channel = self._channel
        account, alias = f"{channel.name}:{channel.account}", alias_of(question.key)
        pending = channel.expect(question.place, question.key)
        try:
            known = await self._ledger.outcome(account, alias)
            if known is not None:
                return pending, await self._known(known, question)
            await channel.say(question)
            taken = await self._ledger.outcome(account, alias) is not None
        except ChannelError as error:
            channel.leave(question.place, pending)
            message = f"it could not be stored: {error}"
            raise ApiRefusal(503, "not_stored", message, retry=True, headers={"retry-after": "5"}) from None
        except BaseException:  # also when cancelled: nobody will take the answer
            channel.leave(question.place, pending)
            raise
        if not taken:
            channel.leave(question.place, pending)
            raise ApiRefusal(403, "not_allowed", "this token may not write to this agent")
        return pending, None

    async def _known(self, known: Outcome, question: Question) -> Ended | None:
        """Return the answer to a request that came before; None while it is not answered yet."""
        if known.row.payload and not _same(known.row, question):
            raise ApiRefusal(
                400, "idempotency_key_reused", "another request had the same Idempotency-Key", param="Idempotency-Key"
            )
        if known.suspended:
            return Ended(_SUSPENDED, _SUSPENDED, {})
        if known.row.state in {"waiting", "claimed"}:
            return None
        await self._channel.collected(known.row.turn or "")
        text = "\n\n".join(known.replies)
        if known.row.state == "failed":
            return Ended(text, text, {}, failure=text or known.row.reason or "The turn failed.")
        return Ended(text, text, {"usage": self._channel.usage_of(question.key), "stopped": known.stopped})


def _same(row: InboxRow, question: Question) -> bool:
    """Return whether a request says what a stored message does."""
    try:
        before = decode_received(row).inbound
    except UnreadableMessage:
        return False
    shape = (before.text, before.context, len(before.attachments))
    return shape == (clean(question.text), clean(question.context), len(question.files))


def _idempotency_key(request: Request) -> str:
    given = request.headers.getlist("idempotency-key")
    if len(given) > 1 or any(len(one) > _LONGEST_KEY for one in given):
        message = f"Idempotency-Key came more than once, or has more than {_LONGEST_KEY} characters"
        raise ApiRefusal(400, "invalid_value", message, param="Idempotency-Key")
    return given[0].strip() if given else ""


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": MODEL}
