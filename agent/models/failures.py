"""Classifies the errors of both SDKs into kinds of failure that the middleware can act on.

Sorted by what the provider says in fields (type, code, error code), then by status, and by the wording of a message only for
context overflow, for which neither Anthropic nor most compatible servers have a field. The SDKs are not imported here: their
exceptions carry the same names and attributes (both are generated alike), which the tests hold against the real ones. An
error event in mid-stream comes with status 200 (Anthropic) or without one (OpenAI), so the fields go first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from agent.messages import AssistantMessage, Failure, FailureKind

if TYPE_CHECKING:
    from agent.models.overflow import Overflow

log = logging.getLogger(__name__)

TRANSIENT: frozenset[FailureKind] = frozenset({"rate_limit", "overloaded", "timeout", "network"})
"""Kinds for which the same request may well succeed a little later."""

_LONGEST_REST = 7 * 86_400.0
_BY_WORD: dict[str, FailureKind] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "invalid_authentication": "auth",
    "no_db_connection": "auth",  # LiteLLM without a database, of any key but its master key
    "billing_error": "billing",
    "insufficient_quota": "billing",
    "billing_hard_limit_reached": "billing",
    "billing_not_active": "billing",
    "organization_on_hold": "billing",
    "linked_organization_billing_unavailable": "billing",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "tokens": "rate_limit",
    "requests": "rate_limit",
    "resource_exhausted": "rate_limit",
    "ramp_limit_exceeded": "rate_limit",
    "overloaded_error": "overloaded",
    "api_error": "overloaded",
    "server_error": "overloaded",
    "internal_server_error": "overloaded",
    "service_unavailable": "overloaded",
    "unavailable": "overloaded",
    "timeout_error": "timeout",
    "deadline_exceeded": "timeout",
    "not_found_error": "unknown_model",
    "model_not_found": "unknown_model",
    "model_not_available": "unknown_model",
    "content_filter": "refusal",
    "content_policy_violation": "refusal",
}
_BY_STATUS: dict[int, FailureKind] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "unknown_model",
    408: "timeout",
    413: "bad_request",
    429: "rate_limit",
    504: "timeout",
    524: "timeout",
}


class InvalidAnswer(ValueError):
    """Raised where a server's answer does not have the form that its API has."""


@contextmanager
def read() -> Iterator[None]:
    """Read a part of an answer. What does not fit its form is the server's fault, and no defect of ours.

    Raises:
        OddAnswer: a field is missing, or holds another kind of thing.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, IndexError, ValidationError) as error:
        raise InvalidAnswer(f"{type(error).__name__}: {error}") from error


_SERVER_SIDE = 500
_TOO_LARGE = 413
_OTHERS = frozenset({401, 402, 403, 404, 408, 429})
"""With these a sentence about tokens is not about the window."""
_FORBIDDEN = 403
_MALFORMED = frozenset({400, 422})
"""What comes with these does not pass by itself, even where a server calls it an ``api_error``."""
_WORTH_TELLING = 10.0
_CODE = re.compile(r"^Error code: \d+ - ")
_NO_TOOLS = re.compile(
    r"does not support tools|tools? (?:use|calling|calls?|choice)? ?(?:is|are) not supported|no endpoints found that support tool"
    r"|enable-auto-tool-choice|tool[- ]call[- ]parser|does not support function",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(r"spend_limit|credit balance|insufficient (?:credits|funds|balance)", re.IGNORECASE)
_WIDTH = 300


def failed(error: Exception, *, model: str, label: str, begun: bool = False) -> AssistantMessage:
    """Return the answer that records a failure. ``label`` names the provider for people; ``begun`` says that it had begun to answer."""
    failure = sort(error, model=model, label=label)
    if begun and failure.kind == "network" and not isinstance(error, InvalidAnswer):
        return cut(model=model, label=label)
    return answer_with(failure, model=model)


def answer_with(failure: Failure, *, model: str) -> AssistantMessage:
    """Return the answer that records a failure."""
    return AssistantMessage(
        content=(), model=model, stop="overflow" if failure.kind == "overflow" else "error", failure=failure
    )


def cut(*, model: str, label: str, begun: bool = True) -> AssistantMessage:
    """Return the answer of a stream that ended before the answer did, or that never was one (``begun`` False)."""
    message, hint = f"{label} broke off in the middle of the answer.", "Say it again in a moment."
    failure = Failure(kind="network", message=message, hint=hint) if begun else _strange(label)
    return answer_with(failure, model=model)


def _strange(label: str) -> Failure:
    return Failure(
        kind="network",
        message=f"{label} did not answer in the form of its API.",
        hint="Check its address (most end in /v1): homebody models status",
    )


def sort(error: Exception, *, model: str, label: str) -> Failure:
    """Sort an exception of a model SDK, or of the HTTP client below it."""
    if isinstance(error, InvalidAnswer):
        log.warning("%s (%s) sent what its API does not have: %s", label, model, error)
        return _strange(label)
    kind = _kind(error)
    text = _provider_message(error)
    if kind == "overflow":
        return _overflowed(_overflow(error), label, model)
    if kind in {"bad_request", "unknown_model"} and _NO_TOOLS.search(text):
        return Failure(
            kind="bad_request",
            message=f"{model} cannot use tools, and an agent cannot work without them.",
            hint="Choose a model that can: homebody config set agents.defaults.model PROVIDER/MODEL (for Ollama, one tagged 'tools').",
        )
    message, hint = _words("forbidden" if kind == "auth" and _status(error) == _FORBIDDEN else kind, label, model, text)
    wait = _retry_after(error)
    if wait is not None and wait >= _WORTH_TELLING:
        message += f" It asks to wait {_span(wait)}."
    return Failure(kind=kind, message=message, hint=hint, retry_after=wait, unclear=kind == "bad_request")


def _overflowed(known: Overflow | None, label: str, model: str) -> Failure:
    message, hint = _words("overflow", label, model, "")
    if known is None:
        return Failure(kind="overflow", message=message, hint=hint)
    if known.window is not None:
        message = f"{message.removesuffix('.')}, which takes {known.window:,} tokens."
    return Failure(kind="overflow", message=message, hint=hint, window=known.window, prompt=known.prompt)


def of_words(code: str, told: str, *, model: str, label: str) -> Failure:
    """Sort what a provider says inside an answer, where no exception is raised."""
    from agent.models.overflow import overflow

    if (known := overflow(told, None, (code.lower(),))) is not None:
        return _overflowed(known, label, model)
    kind = _BY_WORD.get(code.lower(), "overloaded")
    message, hint = _words(kind, label, model, " ".join(told.split()))
    return Failure(kind=kind, message=message, hint=hint)


def _kind(error: Exception) -> FailureKind:
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
        return "timeout"
    if "APIStatusError" not in names and "APIError" not in names:
        return "network"
    if "APIConnectionError" in names:
        return "network"
    if _overflow(error) is not None:
        return "overflow"
    return _by_fields(error) or _by_status(error)


def _overflow(error: Exception) -> Overflow | None:
    """What is known of a prompt that was too long; None where it was something else. Fields go before words, words before the status.

    Words count unless a field says that it is something else: a limit on tokens a minute speaks of tokens too.
    """
    from agent.models.overflow import Overflow, is_too_large_for_a_minute, overflow

    fields = tuple(str(word).lower() for word in _fields(error))
    told, status = _provider_message(error), _status(error)
    other = next((_BY_WORD[word] for word in fields if word in _BY_WORD), None)
    worded = (other in {None, "overloaded", "unknown_model"} and status not in _OTHERS) or is_too_large_for_a_minute(
        told, status
    )
    found = overflow(told, getattr(error, "body", None), fields, worded=worded and not _NO_MONEY.search(told))
    return Overflow() if found is None and status == _TOO_LARGE and other is None else found


def _by_fields(error: Exception) -> FailureKind | None:
    text = _provider_message(error)
    words = [str(word).lower() for word in _fields(error)]
    if any(_NO_MONEY.search(word) for word in words) or _NO_MONEY.search(text):
        return "billing"
    found = next((_BY_WORD[word] for word in words if word in _BY_WORD), None)
    status = _status(error)
    if status in _MALFORMED and found in {None, "unknown_model", "overloaded"}:
        return None if found == "overloaded" else found
    return found


def _by_status(error: Exception) -> FailureKind:
    status = _status(error)
    if status is None:
        return "overloaded"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= _SERVER_SIDE or status < 300:  # noqa: PLR2004  (an error event inside a stream that began well)
        return "overloaded"
    return "bad_request"


def _fields(error: Exception) -> list[Any]:
    """What the provider says in fields, most telling first. Compatible servers nest their error in different depths."""
    found = [getattr(error, name, None) for name in ("error_code", "code", "type")]
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(inner, dict):
        found += [inner.get("code"), inner.get("type"), inner.get("status")]
    return [item for item in found if item]


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:  # noqa: PLR2004  (an error, not the stream's own 200)
        return status
    coded = next((int(str(item)) for item in _fields(error) if str(item).isdigit() and len(str(item)) == 3), None)  # noqa: PLR2004
    return coded if coded is not None else status


def _provider_message(error: Exception) -> str:
    """What the provider says in words, on one line."""
    text = str(getattr(error, "api_message", None) or getattr(error, "message", None) or error)
    return " ".join(text.split())


def _retry_after(error: Exception) -> float | None:
    """How long the provider asks to wait, in seconds, a week at most. A date is counted from the answer's own date: no clock is asked."""
    told = _told_wait(error)
    return None if told is None else min(told, _LONGEST_REST)


def _told_wait(error: Exception) -> float | None:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    if (millis := _number(headers.get("retry-after-ms"))) is not None:
        return millis / 1000
    after = headers.get("retry-after")
    if after is None:
        in_body = re.search(r"retryDelay\W+(\d+(?:\.\d+)?)s", str(getattr(error, "body", "")))
        return float(in_body[1]) if in_body else None
    if (seconds := _number(after)) is not None:
        return seconds
    try:
        return max(0.0, (parsedate_to_datetime(after) - parsedate_to_datetime(headers["date"])).total_seconds())
    except (ValueError, TypeError, KeyError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < float("inf") else None


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes} minutes" if minutes < 120 else f"{round(minutes / 60)} hours"  # noqa: PLR2004


def _words(kind: FailureKind | Literal["forbidden"], label: str, model: str, told: str) -> tuple[str, str]:
    """One line for a person, and what to do."""
    told = _CODE.sub("", told)
    short = told if len(told) <= _WIDTH else f"{told[: _WIDTH - 1]}…"
    message, hint = _WORDS[kind]
    return message.format(label=label, model=model, told=short), hint.format(label=label)


_WORDS: dict[FailureKind | Literal["forbidden"], tuple[str, str]] = {
    "auth": ("{label} does not accept the key for {model}.", "Check the key, then look at: homebody models status"),
    "forbidden": (
        "{label} does not let this key use {model} ({told}).",
        "Look at what the key may do at {label}, then at: homebody models status",
    ),
    "billing": (
        "{label} wants payment before it answers.",
        "Look at your balance and limits at {label}, or choose another model.",
    ),
    "rate_limit": (
        "{label} has had too many requests from this key.",
        "Wait a little, or add a fallback: agents.defaults.model.fallbacks",
    ),
    "overloaded": (
        "{label} is overloaded or in trouble ({told}).",
        "Try again in a moment, or add a fallback: agents.defaults.model.fallbacks",
    ),
    "timeout": ("{label} did not answer in time.", "Try again; a local model may need a smaller context or a faster machine."),
    "network": ("{label} cannot be reached ({told}).", "Check the connection and the address: homebody models status"),
    "overflow": ("The conversation is too long for {model}.", "Shorten it with /compact, or begin anew with /new."),
    "unknown_model": (
        "{label} does not know {model} ({told}).",
        "See what there is: homebody models list. If the name is right, check the address (most end in /v1).",
    ),
    "refusal": ("{label} refused to answer this.", "Say it differently, or choose another model."),
    "bad_request": (
        "{label} did not understand the request ({told}).",
        "Begin anew with /new; if it stays, try another model.",
    ),
}
